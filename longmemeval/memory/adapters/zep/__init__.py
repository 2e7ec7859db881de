"""Zep, hosted."""
