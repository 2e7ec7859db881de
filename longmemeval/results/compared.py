"""Choose the runs to compare where nobody names them, and their baseline: one rule for terminal and pages.

The baseline is the run that is asked for, else the one named first; where a pattern, a sweep or nothing stands for the
runs, it is the full history, which a memory must be worth more than, else the oldest that is no control.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, ValidationError

from longmemeval.core.text_files import UnreadableError, decode_json
from longmemeval.results.graded.controls import control_of, is_full_history
from longmemeval.results.listing import ListedRun, list_runs
from longmemeval.results.settings import RunKind, settings_of

MOST_RUNS = 20
"""Runs that are compared where none is named."""


def baseline_first(run_ids: Sequence[str], results_dir: Path, baseline: str | None = None) -> list[str]:
    """Return runs with their baseline first, the others in the order given.

    Args:
        run_ids: the runs, none of which was named first on purpose.
        results_dir: the folder of runs.
        baseline: the one that is asked for; None: the full history, else the oldest that is no control.
    """
    first = baseline or min(run_ids, key=lambda one: _precedence(one, results_dir), default="")
    return with_first(run_ids, first) if first else []


def with_first(run_ids: Iterable[str], first: str) -> list[str]:
    """Return runs with one of them, or another one, before all others."""
    return [first, *(one for one in run_ids if one != first)]


def newest_alike(results_dir: Path) -> list[str]:
    """Return the ids of the newest graded run and of those like it in data, number of questions and judge.

    Returns:
        The baseline first, the others from the oldest on; none where no run is graded.
    """
    graded = [one for one in list_runs(results_dir) if one.scores and one.kind != "retrieval"]
    alike = [one.run for one in graded if _kind(one) == _kind(graded[0])][:MOST_RUNS]
    return baseline_first(alike[::-1], results_dir)


def _kind(one: ListedRun) -> tuple[str, int, str]:
    return one.dataset, one.questions, one.scores[0].judge


def _precedence(run_id: str, results_dir: Path) -> tuple[int, str]:
    """Return what the baseline has least of: the place of its kind, and when it began."""
    try:
        begun = decode_json((results_dir / run_id / "run.json").read_bytes(), _Begun)
        settings = settings_of(begun.kind, begun.settings)
        place = 0 if is_full_history(settings) else 1 if control_of(settings) is None else 2
        return place, begun.started_at
    except (UnreadableError, ValidationError, OSError):  # What is wrong with it, its reader says.
        return 2, ""


class _Begun(Struct):
    """The part of `run.json` that says what a run is, and when it began."""

    kind: RunKind
    settings: dict[str, Any]
    started_at: str
