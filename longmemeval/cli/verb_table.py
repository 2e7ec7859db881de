"""The verbs in the order of the help; the module of each is imported when the verb is used.

Printing the list of verbs therefore imports none of them, nor the libraries that declare their options.
"""

from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

import typer
import typer.main

from longmemeval.cli.panels import Verbs

if TYPE_CHECKING:
    from typer._click import Command

GROUPS = {
    "begin": ("demo", "datasets", "prepare", "run", "evaluate"),
    "look": ("runs", "status", "inspect", "facts", "retrieval", "probe", "view"),
    "compare": ("compare", "report", "sweep", "claims"),
    "defend": ("verify", "sign", "judge"),
    "exchange": ("import", "export", "merge", "board", "memory", "plugins"),
}
"""The verbs of each group of the help, in its order."""
HEADINGS = {
    "begin": "Run",
    "look": "Inspect",
    "compare": "Compare",
    "defend": "Verify",
    "exchange": "Share and extend",
}
SUMMARIES = {
    "demo": "Run the full pipeline on the bundled sample, offline.",
    "datasets": "List, download, verify or create datasets.",
    "prepare": "Ingest the chat histories of a dataset.",
    "run": "Answer questions with a memory and a model.",
    "evaluate": "Grade answers with a judge.",
    "runs": "List runs with their scores and progress.",
    "status": "Show how runs stand, why they ended, and the next command.",
    "inspect": "Show what memories retrieve for a question.",
    "facts": "Show facts extracted from a history, with dates.",
    "retrieval": "Measure evidence recall without a chat model.",
    "probe": "Test memories on synthetic user histories.",
    "view": "View runs in a browser.",
    "compare": "Compare graded runs with paired significance tests.",
    "report": "Write an HTML, Markdown or LaTeX report.",
    "sweep": "Run, grade and compare a grid of configurations.",
    "claims": "Reproduce published scores.",
    "verify": "Check all hashes and recompute all scores.",
    "sign": "Sign a run with your private key.",
    "judge": "Measure a judge's error rates, or compare two judges.",
    "import": "Import answers from another system.",
    "export": "Export a run to a format that other tools read.",
    "merge": "Merge the runs of all shards.",
    "board": "Build a leaderboard of verified runs.",
    "memory": "Create, install and check memory systems.",
    "plugins": "List plugins, their packages and their problems.",
}
"""The first line of each verb's own help; a test compares them."""
_MODULES = {verb: verb for verbs in GROUPS.values() for verb in verbs} | {"import": "import_run"}


class AllVerbs(Verbs):
    """The group of all verbs."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _Commands()

    def summaries(self) -> dict[str, dict[str, str]]:
        """Return the line of each verb in the help by the heading of its group, without importing any verb."""
        return {HEADINGS[group]: {verb: SUMMARIES[verb] for verb in verbs} for group, verbs in GROUPS.items()}


class _Commands(MutableMapping[str, "Command"]):
    """The verbs by name, each loaded when it is looked up."""

    def __init__(self) -> None:
        self._loaded: dict[str, Command] = {}

    def __getitem__(self, name: str) -> "Command":
        if name not in self._loaded:
            if name not in SUMMARIES:
                raise KeyError(name)
            self._loaded[name] = _load(name)
        return self._loaded[name]

    def __setitem__(self, name: str, command: "Command") -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(SUMMARIES)

    def __len__(self) -> int:
        return len(SUMMARIES)


def _load(name: str) -> "Command":
    """Return a verb: the `app` of its module, or the function named like the module, with its `EXAMPLE`."""
    module = import_module(f"longmemeval.cli.verbs.{_MODULES[name]}")
    if hasattr(module, "app"):
        group = typer.main.get_group(module.app)
        group.name = name
        return group
    from longmemeval.cli.options import add_verb

    alone = typer.Typer(add_completion=False)
    add_verb(alone, name, getattr(module, module.__name__.rpartition(".")[2]), example=module.EXAMPLE)
    return typer.main.get_command(alone)
