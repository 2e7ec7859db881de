"""Planted answers: what a judge is asked about when it is known beforehand whether the answer is right."""
