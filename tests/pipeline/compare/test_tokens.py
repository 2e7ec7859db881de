"""Equal tokens: the warning where prompts are not of comparable length, and memories under several budgets."""

from pathlib import Path

import pytest

from longmemeval.dataset import Dataset
from longmemeval.memory.configuration import resolve_configuration
from longmemeval.pipeline.compare.comparison import budget_curves
from longmemeval.pipeline.evaluate.evaluate import EvaluateOptions, evaluate
from longmemeval.report.charts.charts import budget_charts
from longmemeval.report.charts.svg import shown_rows
from longmemeval.report.tables.comparison import comparison_tables
from longmemeval.settings import Folders
from tests.pipeline.helpers import answer_all, compare, prepared_colours

CODE = "unequal-tokens"


@pytest.fixture
def colours(tmp_path: Path) -> tuple[Dataset, Folders]:
    return prepared_colours(tmp_path, 4, "bm25")


def run(data: Dataset, folders: Folders, run_id: str, memory: str, *overrides: str) -> str:
    answer_all(data, folders, run_id, memory=resolve_configuration(memory, overrides))
    evaluate(run_id, options=EvaluateOptions(judge="offline/lexical"), folders=folders)
    return run_id


def warned(folders: Folders, *run_ids: str) -> dict[str, str]:
    """The texts of the warning, by run."""
    found = {one.summary.run_id: one.summary.warnings for one in compare(run_ids, folders=folders).runs}
    return {run_id: one.text for run_id, warnings in found.items() for one in warnings if one.code == CODE}


@pytest.mark.slow
def test_memories_that_show_more_than_others_are_warned_about(colours: tuple[Dataset, Folders]) -> None:
    few = ("last_messages=0", "message_range=0")
    narrow = run(*colours, "narrow", "bm25", "top_k=1", *few)
    wide = run(*colours, "wide", "bm25", "top_k=50", *few)
    whole = run(*colours, "whole", "full-history")
    folders = colours[1]
    found = warned(folders, narrow, wide, whole)
    assert found.keys() == {"narrow", "wide"}, "a control may show what it likes"
    assert "tokens in bm25 top_k=1" in found["wide"]
    assert "--budget" in found["wide"]
    assert not warned(folders, wide, whole)
    assert not warned(folders, narrow)


@pytest.mark.slow
def test_equal_budgets_are_no_reason_to_warn(colours: tuple[Dataset, Folders]) -> None:
    """Each budget is compared with itself; a run without one is compared with all."""
    folders = colours[1]
    ids = [
        run(*colours, f"{name}-{budget}", "bm25", f"budget={budget}", f"session_weight={weight}")
        for budget in (40, 160)
        for name, weight in (("a", 0), ("b", 0.3))
    ]
    assert not warned(folders, *ids)
    assert not warned(folders, "a-40", "b-40")
    assert warned(folders, "a-40", "b-160").keys() == {"a-40", "b-160"}


@pytest.mark.slow
def test_a_curve_over_budgets(colours: tuple[Dataset, Folders]) -> None:
    folders = colours[1]
    ids = [run(*colours, f"r{budget}", "bm25", f"budget={budget}") for budget in (160, 40)]
    comparison = compare([*ids, run(*colours, "whole", "full-history")], folders=folders)
    (curve,) = budget_curves(comparison.rows)
    assert (curve.name, curve.budgets) == ("bm25", (40, 160))
    assert [comparison.rows[place].summary.run_id for place in curve.runs] == ["r40", "r160"]
    tokens = [comparison.rows[place].summary.mean_prompt_tokens or 0 for place in curve.runs]
    assert tokens[0] < tokens[1]
    table = next(one for one in comparison_tables(comparison, details=False) if "budgets" in one.title)
    assert table.headings == ["memory", "40", "160"]
    assert f"{tokens[0]:,.0f} tokens" in table.rows[0][1]
    charts = budget_charts(comparison, shown_rows(comparison))
    assert [chart.name for chart in charts] == ["budgets", "budget-recall"]
    assert [row[0] for row in charts[0].figures.rows] == ["bm25", "bm25", "full-history"]
    other = compare(["r40", "whole"], folders=folders)
    assert not budget_charts(other, shown_rows(other))
