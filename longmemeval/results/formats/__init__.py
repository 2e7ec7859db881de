"""Formats of other tools, for `import` and `export`."""
