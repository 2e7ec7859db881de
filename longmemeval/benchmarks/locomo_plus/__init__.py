"""LoCoMo-Plus."""
