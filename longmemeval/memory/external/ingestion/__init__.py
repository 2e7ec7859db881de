"""Filling memory services with histories."""
