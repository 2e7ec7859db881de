"""Which warnings all compared memories share: these are said once, and a score is marked for the others alone."""

from collections.abc import Collection, Sequence

from longmemeval.pipeline.compare.verdict import is_control
from longmemeval.results.graded.graded_run import RunSummary
from longmemeval.results.scores.warnings import ScoreWarning

Warned = Sequence[tuple[str, Sequence[ScoreWarning]]]
"""What each run is called, and its warnings."""


def memories_in(summaries: Sequence[RunSummary]) -> list[RunSummary]:
    """Return the memories that are compared: all but the baseline, which is the first, and controls."""
    return [one for one in summaries[1:] if not is_control(one)]


def is_shared(names: Collection[str], memories: Collection[str]) -> bool:
    """Return whether all compared memories are among these runs; False where none is compared."""
    return bool(memories) and set(memories) <= set(names)


def marked_runs(summaries: Sequence[RunSummary]) -> set[str]:
    """Return the ids of the runs with a warning that not all compared memories share."""
    memories = [one.run_id for one in memories_in(summaries)]
    runs = by_code([(one.run_id, one.warnings) for one in summaries]).values()
    return {one for names in runs if not is_shared(names, memories) for one in names}


def by_code(runs: Warned) -> dict[str, list[str]]:
    """Return which runs have a warning, by its code."""
    found: dict[str, list[str]] = {}
    for name, warnings in runs:
        for code in dict.fromkeys(one.code for one in warnings):
            found.setdefault(code, []).append(name)
    return found
