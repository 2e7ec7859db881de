"""Find the warnings that all compared memories share: they are printed once, and only the others mark a score."""

from collections.abc import Collection, Sequence

from longmemeval.pipeline.compare.verdict import is_control
from longmemeval.results.graded.graded_run import RunSummary
from longmemeval.results.scores.warnings import ScoreWarning

Warned = Sequence[tuple[str, Sequence[ScoreWarning]]]
"""The display name of each run with its warnings."""


def memories_in(summaries: Sequence[RunSummary]) -> list[RunSummary]:
    """Return the compared memories: all runs but the first, which is the baseline, and controls."""
    return [summary for summary in summaries[1:] if not is_control(summary)]


def is_shared(names: Collection[str], memories: Collection[str]) -> bool:
    """Return True if all compared memories are among these runs; False if there are none."""
    return bool(memories) and set(memories) <= set(names)


def marked_runs(summaries: Sequence[RunSummary]) -> set[str]:
    """Return the ids of the runs that have a warning which not all compared memories share."""
    memories = [summary.run_id for summary in memories_in(summaries)]
    runs = by_code([(summary.run_id, summary.warnings) for summary in summaries]).values()
    return {name for names in runs if not is_shared(names, memories) for name in names}


def by_code(runs: Warned) -> dict[str, list[str]]:
    """Return the names of the runs that have each warning, by the warning's code."""
    names: dict[str, list[str]] = {}
    for name, warnings in runs:
        for code in dict.fromkeys(warning.code for warning in warnings):
            names.setdefault(code, []).append(name)
    return names
