"""What Python users hold: a data set with its selection, a memory, runs; and the verbs that take and return them."""
