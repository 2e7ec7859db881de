"""What `serve.py` is made of. Standard library only, and relative imports: it runs where longmemeval is not."""
