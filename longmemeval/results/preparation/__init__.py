"""The record of a preparation: its journal, and its cost to each run."""
