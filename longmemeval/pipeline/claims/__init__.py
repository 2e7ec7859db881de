"""`claims`: published figures as settings of this harness, and the results of trying them."""

from pathlib import Path

SHIPPED = Path(__file__).with_name("sources")
"""The folder of this package's claims, a YAML file for each source and table."""
