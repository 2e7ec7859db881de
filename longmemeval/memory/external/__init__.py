"""Memory systems from outside: a user's class, a child process or an HTTP service; all exchange the same messages."""
