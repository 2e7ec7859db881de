"""`sweep`: every combination of a file."""
