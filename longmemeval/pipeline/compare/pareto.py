"""Find the runs that no other beats: the Pareto front of accuracy against tokens, time and money."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from longmemeval.results.graded.graded_run import RunSummary


class ParetoPoint(Struct, frozen=True):
    """One run on the four axes; None: not known."""

    name: str
    accuracy: float
    """Between 0 and 1, or the mean of a judge that gives scores: higher is better. On the other axes lower is."""
    prompt_tokens: float | None = None
    """Mean per question."""
    latency_ms: float | None = None
    """Median per question, recall and model together, whole milliseconds: less is measurement noise."""
    cost_usd: float | None = None
    """The cost of preparing, analysing the questions, answering and judging."""


def pareto_front(points: Sequence[ParetoPoint]) -> list[str]:
    """Return the names of the points that no other one dominates, in the order given.

    A point dominates another if it is nowhere worse and somewhere better. An axis on which one of the two is unknown is
    left out of their comparison.

    Args:
        points: any number of runs; equal ones are all on the front, or none of them.
    """
    return [point.name for point in points if not any(_dominates(other, point) for other in points)]


def pareto_points(summaries: Iterable[RunSummary]) -> list[ParetoPoint]:
    """Return the runs as points, without those that read the gold evidence: a ceiling is not a memory system."""
    return [_point(summary) for summary in summaries if not summary.reads_gold]


def _point(summary: RunSummary) -> ParetoPoint:
    median = summary.latency.total.p50
    return ParetoPoint(
        name=summary.run_id,
        accuracy=summary.metrics.overall.accuracy,
        prompt_tokens=summary.mean_prompt_tokens,
        latency_ms=None if median is None else round(median),
        cost_usd=summary.costs.total.usd,
    )


def _dominates(a: ParetoPoint, b: ParetoPoint) -> bool:
    costs = ((a.prompt_tokens, b.prompt_tokens), (a.latency_ms, b.latency_ms), (a.cost_usd, b.cost_usd))
    gains = [a.accuracy - b.accuracy] + [
        theirs - own for own, theirs in costs if own is not None and theirs is not None
    ]
    return min(gains) >= 0 and max(gains) > 0
