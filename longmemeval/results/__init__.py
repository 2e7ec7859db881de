"""What a run's folder holds: manifest, journals, selection, index; and how work on a run begins, goes on and ends."""
