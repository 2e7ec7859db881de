"""From how many questions on one history a memory is cheaper than the full history: known costs give known numbers."""

from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from longmemeval.core.text.figures import UNKNOWN
from longmemeval.pipeline.compare.baseline import break_even
from longmemeval.report.tables.runs import cost_table
from longmemeval.results.graded.graded_run import Cost, Evaluation, RunCosts, load_graded
from longmemeval.settings import Folders
from tests.pipeline.graded_runs import graded_run, labels
from tests.pipeline.helpers import colours

FREE = Cost(0.0)


def costing(run: Evaluation, prepare: Cost, answers: Cost, histories: int = 10) -> Evaluation:
    costs = RunCosts(prepare, FREE, answers, Cost(5.0), Cost(99.0))
    return structs.replace(
        run,
        summary=structs.replace(run.summary, costs=costs),
        manifest=structs.replace(run.manifest, fixtures={f"h{number}": {} for number in range(histories)}),
    )


@pytest.fixture
def runs(tmp_path: Path, folders: Folders) -> dict[str, Evaluation]:
    """Ten questions on ten histories: all of each history, a memory, and the memory read by another model."""
    ten = colours(tmp_path / "ten.json", 10)
    settings: dict[str, dict[str, Any]] = {
        "full": {"memory": {"name": "full-history", "preset": "full-history"}},
        "memory": {},
        "other": {"model": {"spec": "openai/gpt-4o"}},
    }
    for run_id, told in settings.items():
        graded_run(ten, folders, run_id, labels(5, 5), settings=told)
    return {run.manifest.run_id: run for run in load_graded(list(settings), folders)}


@pytest.mark.parametrize(
    ("prepare", "answers", "found"),
    [
        # A history for 30 cents, a question for 2 instead of 10: after 4 questions 38 to 40 cents.
        (Cost(3.0), Cost(0.2), 4),
        # The same at 32 cents is a tie after 4: the fifth decides.
        (Cost(3.2), Cost(0.2), 5),
        (FREE, Cost(0.9), 1),
        (FREE, Cost(1.0), "never"),
        (Cost(3.0), Cost(1.5), "never"),
        (Cost(None), Cost(0.2), None),
        (Cost(3.0), Cost(0.2, cached_calls=1), None),
    ],
)
def test_known_costs(runs: dict[str, Evaluation], prepare: Cost, answers: Cost, found: int | str | None) -> None:
    full = costing(runs["full"], FREE, Cost(1.0))
    memory = costing(runs["memory"], prepare, answers)
    assert break_even(memory, [full, memory]) == found
    assert break_even(full, [full, memory]) is None


def test_it_is_unknown_without_a_full_history_of_the_same_reader(runs: dict[str, Evaluation]) -> None:
    full, memory, other = (costing(run, Cost(1.0), Cost(0.1)) for run in runs.values())
    assert break_even(memory, [memory, other]) is None
    assert break_even(other, [full, other]) is None
    free = costing(runs["full"], FREE, FREE)
    assert break_even(costing(runs["memory"], FREE, FREE), [free]) is None


def test_the_column_is_there_where_it_is_known(runs: dict[str, Evaluation]) -> None:
    full, memory = costing(runs["full"], FREE, Cost(1.0)), costing(runs["memory"], Cost(3.0), Cost(0.2))
    summaries = [full.summary, memory.summary]
    table = cost_table(summaries, ["full", "memory"], [None, 4])
    assert table.headings[-1] == "break-even,\nquestions"
    assert [row[-1] for row in table.rows] == [UNKNOWN, "4"]
    assert "cheaper" not in "".join(cost_table(summaries, ["full", "memory"], [None, None]).headings)
