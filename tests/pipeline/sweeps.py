"""Small sweeps over four questions about colours."""

from pathlib import Path
from typing import Any

import yaml

from longmemeval.pipeline.sweep.estimate import SweepEstimate
from longmemeval.pipeline.sweep.sweep import SweepReport, sweep
from tests.pipeline.helpers import colours, folders_in
from tests.server import ModelServer

OFFLINE = "offline/extractive"
LEXICAL = "offline/lexical"
PRICED = "openai/gpt-4o-mini"
BASE: dict[str, Any] = {
    "name": "s",
    "dataset": "colours.json",
    "prepare": {"jobs": 1},
    "memories": ["none", "last-k"],
    "models": [{"spec": OFFLINE, "name": "m"}],
    "judges": [LEXICAL],
}


def written(folder: Path, **changes: object) -> Path:
    """A small sweep's file after `changes`, beside the data it names."""
    file = folder / "sweep.yaml"
    file.write_text(yaml.safe_dump(BASE | changes, sort_keys=False))
    if not (folder / "colours.json").exists():
        colours(folder / "colours.json", 4)
    return file


def swept(folder: Path, *, max_cost: float | None = None, **changes: object) -> SweepReport:
    return sweep(written(folder, **changes), max_cost=max_cost, folders=folders_in(folder))


def estimated(folder: Path, **changes: object) -> SweepEstimate:
    return sweep(written(folder, **changes), dry_run=True, folders=folders_in(folder)).estimate


def served(server: ModelServer, spec: str = PRICED, name: str = "m") -> dict[str, object]:
    return {"spec": spec, "name": name, "api_base": server.url, "max_attempts": 1}
