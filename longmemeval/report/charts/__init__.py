"""Charts as SVG, each with its figures as a table."""
