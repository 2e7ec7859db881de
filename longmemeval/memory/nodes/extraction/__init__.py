"""Entries out of what is said: by rules, or by a chat model."""
