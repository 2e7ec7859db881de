"""Estimate calls before any is made: the shared parts of all verbs' estimates. Each verb has its `estimate.py`."""
