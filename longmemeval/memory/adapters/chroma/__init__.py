"""Chroma: plain vectors."""
