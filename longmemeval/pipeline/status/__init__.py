"""`status`: progress of runs and preparations, from their files alone."""
