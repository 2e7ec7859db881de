"""Mem0: facts a chat model extracts."""
