"""The parts of `serve.py`. Standard library only, and relative imports: it runs where longmemeval is not installed."""
