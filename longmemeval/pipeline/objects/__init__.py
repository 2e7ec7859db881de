"""Objects of Python users: a data set with its selection, a memory, runs; and the verbs that use them."""
