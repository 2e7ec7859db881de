"""The benchmarks: one folder each, and the code they share."""
