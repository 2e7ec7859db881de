"""Memory systems from outside: a class of the user's, a child process, an HTTP service; one set of messages for all."""
