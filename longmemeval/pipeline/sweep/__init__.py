"""`sweep`: every combination of a file's entries."""
