"""Verbs to begin with: demo, datasets, prepare, run, evaluate."""
