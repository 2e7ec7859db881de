"""Estimates of model calls before any is made: the same figures for `run`, `evaluate` and `sweep`."""
