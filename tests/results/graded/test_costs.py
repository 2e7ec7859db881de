"""What a run cost: every call in its column, what was paid for the parts it reads, and a dash for what nobody knows."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs

from longmemeval.core.files import sha256_file
from longmemeval.core.text.figures import UNKNOWN, in_dollars
from longmemeval.dataset import Dataset
from longmemeval.llm.costs import EMBEDDINGS, REPLIES
from longmemeval.llm.options import ModelOptions
from longmemeval.measures.metrics import Metrics
from longmemeval.memory.configuration import MemoryConfiguration, resolve_configuration
from longmemeval.memory.working_memory.part import DOCUMENT
from longmemeval.pipeline.evaluate.evaluate import EvaluateOptions, evaluate
from longmemeval.pipeline.prepare.prepare import PrepareOptions, prepare
from longmemeval.pipeline.run.plan import RunOptions
from longmemeval.pipeline.run.run import run
from longmemeval.reading.configuration import reading_configuration
from longmemeval.records import Usage
from longmemeval.report.documents import run_document
from longmemeval.report.tables.runs import (
    COST_UNKNOWN,
    FREE,
    PAID_ONCE,
    cost_table,
    effort_notes,
    latency_table,
    usage_line,
    usage_share,
    work_table,
)
from longmemeval.results.formats.hypotheses import adopt_hypotheses
from longmemeval.results.graded.graded_run import Cost, GradedRun, cost_of, cost_text, costs_of, load_graded, summarise
from longmemeval.results.manifest import RunManifest
from longmemeval.results.preparation import PrepareRecord, prepare_usage
from longmemeval.results.selection import Selection
from longmemeval.results.settings import (
    AnswerSettings,
    HypothesesSettings,
    ImportedSettings,
    ModelSettings,
    ReadingSettings,
    memory_settings,
)
from longmemeval.settings import Folders
from longmemeval.storage.parts import FixtureEmbedder
from tests.made_once import sample_demo
from tests.pipeline.graded_runs import graded_run
from tests.pipeline.helpers import MODEL, answer_all, colours, folders_in, prepared_colours
from tests.server import ModelServer
from tests.support import clean_environment, json_lines

CHAT, JUDGE, EMBEDDER = "openai/gpt-4o-mini", "openai/gpt-4o-2024-08-06", "openai:text-embedding-3-small"


def usage(dollars: float, calls: int = 1, **others: int) -> Usage:
    return Usage(calls=calls, prompt_tokens=100 * calls, cost_usd=dollars, **others)


def manifest(fixtures: Mapping[str, Mapping[str, str]], memory: str = "combined", embedder: str = "") -> RunManifest:
    configuration = resolve_configuration(memory)
    return RunManifest(
        format=1,
        run_id="r",
        status="completed",
        dataset={"name": "d"},
        settings=AnswerSettings(
            memory=memory_settings(configuration),
            reads_gold=False,
            model=ModelSettings("offline/extractive"),
            reading=ReadingSettings(method="direct"),
            preparation="default",
            embedder=FixtureEmbedder(embedder, "") if embedder else None,
        ),
        question_ids=(),
        fixtures={haystack_id: dict(parts) for haystack_id, parts in fixtures.items()},
        environment={},
        started_at="",
    )


def made(haystack_id: str, usages: Mapping[str, Usage] | None = None, **sha256: str) -> PrepareRecord:
    """A fixture's record: the hashes of its parts, and what some of them cost."""
    return PrepareRecord(
        "fixture",
        "",
        0.0,
        haystack_id=haystack_id,
        parts=tuple(sha256),
        usage=sum((usages or {}).values(), Usage()),
        usage_by_part=dict(usages or {}),
        part_sha256=sha256,
    )


def embedded(paid: Usage, **texts: int) -> PrepareRecord:
    """The record of a call for the messages of several haystacks."""
    return PrepareRecord("embeddings", "", 0.0, usage=paid, texts={name: {"vector": n} for name, n in texts.items()})


def billed(tmp_path: Path, records: list[PrepareRecord], manifest: RunManifest) -> Usage | None:
    folder = tmp_path / "d" / "default"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "prepare.jsonl").write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in records))
    return prepare_usage(manifest, tmp_path)


def test_a_call_for_several_haystacks_is_shared_out_by_texts(tmp_path: Path) -> None:
    records = [embedded(usage(8.0, 4), a=30, b=10), made("a", vector="1"), made("b", vector="2")]
    whole = manifest({"a": {"vector": "1"}, "b": {"vector": "2"}}, embedder=EMBEDDER)
    assert billed(tmp_path, records, whole) == usage(8.0, 4)
    part = manifest({"b": {"vector": "2"}}, embedder=EMBEDDER)
    assert billed(tmp_path, records, part) == Usage(calls=1, prompt_tokens=100, cost_usd=2.0)
    assert billed(tmp_path, records, manifest({"a": {}})) == Usage()


def test_only_who_reads_the_working_memory_pays_for_it(tmp_path: Path) -> None:
    kept, keys = usage(0.5, 10), usage(0.25, 3)
    hashes = {"working-memory": "1", "expansions-fact-turn": "2", "db": "3"}
    records = [made("a", {"working-memory": kept, "expansions-fact-turn": keys}, **hashes)]
    assert billed(tmp_path, records, manifest({"a": {"working-memory": "1"}}, "working-memory")) == kept
    assert billed(tmp_path, records, manifest({"a": {"db": "3"}}, "last-k")) == Usage()
    assert billed(tmp_path, records, manifest({"a": {"db": "3", "expansions-fact-turn": "2"}}, "last-k")) == keys


def test_what_a_journal_records_of_its_parts_is_believed_before_any_memory_is_asked(tmp_path: Path) -> None:
    """Of a memory that is not installed, only a journal can say whose replies and vectors its parts are made of."""
    lost = [PrepareRecord("unfinished", "", usage=usage(1.0), cache=name) for name in (EMBEDDINGS, REPLIES)]
    record = structs.replace(
        made("a", {"theirs": usage(2.0)}, theirs="1", plain="2"), calls_models=("theirs",), embeds=("theirs",)
    )
    whole, plain = manifest({"a": {"theirs": "1", "plain": "2"}}), manifest({"a": {"plain": "2"}})
    assert billed(tmp_path, [*lost, record], whole) == usage(1.0) + usage(1.0) + usage(2.0)
    assert billed(tmp_path, [*lost, record], plain) == Usage()
    # A journal of an earlier version records neither, and a part that nobody knows is paid for by whoever reads it.
    old = structs.replace(record, calls_models=None, embeds=None)
    assert billed(tmp_path, [*lost, old], plain) == usage(1.0) + usage(1.0)


def test_comparing_and_reporting_import_no_memory_system(tmp_path_factory: pytest.TempPathFactory) -> None:
    code = (
        "import sys; from longmemeval.cli.main import main\n"
        "try: main()\n"
        "except SystemExit as ended: assert not ended.code, ended\n"
        "engines = tuple('longmemeval.memory.' + name for name in ('engram', 'nodes', 'external'))\n"
        "print('LOADED', sorted(name for name in sys.modules if name.startswith(engines)), file=sys.stderr)"
    )
    page = tmp_path_factory.mktemp("page") / "page.html"
    for arguments in (["compare"], ["report", "-o", str(page)]):
        runs = ["demo-engram-lean", "demo-hybrid", "demo-full-history"]
        command = [sys.executable, "-c", code, arguments[0], *runs, *arguments[1:]]
        done = subprocess.run(
            command,
            cwd=sample_demo(tmp_path_factory).folder,
            env=clean_environment(),
            capture_output=True,
            text=True,
            check=True,
            timeout=200,
        )
        assert done.stderr.endswith("LOADED []\n")


def test_what_made_other_bytes_is_paid_for_by_who_reads_those(tmp_path: Path) -> None:
    records = [
        *(embedded(usage(1.0), a=5), made("a", {DOCUMENT.name: usage(2.0)}, vector="old", **{DOCUMENT.name: "old"})),
        *(embedded(usage(4.0), a=5), made("a", {DOCUMENT.name: usage(8.0)}, vector="new", **{DOCUMENT.name: "new"})),
    ]
    for name, expected in (("old", 3.0), ("new", 12.0)):
        found = billed(tmp_path, records, manifest({"a": {DOCUMENT.name: name, "vector": name}}, embedder=EMBEDDER))
        assert found is not None
        assert found.cost_usd == expected
    # Made again with the same bytes, from the cache: paid for before.
    again = [*records, made("a", {DOCUMENT.name: Usage(calls=9, cached_calls=9)}, **{DOCUMENT.name: "new"})]
    found = billed(tmp_path, again, manifest({"a": {DOCUMENT.name: "new"}}))
    assert found == usage(8.0) + Usage(calls=9, cached_calls=9)


def test_vectors_from_the_cache_are_marked(tmp_path: Path) -> None:
    read = {"a": {"vector": "1"}}
    assert billed(tmp_path, [made("a", vector="1")], manifest(read)) == Usage()
    cached = billed(tmp_path, [made("a", vector="1")], manifest(read, embedder=EMBEDDER))
    assert cached == Usage(calls=1, cached_calls=1)


def test_what_no_record_tells_of_is_not_known(tmp_path: Path) -> None:
    read = {"a": {"db": "1"}, "b": {"db": "2"}}
    assert prepare_usage(manifest(read), tmp_path) is None
    assert billed(tmp_path, [made("a", db="1")], manifest(read)) is None
    assert billed(tmp_path, [made("a", db="1"), made("b", db="other")], manifest(read)) is None
    assert billed(tmp_path, [made("a", db="1"), made("b", db="2")], manifest(read)) == Usage()
    assert prepare_usage(manifest({}), tmp_path) is None
    imported = ImportedSettings(hypotheses=HypothesesSettings("h.jsonl", ""), unknown_questions=())
    assert prepare_usage(structs.replace(manifest(read), settings=imported), tmp_path) is None


def test_what_was_paid_for_unfinished_work_counts(tmp_path: Path) -> None:
    lost = [PrepareRecord("unfinished", "", usage=usage(1.0), cache=name) for name in (EMBEDDINGS, REPLIES)]
    started = PrepareRecord("started", "", session="s")
    records = [started, *lost, made("a", {DOCUMENT.name: usage(2.0)}, db="1", vector="2", **{DOCUMENT.name: "3"})]
    everything = manifest({"a": {"db": "1", "vector": "2", DOCUMENT.name: "3"}})
    found = billed(tmp_path, records, everything)
    assert found is not None
    assert found.cost_usd == 4.0
    assert billed(tmp_path, records, manifest({"a": {"db": "1"}}, "last-k")) == Usage()


@pytest.mark.parametrize(
    ("usd", "shown"), [(0.0, "$0"), (0.00004, "<$0.0001"), (1234.5, "$1,234.5000"), (None, "\u2013")]
)
def test_what_is_not_known_is_never_nothing(usd: float | None, shown: str) -> None:
    assert in_dollars(usd) == shown


def test_calls_without_a_price_in_a_line() -> None:
    assert usage_line(usage(0.5, 2)) == "2 calls, 200 prompt and 0 completion tokens, $0.5000"
    assert usage_line(usage(0.5, 2, unpriced_calls=1)).endswith(
        "tokens, at least $0.5000, 1 call without a known price"
    )
    assert usage_line(usage(0.0, 2, unpriced_calls=2, cached_calls=1)).startswith("2 calls (1 from the cache), ")
    assert usage_line(usage(0.0, 2, unpriced_calls=2)).endswith("tokens, cost unknown")
    assert usage_line(usage(0.5, 2, estimated_calls=1)).endswith("tokens (estimated for 1 call), $0.5000")
    assert "estimated" not in usage_line(usage(0.5, 2) - usage(0.5, 2))


def test_calls_without_a_price_do_not_blank_what_the_others_cost() -> None:
    """Two embedding calls whose price nobody knows, among a hundred that are known."""
    prepare, answers = usage(0.25, 100, unpriced_calls=2), usage(1.0, 50)
    run_costs = costs_of(prepare, Usage(), answers, Usage())
    assert (run_costs.total.usd, run_costs.total.known_usd, run_costs.total.unpriced_calls) == (None, 1.25, 2)
    rows = {row[0]: row[-1] for row in work_table(run_costs).rows}
    assert rows == {
        "prepare": "≥ $0.2500",
        "question analysis": "$0",
        "answers": "$1.0000",
        "judge": "$0",
        "total": "≥ $1.2500",
    }
    assert usage_share(prepare, 10, 1000) == (
        "1,000 tokens and ≥ $0.0250 per haystack, 10,000 tokens and ≥ $0.2500 per 1,000 messages"
    )
    # Nothing known at all, and a part that no journal records, are no least cost.
    assert cost_text(cost_of(usage(0.0, 2, unpriced_calls=2))) == UNKNOWN
    assert cost_text(costs_of(prepare, None, answers, Usage()).total) == UNKNOWN
    assert cost_text(cost_of(usage(0.25, 2, unpriced_calls=1)), 1e-6) == "> $0"


def test_what_calls_without_a_price_leave_out_is_counted_in_a_note(tmp_path: Path, folders: Folders) -> None:
    graded_run(colours(tmp_path / "colours.json", 2), folders, "r", [True, False])
    (summary,) = summaries(folders, "r")
    costs = costs_of(usage(0.25, 100, unpriced_calls=2), Usage(), Usage(), Usage())
    notes = list(effort_notes([structs.replace(summary, costs=costs)]))
    assert "r: 2 calls of prepare without a known price; ≥ is the cost of the others." in notes
    assert COST_UNKNOWN not in notes


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-a-key")

    def respond(body: dict[str, Any]) -> str:
        prompt = str(body["messages"])
        if "search query" in prompt or "standalone" in prompt:
            return "[]"
        return "yes" if body["model"].startswith("gpt-4o-2024") else "It is red."

    with ModelServer(respond) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        yield server


def asked_about() -> MemoryConfiguration:
    """Vectors, a working memory, and a chat model's look at the questions."""
    return resolve_configuration("combined", ["retriever=hybrid", "decompose=model"])


@pytest.fixture
def paid(tmp_path: Path, server: ModelServer) -> tuple[Dataset, Folders]:
    """Everything paid for: two of four haystacks are run on, and graded."""
    dataset, folders = colours(tmp_path / "colours.json", 4), folders_in(tmp_path)
    options = PrepareOptions(embedder=EMBEDDER, working_memory_model=CHAT, jobs=1, api_base=server.url)
    prepare(dataset, [asked_about()], options=options, folders=folders)
    model = ModelOptions(api_base=server.url)
    reading = reading_configuration("con-separate")
    for run_id, ids in (("all", ("q0", "q1", "q2", "q3")), ("half", ("q0", "q1"))):
        chosen = Selection(question_ids=ids)
        told = RunOptions(run_id=run_id, model_options=model, reading=reading)
        run(dataset, asked_about(), CHAT, selection=chosen, options=told, folders=folders)
        evaluate(run_id, options=EvaluateOptions(judge=JUDGE, model_options=model), folders=folders)
    return dataset, folders


def summaries(folders: Folders, *run_ids: str) -> list[GradedRun]:
    return [one.summary for one in load_graded(run_ids, folders)]


def test_every_call_stands_in_its_column(paid: tuple[Dataset, Folders], server: ModelServer) -> None:
    _, folders = paid
    whole, half = summaries(folders, "all", "half")
    journal = json_lines(folders.prepared_dir / "colours" / "default" / "prepare.jsonl")
    assert whole.costs.prepare.usd == pytest.approx(
        sum(line["usage"]["cost_usd"] for line in journal if "usage" in line)
    )
    answers = json_lines(folders.results_dir / "all" / "answers.jsonl")
    assert whole.costs.answers.usd == pytest.approx(sum(line["usage"]["cost_usd"] for line in answers))
    totals = json.loads((folders.results_dir / "all" / "run.json").read_bytes())["totals"]
    asked = totals["query_model"]["usage"]["cost_usd"] + totals["query_embeddings"]["cost_usd"]
    assert whole.costs.question_analysis.usd == pytest.approx(asked)
    assert totals["query_embeddings"]["calls"] == 1
    (judged,) = (folders.results_dir / "all" / "judgements").glob("*.jsonl")
    assert whole.costs.judge.usd == pytest.approx(sum(line["usage"]["cost_usd"] for line in json_lines(judged)))
    parts = [whole.costs.prepare, whole.costs.question_analysis, whole.costs.answers, whole.costs.judge]
    assert all(part.usd for part in parts)
    assert whole.costs.total.usd == pytest.approx(sum(part.usd or 0.0 for part in parts))
    # Not one request is missing, of either run: the questions of the second are in the cache.
    new = [one.costs.total for one in (whole, half)]
    sent = sum((one.calls or 0) - (one.cached_calls or 0) for one in new) - (half.costs.prepare.calls or 0)
    assert sent == len(server.requests)
    # Half of the haystacks are alike: half of what preparing cost.
    assert half.costs.prepare.usd == pytest.approx((whole.costs.prepare.usd or 0.0) / 2, rel=0.1)
    assert half.costs.question_analysis.cached_calls == 2
    # Notes on each session, then the answer.
    assert whole.calls_per_question == 4.0
    assert whole.mean_prompt_tokens == sum(line["prompt_tokens"] for line in answers) / 4


def test_costs_are_shown_in_columns_and_as_one_sum(paid: tuple[Dataset, Folders]) -> None:
    _, folders = paid
    found = summaries(folders, "all", "half")
    table = cost_table(found, ["all", "half"])
    assert table.headings[1:6] == ["prepare", "question\nanalysis", "answers", "judge", "total"]
    assert all(cell.startswith(("$0.", "<$")) for cell in table.rows[0][1:])
    # All that was asked about the questions of the second run had been asked for the first.
    assert table.rows[1][2] == "$0"
    rows = work_table(found[1].costs).rows
    assert [row[0] for row in rows] == ["prepare", "question analysis", "answers", "judge", "total"]
    notes = list(effort_notes(found))
    assert PAID_ONCE in notes
    assert not {COST_UNKNOWN, FREE} & set(notes)
    assert any("of question analysis came from the cache" in note for note in notes if note.startswith("half"))
    assert "all: 4.0 calls per question; prompt tokens are summed over all of them." in notes
    document = run_document(found[0])
    assert document["costs"]["total"]["usd"] == found[0].costs.total.usd
    assert document["answers_latency_ms"].keys() == {"recall", "model", "total"}


def test_unknown_costs_are_dashes(paid: tuple[Dataset, Folders], tmp_path: Path) -> None:
    dataset, folders = paid
    (folders.prepared_dir / "colours" / "default" / "prepare.jsonl").rename(tmp_path / "elsewhere")
    (summary,) = summaries(folders, "all")
    assert summary.costs.prepare == Cost(None)
    # What is known of the sum is there for those who read JSON; in a table it would be taken for the sum.
    assert summary.costs.total.usd is None
    assert summary.costs.total.known_usd > 0
    (row,) = cost_table([summary], ["all"]).rows
    assert [cell == "\u2013" for cell in row] == [False, True, False, False, False, True, False]
    assert COST_UNKNOWN in list(effort_notes([summary]))
    said = tmp_path / "said.jsonl"
    said.write_text('{"question_id": "q0", "hypothesis": "red"}\n')
    adopted = adopt_hypotheses(said, dataset, folders.results_dir, run_id="theirs")
    evaluate(adopted.run_id, options=EvaluateOptions(judge="offline/lexical"), folders=folders)
    (theirs,) = summaries(folders, "theirs")
    assert cost_table([theirs], ["theirs"]).rows == [["theirs", *["\u2013"] * 3, "$0", *["\u2013"] * 2]]
    assert work_table(theirs.costs).rows[2] == ["answers", *["\u2013"] * 5]
    assert latency_table([theirs], ["theirs"]).rows == []
    assert theirs.costs.total.known_usd == 0.0


def test_a_model_without_a_price_is_no_gift(tmp_path: Path, server: ModelServer) -> None:
    dataset, folders = prepared_colours(tmp_path, 2)
    options = RunOptions(run_id="r", model_options=ModelOptions(api_base=server.url))
    run(dataset, "last-k", "openai/my-own-llama", options=options, folders=folders)
    evaluate("r", options=EvaluateOptions(judge="offline/lexical"), folders=folders)
    (summary,) = summaries(folders, "r")
    assert (summary.costs.answers.usd, summary.costs.answers.calls) == (None, 2)
    assert summary.costs.total.usd is None
    assert summary.costs.prepare.usd == 0.0


def test_offline_costs_nothing_and_says_so(tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path, 2)
    answer_all(dataset, folders)
    graded = evaluate("r", options=EvaluateOptions(judge="offline/lexical"), folders=folders)
    summary = summarise(graded.files, graded.asked, graded.metrics, folders)
    assert summary.costs.total == Cost(0.0, 0.0, 2, 0, 0, 0, 0)
    assert cost_table([summary], ["r"]).rows == []
    assert list(effort_notes([summary])) == [FREE]


def test_failed_calls_of_a_judge_are_paid_for_too(tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path, 2)
    answer_all(dataset, folders)
    evaluate("r", options=EvaluateOptions(judge="offline/lexical"), folders=folders)
    (file,) = (folders.results_dir / "r" / "judgements").glob("*.jsonl")
    first, second = json_lines(file)
    failed = first | {"label": None, "error": "no label in the reply", "usage": {"calls": 1, "cost_usd": 0.5}}
    paid = first | {"usage": {"calls": 1, "cost_usd": 0.25}}
    file.write_text("".join(json.dumps(line) + "\n" for line in (failed, paid, second)))
    (folders.results_dir / "r" / "metrics" / f"{file.stem}.json").unlink()
    metrics: Metrics = evaluate("r", options=EvaluateOptions(judge="offline/lexical"), folders=folders).metrics
    assert (metrics.usage.calls, metrics.usage.cost_usd) == (2, 0.75)


def test_analyses_of_a_session_that_was_killed_are_not_known(tmp_path: Path, server: ModelServer) -> None:
    dataset, folders = colours(tmp_path / "colours.json", 2), folders_in(tmp_path)
    memory = resolve_configuration("bm25", ["decompose=model"])
    prepare(dataset, [memory], options=PrepareOptions(jobs=1), folders=folders)
    run(dataset, memory, MODEL, options=RunOptions(run_id="r", query_model=CHAT), folders=folders)
    evaluate("r", options=EvaluateOptions(judge="offline/lexical"), folders=folders)
    (before,) = summaries(folders, "r")
    assert before.costs.question_analysis.usd
    file = folders.results_dir / "r" / "run.json"
    document = json.loads(file.read_bytes())
    document["totals"]["query_model"]["questions"] = 1
    file.write_text(json.dumps(document))
    (after,) = summaries(folders, "r")
    assert after.costs.question_analysis == cost_of(None)


def test_recall_belongs_to_latency(tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path, 3)
    answer_all(dataset, folders)
    evaluate("r", options=EvaluateOptions(judge="offline/lexical"), folders=folders)
    file = folders.results_dir / "r" / "answers.jsonl"
    timed = ((100.0, 10.0), (20.0, 300.0), (30.0, 30.0))
    lines = [
        line | {"recall_ms": recall, "latency_ms": model}
        for line, (recall, model) in zip(json_lines(file), timed, strict=True)
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    path = folders.results_dir / "r" / "run.json"
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document | {"files": document["files"] | {"answers.jsonl": sha256_file(file)}}))
    (summary,) = summaries(folders, "r")
    latency = summary.latency
    assert (latency.recall.p50, latency.model.p50, latency.total.p50) == (30.0, 30.0, 110.0)
    # The percentile of the sums, not the sum of the percentiles: 110 and 320 are the highest two.
    assert latency.total.p95 == pytest.approx(110 + 0.9 * 210)
    assert latency_table([summary], ["r"]).rows == [["r", "30", "93", "30", "273", "110", "299"]]
