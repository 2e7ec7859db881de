"""The scores of a run: as stored, recomputed from its files, and checked before they are shown."""
