"""The benchmarks: one folder each, and what they share."""
