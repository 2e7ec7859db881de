"""The front keeps what nothing beats, and what is not known beats nothing."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from longmemeval.judges.offline.lexical import LEXICAL_JUDGE
from longmemeval.measures.metrics import Latency
from longmemeval.pipeline.compare.comparison import ParetoPoint, pareto_front, pareto_points
from longmemeval.pipeline.evaluate.evaluate import EvaluateOptions, evaluate
from longmemeval.records import Usage
from longmemeval.results.graded.graded_run import RunLatency, cost_of, summarise
from tests.pipeline.helpers import answer_all, prepared_colours


def front(*points: ParetoPoint) -> list[str]:
    return pareto_front(points)


def test_better_in_one_and_worse_in_none_dominates() -> None:
    good = ParetoPoint("good", 0.8, prompt_tokens=100, latency_ms=10, cost_usd=1.0)
    assert front(good, ParetoPoint("less accurate", 0.7, 100, 10, 1.0)) == ["good"]
    assert front(good, ParetoPoint("longer", 0.8, 101, 10, 1.0)) == ["good"]
    assert front(good, ParetoPoint("slower", 0.8, 100, 11, 1.0)) == ["good"]
    assert front(ParetoPoint("dearer", 0.8, 100, 10, 1.1), good) == ["good"]


def test_what_is_better_somewhere_stays() -> None:
    points = (
        ParetoPoint("accurate", 0.9, 9000, 900, 9.0),
        ParetoPoint("short", 0.5, 10, 900, 9.0),
        ParetoPoint("quick", 0.5, 9000, 1, 9.0),
        ParetoPoint("cheap", 0.5, 9000, 900, 0.0),
        ParetoPoint("none of it", 0.5, 9000, 900, 9.0),
    )
    assert front(*points) == ["accurate", "short", "quick", "cheap"]


def test_equal_points_stay_together() -> None:
    assert front(ParetoPoint("a", 0.5, 10, 1, 0.0), ParetoPoint("b", 0.5, 10, 1, 0.0)) == ["a", "b"]
    assert front() == []


def test_unknown_neither_dominates_nor_is_dominated_by_its_axis() -> None:
    unpriced = ParetoPoint("unpriced", 0.8, 100, 10, None)
    # By the axes that both have, the one that is better there is better.
    assert front(unpriced, ParetoPoint("priced", 0.7, 100, 10, 0.0)) == ["unpriced"]
    assert front(unpriced, ParetoPoint("priced", 0.9, 100, 10, 99.0)) == ["priced"]
    # That one of them costs nothing is no advantage over a price nobody knows.
    assert front(unpriced, ParetoPoint("priced", 0.8, 100, 10, 0.0)) == ["unpriced", "priced"]
    assert front(ParetoPoint("only this", 0.8), ParetoPoint("and that", 0.8)) == ["only this", "and that"]
    assert front(ParetoPoint("only this", 0.8), ParetoPoint("less", 0.7)) == ["only this"]


figures = st.integers(0, 3).map(float)


@given(st.lists(st.tuples(figures, figures, figures, figures), min_size=1, max_size=8))
def test_whoever_is_not_on_the_front_is_beaten_by_one_who_is(rows: list[tuple[float, float, float, float]]) -> None:
    points = {str(number): ParetoPoint(str(number), *row) for number, row in enumerate(rows)}
    kept = front(*points.values())
    assert kept
    for name, point in points.items():
        pairs = [front(point, points[other]) for other in kept if other != name]
        assert (name in kept) == all(name in pair for pair in pairs)


def test_points_of_runs_leave_out_the_oracle_and_unknown_prices(tmp_path: Path) -> None:
    usage = Usage(calls=2, cost_usd=0.5)
    dataset, folders = prepared_colours(tmp_path, 2)
    answer_all(dataset, folders)
    graded = evaluate("r", options=EvaluateOptions(judge=LEXICAL_JUDGE), folders=folders)
    summary = summarise(graded.files, graded.asked, graded.metrics, folders)
    assert summary.costs.total.usd == 0.0
    summary = structs.replace(summary, costs=structs.replace(summary.costs, total=cost_of(usage)))
    assert summary.metrics.overall.accuracy == 1.0
    (point,) = pareto_points([summary, structs.replace(summary, reads_gold=True)])
    median = summary.latency.total.p50
    assert median is not None
    assert summary.latency.model.p50 is not None
    assert median > summary.latency.model.p50
    assert point == ParetoPoint("r", 1.0, summary.mean_prompt_tokens, round(median), 0.5)
    half_priced = cost_of(structs.replace(usage, unpriced_calls=1))
    assert (half_priced.usd, half_priced.known_usd) == (None, 0.5)
    unknown = RunLatency(*[Latency(None, None)] * 3)
    points = pareto_points(
        structs.replace(summary, costs=structs.replace(summary.costs, total=total), latency=latency)
        for total, latency in ((half_priced, summary.latency), (cost_of(None), unknown))
    )
    assert [point.cost_usd for point in points] == [None, None]
    assert points[1] == ParetoPoint("r", 1.0, summary.mean_prompt_tokens)
