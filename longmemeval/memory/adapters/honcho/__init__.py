"""Honcho, hosted."""
