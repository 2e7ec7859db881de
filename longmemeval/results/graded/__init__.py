"""A graded run: its figures, costs, controls, and the known errors of its judge."""
