"""Mem0 Platform, hosted."""
