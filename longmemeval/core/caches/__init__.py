"""Results kept: for one process, and in a file that processes share."""
