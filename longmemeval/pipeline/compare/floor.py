"""Whether the runs of a comparison are better than the best control that knows nothing."""

from collections.abc import Sequence

from longmemeval.pipeline.compare.comparison import PairResult
from longmemeval.pipeline.compare.graded_run import RunSummary


def floor_note(summaries: Sequence[RunSummary], pairs: Sequence[PairResult]) -> str | None:
    """A sentence on which runs the best floor is not significantly behind, by the tests of the pairs.

    Args:
        summaries: of the runs.
        pairs: every one of them with every later one.

    Returns:
        None where no run is a floor, or all are controls.
    """
    floors = [one for one in summaries if one.control == "floor"]
    systems = [one.run_id for one in summaries if one.control is None]
    if not floors or not systems:
        return None
    best = max(floors, key=lambda one: one.metrics.overall.accuracy)
    won = {pair.a for pair in pairs if pair.b == best.run_id and pair.significant and pair.difference > 0}
    won |= {pair.b for pair in pairs if pair.a == best.run_id and pair.significant and pair.difference < 0}
    behind = [run_id for run_id in systems if run_id not in won]
    score = f"{best.metrics.overall.accuracy * 100:.1f} %"
    control = f"the best control that knows nothing, {best.run_id} ({best.model} with memory {best.memory}, {score})"
    if len(systems) == 1:
        return f"{systems[0]} is {'NOT ' if behind else ''}significantly better than {control}."
    if not behind:
        return f"Every run is significantly better than {control}."
    if behind == systems:
        return f"NO run is significantly better than {control}."
    return f"NOT significantly better than {control}: {', '.join(behind)}."
