"""Graphiti: a graph of facts with times."""
