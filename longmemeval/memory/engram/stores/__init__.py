"""Stores for facts and their vectors: two protocols, the embedded stores, and databases with the same methods.

The record of a history is its fixture part, or the file of an `Engram`. A store is filled from the record when it is
opened (`synced`), in its own namespace, and can be filled again at any time.
"""
