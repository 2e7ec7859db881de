"""Judges and readings that need no model: rules over the words of an answer."""
