"""The recording proxy: the address at which memory systems from outside find their models."""
