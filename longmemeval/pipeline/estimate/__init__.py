"""What calls would take, before one is made: the same figures for `run`, `evaluate` and `sweep`."""
