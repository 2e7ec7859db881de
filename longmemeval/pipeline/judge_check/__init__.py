"""`judge check`: the error rates of a judge on planted answers."""
