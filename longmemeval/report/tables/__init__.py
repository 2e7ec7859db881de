"""Tables and the notes under them, ready to print."""
