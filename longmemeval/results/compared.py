"""Choose the runs to compare if none are named, and their baseline, by one rule for terminal, pages and Python.

The baseline is the requested run, else the run named first. If a pattern, a sweep or nothing selects the runs, it is
the full history, which a memory must beat, else the oldest run that is not a control. A run that reads the gold
evidence is the baseline only if it is requested.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import ValidationError

from longmemeval.results.graded.judge_checks import control_of, is_full_history
from longmemeval.results.listing import ListedRun, abridged, list_runs
from longmemeval.results.manifest import RunManifest, run_ids
from longmemeval.results.settings import RunSettings, settings_of

MOST_RUNS = 20
"""Maximum number of runs compared if none are named."""


def baseline_first(run_ids: Sequence[str], results_dir: Path, baseline: str | None = None) -> list[str]:
    """Return runs with their baseline first, the others in the order given.

    Args:
        run_ids: ids of runs, in an order that chooses no baseline.
        baseline: id of the requested baseline; None: the full history, else the oldest run that is not a control.
    """
    first = baseline or min(run_ids, key=lambda run_id: _precedence(run_id, results_dir), default="")
    return with_first(run_ids, first) if first else []


def in_order_named(run_ids: Sequence[str], results_dir: Path, baseline: str | None = None) -> list[str]:
    """Return runs named in an order that chooses the baseline: the first that does not read the gold evidence.

    Args:
        run_ids: ids of runs.
        baseline: id of the requested baseline, which need not be among them; None: the order chooses.
    """
    if baseline:
        return with_first(run_ids, baseline)
    first = next((place for place, run_id in enumerate(run_ids) if not _reads_gold(run_id, results_dir)), 0)
    return [*run_ids[first : first + 1], *run_ids[:first], *run_ids[first + 1 :]]


def _reads_gold(run_id: str, results_dir: Path) -> bool:
    settings, _ = _settings(run_id, results_dir)
    return settings is not None and settings.reads_gold


def with_first(run_ids: Iterable[str], first: str) -> list[str]:
    """Return runs with `first`, which may be another run, before all others."""
    return [first, *(run_id for run_id in run_ids if run_id != first)]


def newest_alike(results_dir: Path) -> list[str]:
    """Return the ids of the newest graded run and of runs with the same data, number of questions and judge.

    Returns:
        The baseline first, then the others, oldest first; empty if no run is graded.
    """
    graded = [run for run in list_runs(results_dir) if run.scores and run.kind != "retrieval"]
    alike = [run.run for run in graded if _kind(run) == _kind(graded[0])][:MOST_RUNS]
    return baseline_first(alike[::-1], results_dir)


def has_graded_alike(manifest: RunManifest, results_dir: Path) -> bool:
    """Return whether another run on the same data, with as many questions, has judgements."""
    wanted = manifest.dataset["name"], len(manifest.question_ids)
    return any(
        (found := abridged(results_dir / run_id)) is not None
        and (found.dataset.get("name"), len(found.question_ids)) == wanted
        for run_id in run_ids(results_dir)
        if run_id != manifest.run_id and (results_dir / run_id / "judgements").is_dir()
    )


def _kind(run: ListedRun) -> tuple[str, int, str]:
    return run.dataset, run.questions, run.scores[0].judge


def control_in_words(run_id: str, results_dir: Path) -> str:
    """Return `control` or `control, reads gold`; empty for a memory, and where a run cannot be read."""
    settings, _ = _settings(run_id, results_dir)
    if settings is None:
        return ""
    return ", ".join([*(["control"] if control_of(settings) else []), *(["reads gold"] if settings.reads_gold else [])])


def _precedence(run_id: str, results_dir: Path) -> tuple[int, str]:
    """Return the sort key of a run, lowest for the baseline: the rank of its kind, then its start time."""
    settings, started_at = _settings(run_id, results_dir)
    if settings is None:
        return 2, ""
    if settings.reads_gold:
        return 3, started_at
    return 0 if is_full_history(settings) else 1 if control_of(settings) is None else 2, started_at


def _settings(run_id: str, results_dir: Path) -> tuple[RunSettings | None, str]:
    """Return settings and start time of a run; None where it cannot be read."""
    found = abridged(results_dir / run_id)
    try:
        return (settings_of(found.kind, found.settings), found.started_at) if found else (None, "")
    except ValidationError:
        return None, ""
