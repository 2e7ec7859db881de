"""Memory classes handed over as objects, defined in a notebook or a script: they run in this process."""
