"""The scores of a run: as stored, made again from its files, and what has to hold before they are shown."""
