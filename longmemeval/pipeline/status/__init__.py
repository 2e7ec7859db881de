"""`status`: how far runs and preparations are, from their files alone."""
