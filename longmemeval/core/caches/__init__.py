"""Caches: within one process, and in a file that processes share."""
