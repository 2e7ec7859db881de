"""The files of a run (manifest, journals, selection, index) and its lifecycle: begin, resume, end."""
