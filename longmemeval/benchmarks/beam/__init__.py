"""BEAM."""
