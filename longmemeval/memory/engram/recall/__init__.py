"""Recall of the engine's facts."""
