"""Executors of the independent tasks of `prepare` and `retrieval`: processes, threads or other machines."""
