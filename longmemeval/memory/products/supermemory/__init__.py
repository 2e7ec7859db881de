"""Supermemory, hosted."""
