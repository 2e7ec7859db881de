"""Find the runs that no other run dominates: the Pareto front of accuracy against tokens, time and money."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from longmemeval.results.graded.graded_run import RunSummary


class ParetoPoint(Struct, frozen=True):
    """One run on the four axes; None: unknown."""

    name: str
    accuracy: float
    """The accuracy between 0 and 1, or the mean score if the judge gives scores.

    Higher is better; on the other axes lower is.
    """
    prompt_tokens: float | None = None
    """Mean number of prompt tokens per question."""
    latency_ms: float | None = None
    """Median time per question, recall and model together, in whole milliseconds: fractions are measurement noise."""
    cost_usd: float | None = None
    """The cost of preparing, analysing the questions, answering and judging."""


def pareto_front(points: Sequence[ParetoPoint]) -> list[str]:
    """Return the names of the points that no other point dominates, in the order given.

    A point dominates another if it is nowhere worse and somewhere better. An axis on which either is unknown is left
    out of their comparison. Of equal points, either all are on the front or none.
    """
    return [point.name for point in points if not any(_dominates(other, point) for other in points)]


def pareto_points(summaries: Iterable[RunSummary]) -> list[ParetoPoint]:
    """Return the runs as points, leaving out those that read the gold evidence: a ceiling is not a memory system."""
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
