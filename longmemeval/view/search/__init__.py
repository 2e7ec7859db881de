"""Searching the questions of a comparison: literal text in answers and in what was recalled, patterns with a limit."""
