"""Shared basics: files and journals, locks, caches, secrets, text, workers, stores on the network."""
