"""The tables of `compare`: what is headed how, and what the sentences under them say."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from longmemeval.benchmarks.beam.benchmark import BEAM
from longmemeval.benchmarks.locomo.benchmark import LOCOMO
from longmemeval.benchmarks.longmemeval.benchmark import LONGMEMEVAL
from longmemeval.benchmarks.spec import Benchmark
from longmemeval.core.tables.table import Table, fit
from longmemeval.core.text.figures import UNKNOWN
from longmemeval.dataset import Dataset
from longmemeval.measures.metrics import compute_metrics
from longmemeval.pipeline.claims.catalogue import all_claims
from longmemeval.pipeline.compare.comparison import Comparison
from longmemeval.records import Gold, Judgement
from longmemeval.report.documents import comparison_document
from longmemeval.report.tables.comparison import (
    caution_lines,
    comparison_answer,
    comparison_notes,
    comparison_tables,
    published_table,
    question_lists,
)
from longmemeval.report.tables.runs import abstention_lines, task_average_note
from longmemeval.settings import Folders
from tests.pipeline.graded_runs import F1, STRICT, graded_run, labels
from tests.pipeline.helpers import colours, compare


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    return colours(tmp_path / "d.json", 40)


def tables(comparison: Comparison) -> dict[str, Table]:
    return {table.title: table for table in comparison_tables(comparison)}


def cells(table: Table, row: int) -> dict[str, str]:
    """The cells of a row by their headings, each on one line."""
    return dict(zip((" ".join(title.split()) for title in table.headings), table.rows[row], strict=True))


def test_runs_of_labels(dataset: Dataset, folders: Folders) -> None:
    graded_run(dataset, folders, "a", labels(10, 30))
    con = {"reading": {"method": "con"}, "reads_gold": True}
    graded_run(dataset, folders, "b", labels(30, 10), status="interrupted", settings=con)
    runs, types, pairs, lost, latencies = tables(compare(["a", "b"], folders=folders)).values()
    assert runs.title == "d, 40 questions, judge test/strict, prompts: by hand (not official)"
    # The highest score first; the baseline is said.
    first, base = cells(runs, 0), cells(runs, 1)
    assert (first["memory"], base["memory"]) == ("last-k, con (reads gold, interrupted)", "last-k, direct (baseline)")
    assert (first["accuracy %, 95% CI"], base["not graded"], base["cost"]) == ("75.0 [59.8, 85.8] !", "0", "$0")
    assert (base["evidence recall"], base["prompt tokens"]) == ("0.0%", "100")
    versus = "vs. last-k, direct, points"
    assert (base[versus], base["p (Holm)"], first["p (Holm)"]) == ("", "", "< 0.001")
    assert first[versus].startswith("▲ +50.0 [")
    assert (types.headings, types.rows[1][1]) == (["memory", "single-session-\nuser\nn 40"], "25.0\n[14.2, 40.2]")
    assert pairs.title == "All pairs (1 comparison, Holm)"
    pair = cells(pairs, 0)
    assert (pair["a"], pair["b"], pair["a \u2212 b (points)"]) == ("last-k, direct", "last-k, con", "-50.0 ▼")
    assert (pair["only a"], pair["only b"], pair["p"], pair["test"]) == ("0", "20", "< 0.001", "exact McNemar")
    assert (lost.headings, lost.rows) == (
        ["memory", "evidence not retrieved"],
        [["last-k, con", "10"], ["last-k, direct", "30"]],
    )
    assert latencies.rows[0] == ["last-k, con", *["0.0"] * 6]


def test_a_judge_of_scores_heads_its_metric(dataset: Dataset, folders: Folders) -> None:
    graded_run(dataset, folders, "a", [0.5] * 40, judge=F1)
    graded_run(dataset, folders, "b", [0.25] * 40, judge=F1)
    runs, types, pairs, *_ = tables(compare(["a", "b"], folders=folders)).values()
    assert "F1 %,\n95% CI" in runs.headings
    assert types.title == "By question type, F1 in percent with 95% CI"
    assert cells(pairs, 0)["test"] == "sign-flip permutation"
    assert not any("only" in column for column in pairs.headings)


def test_one_run_has_no_pairs(dataset: Dataset, folders: Folders) -> None:
    graded_run(dataset, folders, "a", labels(40))
    found = compare(["a"], folders=folders)
    assert list(tables(found)) == [
        "d, 40 questions, judge test/strict, prompts: by hand (not official)",
        "By question type, accuracy in percent with 95% CI",
        "Latency per question in milliseconds (reported)",
    ]


def test_notes_are_whole_and_said_once(dataset: Dataset, folders: Folders) -> None:
    graded_run(dataset, folders, "a", labels(10, 30))
    graded_run(dataset, folders, "b", labels(30, 10))
    found = compare(["a", "b"], folders=folders)
    notes = comparison_notes(found)
    assert len(set(notes)) == len(notes)
    assert set(found.texts("caution", "note")) <= set(notes)
    assert [one.code for one in found.sentences if one.kind != "verdict"] == ["unchecked-judge", "fixtures-unknown"]
    assert any(note.startswith("Judge: test/strict") for note in notes)


def test_the_lines_under_the_table(dataset: Dataset, folders: Folders) -> None:
    graded_run(dataset, folders, "a", labels(10, 30))
    graded_run(dataset, folders, "b", labels(30, 10), status="interrupted", settings={"reading": {"method": "con"}})
    found = compare(["a", "b"], folders=folders)
    *cautions, differing = caution_lines(found)
    assert cautions == found.texts("caution")
    assert [one.code for one in found.sentences if one.kind == "caution"] == ["unchecked-judge", "not-completed"]
    assert differing == "History format: nl with direct; none with con."
    assert set(found.cautions) < set(found.warnings)


def test_all_pairs_are_in_their_table(dataset: Dataset, folders: Folders) -> None:
    names = [f"r{number}" for number in range(6)]
    for name in names:
        graded_run(dataset, folders, name, labels(20, 20))
    found = compare(names, folders=folders)
    assert len(tables(found)["All pairs (15 comparisons, Holm)"].rows) == 15
    (runs,) = comparison_tables(found, details=False, pairs=False)
    assert [cells(runs, row)["vs. r0, points"] for row in range(6)] == ["", *["0.0 identical"] * 5]


def test_columns_that_matter_stay(dataset: Dataset, folders: Folders) -> None:
    for run_id, right in (("a", 10), ("b", 30)):
        graded_run(dataset, folders, run_id, labels(right, 40 - right))
    (runs,) = comparison_tables(compare(["a", "b"], folders=folders), details=False, pairs=False)
    assert fit(runs, 100).left_out[0] == "not graded"
    narrow = fit(runs, 66)
    assert [" ".join(name.split()) for name in narrow.blocks[0].table.headings] == [
        "memory",
        "accuracy %, 95% CI",
        "vs. a, points",
        "prompt tokens",
    ]


@pytest.mark.parametrize(
    ("benchmark", "types", "said"),
    [
        (LONGMEMEVAL, ["multi-session"], "as 5 of LongMemEval's 6 question types are missing"),
        (LONGMEMEVAL, LONGMEMEVAL.types.order, None),
        (BEAM, BEAM.types.order[1:], "as 1 of BEAM's 10 question types is missing: "),
        (LOCOMO, ["temporal"], None),
    ],
)
def test_the_task_average_is_missed_only_where_the_benchmark_has_one(
    benchmark: Benchmark, types: Sequence[str], said: str | None
) -> None:
    golds = [Gold(f"q{n}", name, "an answer", (), (), False) for n, name in enumerate(types)]
    note = task_average_note(compute_metrics(golds, {}, STRICT, types=benchmark.types), benchmark)
    assert (note is None) == (said is None)
    assert (said or "") in (note or "")


@pytest.mark.parametrize(
    ("credit", "said"),
    [
        (1.0, ", as this judge gives a correct abstention 1 on average."),
        (0.0, None),
        (None, "F1 100.0%."),
    ],
)
def test_a_threshold_is_worth_what_the_judge_gives_declining(credit: float | None, said: str | None) -> None:
    """Forty unanswerable questions with low scores, twenty of them declined, and forty others that are right."""
    golds = [Gold(f"q{n}", "multi-session", "an answer", (), (), n < 40) for n in range(80)]
    declines = {f"q{n}": "I don't know." if n < 20 else "It was red." for n in range(80)}
    credits = {f"q{n}": credit if n < 20 else float(n > 39) for n in range(80)}
    judgements = {
        name: Judgement(name, None if one is None else one == 1, "", STRICT.id, "", "") for name, one in credits.items()
    }
    scores = {f"q{n}": 0.1 if n < 40 else 0.9 for n in range(80)}
    metrics = compute_metrics(golds, judgements, STRICT, hypotheses=declines, top_scores=scores)
    lines = [line for line in abstention_lines(metrics) if line.startswith("With a recall threshold of")]
    assert [line.endswith(said or "") for line in lines] == ([True] if said else [])


def test_runs_that_are_alike_detect_no_difference_of_zero(dataset: Dataset, folders: Folders) -> None:
    for run_id in "ab":
        graded_run(dataset, folders, run_id, [0.5] * 40, judge=F1)
    found = compare(["a", "b"], folders=folders)
    assert found.detectable is None
    assert cells(tables(found)["All pairs (1 comparison, Holm)"], 0)["80% power to detect"] == UNKNOWN
    assert "power" not in [one.code for one in found.sentences]


def test_common_questions_are_in_the_heading(dataset: Dataset, folders: Folders) -> None:
    graded_run(dataset, folders, "a", labels(10, 30))
    graded_run(dataset, folders, "b", labels(5))
    title = "d, 5 common questions, judge test/strict, prompts: by hand (not official)"
    assert title in tables(compare(["a", "b"], folders=folders, common=True))


@pytest.mark.parametrize(
    ("credits", "both_wrong"),
    [
        ([[True, True, False, False], [True, False, True, False]], ["q3"]),
        ([[None, True, None, False], [False, None, True, None]], ["q0", "q3"]),
        ([[0.5, 1.0, 0.2, 0.3], [0.5, 0.9, 0.4, 0.3]], ["q0", "q3"]),
    ],
)
def test_questions_won_and_lost(
    dataset: Dataset, folders: Folders, credits: Sequence[Sequence[float | None]], both_wrong: list[str]
) -> None:
    judge = F1 if 0.5 in credits[0] else STRICT
    for run_id, given in zip("ab", credits, strict=True):
        graded_run(dataset, folders, run_id, given, judge=judge)
    assert dict(question_lists(compare(["a", "b"], folders=folders))) == {
        "b vs. a, better": ["q2"],
        "b vs. a, worse": ["q1"],
        "b vs. a, both wrong": both_wrong,
    }


def test_repeats(dataset: Dataset, folders: Folders) -> None:
    graded_run(dataset, folders, "a", labels(10, 30), settings={"repeat": 1})
    graded_run(dataset, folders, "b", labels(12, 28), settings={"repeat": 2})
    found = compare(["a", "b"], folders=folders)
    table = tables(found)["Repeats: spread between runs of one configuration"]
    assert table.rows == [["last-k", "a, b", "27.5%", "3.54", "25.0% to 30.0%", "2 of 40", "0", "2"]]
    (row,) = comparison_tables(found, details=False)[0].rows
    assert row[0] == "last-k (2 repeats)"


def test_published_figures_stand_apart() -> None:
    figures = [figure for figure in all_claims() if figure.benchmark == "locomo"]
    table = published_table(figures)
    left = len(figures) - len(table.rows)
    assert left > len(table.rows) >= 30
    title = "Published scores (comparable only with the same judge and data)"
    assert table.title == f"{title}; {left} more: longmemeval claims list --all --benchmark locomo"
    assert published_table(figures[:60]).title == title
    assert len(published_table(figures[:60]).rows) == 60
    assert table.headings == ["system", "reader", "figure", "n", "data", "judge", "source"]
    place = next(place for place, row in enumerate(table.rows) if row[-1] == "LoCoMo paper, ACL 2024, Table 2")
    first, second = table.rows[place : place + 2]
    assert first[2].startswith("F1 87.9%\nsingle-hop 95.1, multi-hop 85.8")
    assert first[3:] == [
        "1,986",
        "10 conversations",
        "none: F1 by the official rules",
        "LoCoMo paper, ACL 2024, Table 2",
    ]
    assert second[3:] == ["", "", "", ""]
    assert any(row[2].startswith("set-F1: single-hop") for row in table.rows)


def test_document(dataset: Dataset, folders: Folders) -> None:
    graded_run(dataset, folders, "a", labels(10, 30))
    graded_run(dataset, folders, "b", labels(30, 10))
    found = compare(["a", "b"], folders=folders)
    document = comparison_document(found)
    promised = {"verdict", "digest", "dataset", "runs", "pairs", "repeats", "detectable", "warnings"}
    assert set(document) == promised | {"rows", "family", "versus_baseline", "sentences"}
    assert document["verdict"] == found.verdict
    first = document["runs"][0]
    assert (first["run"], first["overall"]["correct"], first["lost"]) == ("a", 10, {"not retrieved": 30})
    assert {"judge", "task_averaged", "by_type", "abstention", "usage", "costs", "answers_latency_ms", "memory"} < set(
        first
    )
    assert document["pairs"] == found.pairs
    assert len(comparison_document(found, questions=True)["questions"]) == 40


def test_long_run_ids_go_by_what_tells_them_apart(dataset: Dataset, folders: Folders) -> None:
    ids = [f"a-rather-long-name-for-a-run-number-{number}" for number in range(3)]
    for run_id, top_k in zip(ids, (5, 10), strict=False):
        memory = {"name": "bm25", "preset": "bm25", "parameters": {"top_k": top_k, "message_range": 2}}
        graded_run(dataset, folders, run_id, labels(4 * top_k - 20, 60 - 4 * top_k), settings={"memory": memory})
    graded_run(dataset, folders, ids[2], labels(30, 10))
    found = compare(ids, folders=folders)
    runs, _, pairs, *_ = tables(found).values()
    assert [row[0] for row in runs.rows] == ["last-k", "bm25 top_k=10", "bm25 top_k=5 (baseline)"]
    assert pairs.rows[0][:2] == ["bm25 top_k=5", "bm25 top_k=10"]
    shown = "\n".join(line for line in comparison_answer(found) if isinstance(line, str))
    assert shown.startswith("last-k (75.0%) is significantly better than bm25 top_k=5 (0.0%): +75.0 points")
    assert not [run_id for run_id in ids if run_id in shown]
    with_notes = [line for line in comparison_answer(found, notes=True) if isinstance(line, str)]
    assert f"bm25 top_k=10: {ids[1]}" in with_notes


def test_runs_of_one_memory_go_by_what_tells_their_ids_apart(dataset: Dataset, folders: Folders) -> None:
    names = [f"a-rather-long-name-for-a-run-number-{number}" for number in range(2)]
    graded_run(dataset, folders, names[0], labels(10, 30))
    graded_run(dataset, folders, names[1], labels(30, 10))
    memory = {"name": "bm25", "preset": "bm25", "parameters": {}}
    graded_run(dataset, folders, "other", labels(30, 10), settings={"memory": memory})
    found = compare([*names, "other"], folders=folders)
    # A bare number says nothing.
    assert [found.names[run.run_id] for run in found.rows] == ["number-0", "number-1", "bm25"]
    graded_run(dataset, folders, "other-again", labels(30, 10), settings={"memory": memory})
    assert list(compare(["other", "other-again"], folders=folders).names.values()) == ["other", "other-again"]


def test_rows_of_equal_scores_do_not_depend_on_the_order_of_runs(dataset: Dataset, folders: Folders) -> None:
    for run_id in "abc":
        memory = {"memory": {"name": f"memory-{run_id}", "preset": "last-k", "parameters": {}}}
        graded_run(dataset, folders, run_id, labels(10, 30), settings=memory)
    orders = [[row.run_id for row in compare(list(ids), folders=folders).ranked] for ids in ("abc", "acb")]
    assert orders == [["a", "b", "c"]] * 2


def test_notes_repeat_nothing_that_is_below_the_table(dataset: Dataset, folders: Folders) -> None:
    for run_id in "ab":
        graded_run(dataset, folders, run_id, labels(10, 30))
    lines = [
        line for line in comparison_answer(compare(["a", "b"], folders=folders), notes=True) if isinstance(line, str)
    ]
    told = [line for line in lines if line]
    assert len(set(told)) == len(told)
