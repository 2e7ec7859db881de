"""Planted answers: answers known to be right or wrong by construction, with which judges are checked."""
