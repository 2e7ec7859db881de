"""Verbs to look closer: runs, status, inspect, facts, retrieval."""
