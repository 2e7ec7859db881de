"""Judges: rules, template sets, and the parts that benchmarks build their own judges from."""
