"""Verbs to compare: compare, sweep, report."""
