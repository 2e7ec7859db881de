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
ALIASES = frozenset({"status"})
"""Verbs that the help leaves out because another one does the same."""
HEADINGS = {
    "begin": "Begin",
    "look": "Look",
    "compare": "Compare",
    "defend": "Defend",
    "exchange": "Exchange and extend",
}
SUMMARIES = {
    "demo": "Run the whole pipeline on the shipped sample.",
    "datasets": "List, download, verify and describe data sets, or make one.",
    "prepare": "Turn each haystack into a fixture, once.",
    "run": "Answer the questions from prepared fixtures.",
    "evaluate": "Grade stored answers with a judge.",
    "runs": "List runs, their scores and their progress.",
    "status": "Show the progress of runs, from their files alone.",
    "inspect": "Show a question or haystack, and what memories recall.",
    "facts": "Show the facts in a history, and when they held.",
    "retrieval": "Measure how well memories find the evidence.",
    "probe": "Try memories on made-up lives: what changed, when, whose.",
    "view": "Look at runs in a browser.",
    "compare": "Compare graded runs.",
    "report": "Write a report on graded runs.",
    "sweep": "Run, grade and compare every combination in a file.",
    "claims": "Try published figures: are they real?",
    "verify": "Check all hashes, and recompute every number from the files.",
    "sign": "Sign all files of a run as yours.",
    "judge": "Check judges on answers whose truth is known.",
    "import": "Make a run from another system's answers.",
    "export": "Write a run in a format that other tools read.",
    "merge": "Merge the runs of all shards into one run.",
    "board": "A leaderboard of verified runs, of one person or many.",
    "memory": "Write a memory system of your own, install others, and try one.",
    "plugins": "List plug-ins, their packages and their problems.",
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
        return {
            HEADINGS[group]: {verb: SUMMARIES[verb] for verb in verbs if verb not in ALIASES}
            for group, verbs in GROUPS.items()
        }


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
