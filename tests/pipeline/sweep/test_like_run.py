"""A sweep measures what its entries say: as `run` would, under each embedder, with nothing that nobody asked for."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from longmemeval.benchmarks.registry import load_dataset
from longmemeval.errors import HarnessError
from longmemeval.memory.configuration import resolve_configuration
from longmemeval.pipeline.prepare.prepare import PrepareOptions, prepare
from longmemeval.pipeline.run.plan import RunOptions
from longmemeval.pipeline.run.run import run
from longmemeval.pipeline.sweep.sweep import SweepReport, sweep
from longmemeval.reading.configuration import reading_configuration
from longmemeval.records import Answer
from longmemeval.report.charts.grids import grid_charts
from longmemeval.report.charts.svg import shown_rows
from longmemeval.report.tables.comparison import comparison_tables, title_of
from longmemeval.results.run_files import RunFiles
from tests.pipeline.helpers import folders_in, manifest
from tests.pipeline.sweeps import OFFLINE, estimated, swept, written
from tests.server import ModelServer

MEMORIES = ["bm25", "hybrid", "combined"]
FORMER = 2000
"""The budget that earlier versions gave unasked."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with ModelServer() as server:
        yield server


def answers(folder: Path, run_id: str) -> dict[str, Answer]:
    return dict(RunFiles(folders_in(folder).results_dir / run_id).answers)


def budgets(folder: Path) -> dict[str, object]:
    """Run id to the budget that its manifest records."""
    folders = folders_in(folder)
    ids = sorted(path.parent.name for path in folders.results_dir.glob("*/run.json"))
    return {run_id: manifest(folders, run_id)["settings"]["memory"]["parameters"].get("budget") for run_id in ids}


@pytest.mark.slow
def test_an_entry_is_what_run_makes_of_the_same_configuration(tmp_path: Path) -> None:
    """Prompts are equal byte for byte, answers in everything but their times."""
    swept(tmp_path, memories=MEMORIES, readings=["direct", "con"])
    folders = folders_in(tmp_path)
    dataset = load_dataset(tmp_path / "colours.json", folders.data_dir)
    apart = "apart"
    prepare(dataset, list(map(resolve_configuration, MEMORIES)), options=PrepareOptions(name=apart), folders=folders)
    for memory in MEMORIES:
        for method in ("direct", "con"):
            options = RunOptions(
                reading=reading_configuration(method), prepared=apart, run_id=f"{memory}-{method}", concurrency=1
            )
            run(dataset, memory, OFFLINE, options=options, folders=folders)
            mine, own = f"s_{memory}_m_{method}", f"{memory}-{method}"
            prompts = [
                sorted((folders.results_dir / one / "prompts.jsonl").read_bytes().splitlines()) for one in (mine, own)
            ]
            assert prompts[0] == prompts[1] != []
            said = [
                {name: (a.hypothesis, a.recall_ids, a.prompt_sha256) for name, a in answers(tmp_path, one).items()}
                for one in (mine, own)
            ]
            assert said[0] == said[1]
            settings = [manifest(folders, one)["settings"] for one in (mine, own)]
            assert settings[0] | {"preparation": apart} == settings[1]


@pytest.mark.slow
def test_a_sweep_that_was_begun_with_the_former_budget_keeps_it(tmp_path: Path) -> None:
    swept(tmp_path, name="new", memories=["bm25", "none"])
    folders = folders_in(tmp_path)
    dataset = load_dataset(tmp_path / "colours.json", folders.data_dir)
    run(
        dataset,
        resolve_configuration("bm25", [f"budget={FORMER}"]),
        OFFLINE,
        options=RunOptions(reading=reading_configuration("direct"), run_id="s_bm25_m_direct", sweep="s"),
        folders=folders,
    )
    before = (folders.results_dir / "s_bm25_m_direct" / "answers.jsonl").read_bytes()
    entries = ["bm25", "combined", {"preset": "bm25", "name": "few", "parameters": {"top_k": 3}}, "none"]
    plan = estimated(tmp_path, memories=entries).budget
    assert "2,000" in plan
    assert "begun" in plan
    assert "few (top_k of its own)" in plan
    report = swept(tmp_path, memories=entries)
    assert report.failures == ()
    assert (folders.results_dir / "s_bm25_m_direct" / "answers.jsonl").read_bytes() == before
    assert budgets(tmp_path) == {
        "new_bm25_m_direct": None,
        "new_none_m_direct": None,
        "s_bm25_m_direct": FORMER,
        "s_combined_m_direct": FORMER,
        "s_few_m_direct": None,
        "s_none_m_direct": None,
    }
    again = swept(tmp_path, memories=entries)
    assert (again.newly_answered, again.comparisons) == (0, report.comparisons)


@pytest.mark.slow
def test_a_budget_stands_in_the_plan_the_first_line_of_the_table_and_the_verdict(tmp_path: Path) -> None:
    memories = ["bm25", "hybrid", "last-k"]
    assert estimated(tmp_path, memories=memories, budget=300).budget == (
        "Token budget per recall: 300. It does not apply to last-k (takes none)."
    )
    comparison = swept(tmp_path, memories=memories, budget=300).comparisons[0].comparison
    assert list(comparison.names.values()) == ["bm25", "hybrid", "last-k"], "what is the same is in no name"
    assert ", budget 300 tokens (not last-k), " in title_of(comparison)
    assert "budget 300 tokens each" in comparison.verdict.text
    without = swept(tmp_path, name="w", memories=["bm25", "hybrid"]).comparisons[0].comparison
    assert "budget" not in title_of(without) + without.verdict.text


@pytest.mark.slow
def test_embedders_are_swept_each_on_its_own_preparation(tmp_path: Path) -> None:
    report = swept(tmp_path, memories=["bm25", "hybrid"], prepare={"jobs": 1, "embedder": ["hashing:32", "hashing:64"]})
    assert report.failures == ()
    folders = folders_in(tmp_path)
    assert sorted(path.name for path in (folders.prepared_dir / "colours").iterdir()) == [
        "default",
        "hashing-32",
        "hashing-64",
    ]
    found = {run_id: manifest(folders, run_id)["settings"] for run_id in report.runs}
    assert {run_id: (one["embedder"] or {}).get("spec") for run_id, one in found.items()} == {
        "s_bm25_m_direct": None,
        "s_hybrid_hashing-32_m_direct": "hashing:32",
        "s_hybrid_hashing-64_m_direct": "hashing:64",
    }
    comparison = report.comparisons[0].comparison
    assert [comparison.names[run_id] for run_id in report.runs] == ["bm25", "hybrid, hashing:32", "hybrid, hashing:64"]
    again = swept(tmp_path, memories=["bm25", "hybrid"], prepare={"jobs": 1, "embedder": ["hashing:64", "hashing:32"]})
    assert (again.newly_answered, again.failures) == (0, ()), "their order decides nothing"


@pytest.mark.slow
def test_questions_are_embedded_where_the_fixtures_were(tmp_path: Path, server: ModelServer) -> None:
    """The answering model is elsewhere, and neither the environment nor the model names the embedder's server."""
    there = {"jobs": 1, "embedder": "openai:vectors", "api_base": server.url}
    models = [{"spec": OFFLINE, "name": "m", "api_base": "http://127.0.0.1:9/v1"}]
    report = swept(tmp_path, memories=["semantic-recall"], prepare=there, models=models)
    assert report.failures == ()
    asked = [text for request in server.requests for text in request.body["input"]]
    assert {request.path for request in server.requests} == {"/v1/embeddings"}
    questions = load_dataset(tmp_path / "colours.json", folders_in(tmp_path).data_dir).questions()
    assert {question.text for question in questions} <= set(asked)


@pytest.mark.slow
def test_two_parameters_are_a_grid(tmp_path: Path) -> None:
    grid = {"top_k": [10, 2], "message_range": [0, 1]}
    memories = ["full-history", {"preset": "bm25", "grid": grid, "parameters": {"last_messages": 0}}]
    report = swept(tmp_path, memories=memories, readings=["direct", "con"])
    comparison = report.comparisons[0].comparison
    accuracy = {row.run_id: row.summary.metrics.overall.accuracy for row in comparison.rows}
    assert [(one.down, one.across, one.fixed) for one in comparison.grids] == [
        ("top_k", "message_range", "direct"),
        ("top_k", "message_range", "con"),
    ]
    first = comparison.grids[0]
    assert (first.down_values, first.across_values) == (("2", "10"), ("0", "1")), "numbers by size"
    assert first.cells == tuple(
        tuple(f"s_bm25-top_k-{top_k}-message_range-{reach}_m_direct" for reach in (0, 1)) for top_k in (2, 10)
    )
    table = next(one for one in comparison_tables(comparison) if "top_k by message_range (direct)" in one.title)
    assert table.headings == ["top_k", "message_range=0", "message_range=1"]
    assert table.rows == [
        [value, *(f"{accuracy[run_id] * 100:.1f}" for run_id in line)]
        for value, line in zip(first.down_values, first.cells, strict=True)
    ]
    charts = grid_charts(comparison, shown_rows(comparison))
    assert [chart.name for chart in charts] == ["grid-0", "grid-1"]
    assert charts[0].figures.rows == table.rows
    for line in table.rows:
        assert all(f"{cell}%" in charts[0].svg for cell in line[1:])


FAILING = '''
class Fails:
    """Fails at every question."""

    def add(self, session): pass

    def search(self, query, *, date, limit): raise ValueError("no index")
'''


@pytest.mark.slow
def test_what_failed_says_which_setting_to_change_and_stops_no_later_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-tests")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "failing_memory.py").write_text(FAILING)
    gone = {"spec": "openai/gpt-4o-mini", "name": "gone", "api_base": "http://127.0.0.1:9/v1", "max_attempts": 1}

    def report() -> SweepReport:
        return swept(
            tmp_path,
            memories=["full-history", "failing_memory:Fails"],
            models=[{"spec": OFFLINE, "name": "m"}, gone],
            readings=["direct", {"method": "direct", "name": "small", "context_window": 1501, "max_tokens": 500}],
        )

    def fields(of: SweepReport) -> dict[str, str]:
        return {one.run_id: one.setting.partition(": ")[2].partition(" (")[0] for one in of.failures}

    first = fields(report())
    assert first == {
        "s_full-history_m_small": "readings[1]",
        "s_Fails_m_direct": "memories[1]",
        "s_Fails_m_small": "memories[1]",
        "s_full-history_gone_direct": "models[1]",
        "s_full-history_gone_small": "readings[1]",
        "s_Fails_gone_direct": "memories[1]",
        "s_Fails_gone_small": "memories[1]",
    }
    assert fields(report()) == first, "a memory that fails is tried again, and stops no estimate"


def test_a_reading_that_never_fits_is_refused_with_its_place(tmp_path: Path) -> None:
    file = written(tmp_path, readings=["direct", {"method": "con", "context_window": 300}])
    with pytest.raises(HarnessError, match=r"has no room for a prompt.*readings\[1\] \(max_tokens, context_window"):
        sweep(file, dry_run=True, folders=folders_in(tmp_path))


@pytest.mark.parametrize("embedder", ["hashng:64", "fastembed:", "openai:vectors"])
def test_an_embedder_that_cannot_be_had_is_refused_with_its_place(
    tmp_path: Path, embedder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(
        HarnessError, match=r"Setting to change: .*, line 7: prepare.embedder\[1\] \(embedder, api_base"
    ):
        swept(tmp_path, memories=["hybrid"], prepare={"jobs": 1, "embedder": ["hashing:64", embedder]})
