"""Analysis of a question for the search: its parts, and the time it is about."""
