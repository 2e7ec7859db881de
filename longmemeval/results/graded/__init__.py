"""A graded run: its figures, costs, controls, and what its judge is known to get wrong."""
