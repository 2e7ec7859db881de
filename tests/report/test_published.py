"""Published figures: those shipped are whole and add up, and come by data set, judge and metric."""

from pathlib import Path

import pytest
from msgspec import structs

from longmemeval.benchmarks.longmemeval.loader import LongMemEvalDataset
from longmemeval.judges.protocol import JudgeIdentity
from longmemeval.pipeline.claims.catalogue import Claim, all_claims
from longmemeval.report.tables.comparison import published_table
from longmemeval.report.text import published_for
from tests.support import record, write_dataset

LOCOMO_COUNTS = {"single-hop": 841, "multi-hop": 282, "temporal": 321, "open-domain": 96, "adversarial": 446}


def mean_by_counts(figure: Claim) -> float:
    counts = {name: LOCOMO_COUNTS[name] for name in figure.by_group}
    return sum(figure.by_group[name] * count for name, count in counts.items()) / sum(counts.values())


def test_every_figure_says_where_it_is_from() -> None:
    figures = all_claims()
    assert {figure.benchmark for figure in figures} >= {"longmemeval", "locomo", "convomem", "locomo-plus", "beam"}
    for figure in figures:
        assert all((figure.system, figure.variant, figure.metric, figure.judge, figure.source))
        told = figure.n is not None or figure.benchmark == "convomem"
        assert told or figure.variant.endswith("not said")


@pytest.mark.parametrize(
    ("dataset", "variant", "system", "reader", "value"),
    [
        ("longmemeval", "S, first release", "whole history, JSON", "GPT-4o", 0.606),
        ("longmemeval", "oracle", "evidence sessions, JSON, chain of note", "GPT-4o", 0.924),
        ("longmemeval", "M, first release", "Stella V5 1.5B, rounds found by text and facts, top 10", "GPT-4o", 0.72),
        ("locomo", "10 conversations", "conversation, cut to 128K", "gpt-4-turbo", 0.516),
        ("locomo", "10 conversations", "DRAGON, observations, top 5", "gpt-3.5-turbo", 0.433),
        ("locomo", "categories 1 to 4", "Mem0", "gpt-4o-mini", 0.6688),
        ("locomo", "categories 1 to 4", "whole conversation (26,031 tokens)", "gpt-4o-mini", 0.729),
    ],
)
def test_known_figures(dataset: str, variant: str, system: str, reader: str, value: float) -> None:
    found = [
        figure.value
        for figure in all_claims()
        if (figure.benchmark, figure.variant, figure.system, figure.reader) == (dataset, variant, system, reader)
        and figure.value is not None
    ]
    assert found == [value]


@pytest.mark.parametrize(
    ("dataset", "system", "reader", "judge", "value"),
    [
        ("longmemeval", "bi-temporal engine, lean", "doubao-seed-2.0-pro", "DeepSeek-V3.2", 0.836),
        ("longmemeval", "whole history", "doubao-seed-2.0-pro", "DeepSeek-V3.2", 0.732),
        ("longmemeval", "TypeScript engine, target", "", "nothing was measured", 0.7),
        ("locomo", "MemoryModel, four typed nodes", "gemini-2.5-flash", "lenient semantic judge", 0.746),
    ],
)
def test_figures_of_the_engines_are_context_for_no_judge_of_ours(
    dataset: str, system: str, reader: str, judge: str, value: float
) -> None:
    (figure, *_) = [one for one in all_claims() if (one.benchmark, one.system, one.reader) == (dataset, system, reader)]
    assert (figure.value, judge in figure.judge) == (value, True)
    assert "not comparable" in figure.judge or "nothing was measured" in figure.judge
    shown = published_table([figure])
    assert shown.title is not None
    assert "comparable only with the same judge and data" in shown.title
    assert figure.source.cited in shown.rows[0]


def test_mem0_categories_are_the_true_ones() -> None:
    """Only under their true names do the categories, weighted by their counts, give the published overalls."""
    judged = [figure for figure in all_claims() if figure.metric == "J" and figure.by_group]
    assert len(judged) == 6
    for figure in judged:
        assert figure.value == pytest.approx(mean_by_counts(figure), abs=1.1e-4), figure.system


def test_locomo_overalls_follow_from_the_categories() -> None:
    """All but that of people, which is printed otherwise; categories and overalls are rounded to a tenth of a point."""
    printed = [figure for figure in all_claims() if figure.benchmark == "locomo" and figure.metric == "F1"]
    assert len(printed) == 22
    for figure in printed:
        if figure.system != "people":
            assert figure.value == pytest.approx(mean_by_counts(figure), abs=0.0021), figure.system


def test_figures_of_a_known_variant_come_alone(tmp_path: Path) -> None:
    path = write_dataset(tmp_path / "mine.json", record())
    known = published_for(LongMemEvalDataset(path, "longmemeval_m"))
    assert {figure.variant for figure in known} == {"M, first release", "M, questions not said"}
    unknown = published_for(LongMemEvalDataset(path))
    assert {figure.benchmark for figure in unknown} == {"longmemeval"}
    assert len(unknown) > len(known)


def test_figures_of_the_same_judge_and_metric(tmp_path: Path) -> None:
    dataset = LongMemEvalDataset(write_dataset(tmp_path / "mine.json", record()))
    official = JudgeIdentity("j", "openai/gpt-4o-2024-08-06", "LongMemEval", "", {}, official=True)
    same = published_for(dataset, official)
    assert {figure.judge for figure in same} == {"gpt-4o-2024-08-06 with the official prompts"}
    # What people graded is not among them, nor anything for another judge or metric.
    assert len(published_for(dataset)) - len(same) == 76
    for other in ({"official": False}, {"model": "openai/gpt-4o"}, {"metric": "F1"}):
        assert published_for(dataset, structs.replace(official, **other)) == ()
