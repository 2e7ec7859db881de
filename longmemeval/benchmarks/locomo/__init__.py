"""LoCoMo."""
