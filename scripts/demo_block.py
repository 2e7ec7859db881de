"""README's block of `longmemeval demo`, and its picture: what they take from a folder in which the demo ran."""

from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path
from types import MappingProxyType

COLUMNS = "100"
"""Width of the terminal that README shows."""
FIGURES = ("report", "demo-*", "--baseline", "demo-full-history", "--format", "figures", "--output", "figures")
"""The command that draws the picture, in light and dark."""
_PICTURES: Mapping[str, str] = MappingProxyType(
    {"docs/comparison.svg": "overall.svg", "docs/comparison-dark.svg": "overall-dark.svg"}
)
_OF_THE_FIRST_TIME = ("Prepared", "  parts:", "Embeddings", "Already prepared")
_BELOW_THE_TABLE = ("Not shown at", "▲")


def demo_block(printed: str) -> str:
    """Return the verdict and the table of a demo, without the lines on preparing, which appear once."""
    lines = (line.rstrip() for line in printed.strip().splitlines() if not line.startswith(_OF_THE_FIRST_TIME))
    shown = "\n".join(takewhile(lambda line: not line.startswith(_BELOW_THE_TABLE), lines)).rstrip()
    return f"```text\n{shown}\n```"


def pictures(folder: Path) -> dict[str, str]:
    """Return README's pictures by their path in the project, from a folder where `FIGURES` ran."""
    return {path: (folder / "figures" / name).read_text() + "\n" for path, name in _PICTURES.items()}
