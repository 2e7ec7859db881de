"""`longmemeval view`: live pages over all runs, served on this machine alone."""
