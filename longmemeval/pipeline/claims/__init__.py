"""`claims`: figures that others published, as settings of this harness, and what comes of trying them."""

from pathlib import Path

SHIPPED = Path(__file__).with_name("sources")
"""The folder of this package's claims, a YAML file for each source and table."""
