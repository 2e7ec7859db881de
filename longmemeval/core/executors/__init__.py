"""Who does the work: the independent tasks of `prepare` and `retrieval`, in processes, threads or on other machines."""
