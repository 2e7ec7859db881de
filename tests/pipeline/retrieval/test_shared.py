"""`retrieval` by several memories at once: read once, indexed once, embedded once, in any number of processes."""

import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from longmemeval.dataset import Dataset
from longmemeval.errors import FixtureError, HarnessError
from longmemeval.llm.options import ModelOptions
from longmemeval.memory.configuration import MemoryConfiguration, resolve_configuration
from longmemeval.pipeline.prepare.prepare import PrepareOptions, prepare
from longmemeval.pipeline.retrieval.ranking_run import RetrievalReport
from longmemeval.pipeline.retrieval.retrieve import RetrievalOptions, retrieve
from longmemeval.pipeline.run.plan import RunOptions
from longmemeval.pipeline.run.run import run
from longmemeval.pipeline.verify.verify import verify
from longmemeval.ranking import retriever
from longmemeval.ranking.history import HistoryView
from longmemeval.ranking.lexical import LexicalIndex, LexicalParameters, UnitWords
from longmemeval.results.manifest import read_manifest
from longmemeval.settings import Folders
from tests.benchmarks.locomo.test_loader import make_conversation, open_conversations
from tests.pipeline.helpers import MODEL, colours, lines_in, start, stop_when, timeless
from tests.server import ModelServer
from tests.support import json_lines, longmemeval

Memory = MemoryConfiguration | str


def named(name: str, preset: str, *overrides: str) -> MemoryConfiguration:
    return resolve_configuration(preset, overrides).model_copy(update={"name": name})


MEMORIES: list[Memory] = [
    "bm25",
    "hybrid",
    named("ranked", "semantic-recall", "retriever=hybrid", "top_k=3"),
    "semantic-recall",
    "oracle",
]


def questions_about(speaker: str) -> list[dict[str, Any]]:
    """The usual ones, with a speaker's name: what is embedded is the question without it."""
    return [one | {"question": f"{speaker}: {one['question']}"} for one in make_conversation()["qa"]]


@pytest.fixture
def talks(tmp_path: Path) -> Dataset:
    """Three conversations of five questions."""
    return open_conversations(
        tmp_path, *(make_conversation(f"conv-{number}", qa=questions_about("Ann")) for number in range(3))
    )


def ranked(
    dataset: Dataset, folders: Folders, memories: Sequence[Memory], run_id: str = "r", **changes: object
) -> RetrievalReport:
    options = structs.replace(RetrievalOptions(run_id=run_id), **changes)
    return retrieve(dataset, memories, options=options, folders=folders)


@pytest.mark.slow
def test_any_number_of_workers_gives_the_same_files(talks: Dataset, folders: Folders, tmp_path: Path) -> None:
    prepare(talks, MEMORIES, options=PrepareOptions(jobs=1), folders=folders)
    trees = []
    for jobs, executor in ((1, None), (2, None), (2, "threads")):
        own = folders.model_copy(update={"results_dir": tmp_path / f"results-{jobs}-{executor}"})
        report = ranked(talks, own, MEMORIES, jobs=jobs, executor=executor)
        assert [run.newly_ranked for run in report.runs] == [15] * len(MEMORIES)
        trees.append(timeless(own.results_dir))
        assert verify("r-hybrid", folders=own).problems == ()
    assert trees[0] == trees[1] == trees[2]
    assert len(trees[0]) == 3 * len(MEMORIES)


@pytest.mark.slow
def test_together_or_one_by_one_gives_the_same_rankings(talks: Dataset, folders: Folders) -> None:
    prepare(talks, MEMORIES, options=PrepareOptions(jobs=1), folders=folders)
    together = ranked(talks, folders, MEMORIES)
    for one, memory in zip(together.runs, MEMORIES, strict=True):
        alone = ranked(talks, folders, [memory], f"alone-{one.settings.memory_name}").runs[0]
        assert alone.results == one.results
        first, second = (Path(each.folder) / "rankings.jsonl" for each in (one, alone))
        assert first.read_bytes() == second.read_bytes()


@pytest.mark.slow
def test_what_memories_share_is_read_and_indexed_once(
    talks: Dataset, folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(talks, MEMORIES, options=PrepareOptions(jobs=1), folders=folders)
    read, indexed = Counter[str](), Counter[str]()
    read_bytes = Path.read_bytes

    def reading(path: Path) -> bytes:
        if folders.prepared_dir in path.parents and path.suffix == ".json":
            read["/".join(path.parts[-2:])] += 1
        return read_bytes(path)

    def indexing(history: HistoryView, parameters: LexicalParameters, words: Sequence[UnitWords]) -> LexicalIndex:
        indexed[history.store.resource.id] += 1
        return LexicalIndex(history, parameters, words)

    monkeypatch.setattr(Path, "read_bytes", reading)
    monkeypatch.setattr(retriever, "LexicalIndex", indexing)
    # Three of these rank by words; one of them by other parameters than the two.
    ranked(talks, folders, [*MEMORIES, named("narrow", "bm25", "window=[]")])
    assert indexed == {f"resource_conv-{number}": 2 for number in range(3)}
    parts = ("meta", "db", "vector", "vector-graph", "words")
    assert read == {f"conv-{number}/{part}.json": 1 for number in range(3) for part in parts}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-a-key")
    with ModelServer(lambda body: '["the lake picture", "the move to Oslo"]') as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        yield server


def requests(server: ModelServer, path: str) -> list[Any]:
    return [one.body for one in server.requests if one.path.endswith(path)]


@pytest.mark.thorough
@pytest.mark.parametrize("jobs", [1, 2])
def test_questions_are_embedded_once_whoever_ranks(
    talks: Dataset, folders: Folders, server: ModelServer, jobs: int
) -> None:
    prepare(talks, MEMORIES, options=PrepareOptions(jobs=1, embedder="openai:text-embedding-3-small"), folders=folders)
    before = len(requests(server, "/embeddings"))
    ranked(
        talks, folders, ["hybrid", "semantic-recall", named("ranked", "semantic-recall", "retriever=dense")], jobs=jobs
    )
    texts = [text for body in requests(server, "/embeddings")[before:] for text in body["input"]]
    asked = [one["question"] for one in make_conversation()["qa"]]
    # With the names for the nearest messages, without them for those that rank.
    assert Counter(texts) == Counter([*(f": {one}" for one in asked), *(f"Ann: {one}" for one in asked)])
    assert len(requests(server, "/embeddings")) == before + 1


def test_a_run_embeds_in_one_go_what_it_searches_for(talks: Dataset, folders: Folders, server: ModelServer) -> None:
    prepare(
        talks, ["hybrid"], options=PrepareOptions(jobs=1, embedder="openai:text-embedding-3-small"), folders=folders
    )
    before = len(requests(server, "/embeddings"))
    run(talks, "hybrid", MODEL, options=RunOptions(run_id="r"), folders=folders)
    (body,) = requests(server, "/embeddings")[before:]
    # Without the names, and nothing else.
    assert sorted(body["input"]) == sorted(f": {one['question']}" for one in make_conversation()["qa"])


@pytest.mark.thorough
def test_what_a_chat_model_made_of_the_questions_reaches_the_workers(
    talks: Dataset, folders: Folders, server: ModelServer
) -> None:
    memory = named("parts", "hybrid", "decompose=model")
    prepare(talks, [memory], options=PrepareOptions(jobs=1), folders=folders)
    options = {"query_model": "openai/local", "model_options": ModelOptions(api_base=server.url, max_attempts=1)}
    first = ranked(talks, folders, [memory], "here", jobs=1, **options)
    asked = len(server.chat_requests)
    assert asked > 0
    second = ranked(talks, folders, [memory], "there", jobs=2, **options)
    assert len(server.chat_requests) == asked
    here, there = (json_lines(folders.results_dir / one / "rankings.jsonl") for one in ("here", "there"))
    assert here == there
    assert first.runs[0].results == second.runs[0].results


@pytest.mark.thorough
@pytest.mark.slow
def test_a_fault_in_a_worker_stops_with_its_error_and_what_was_ranked_is_kept(tmp_path: Path, folders: Folders) -> None:
    dataset = colours(tmp_path / "colours.json", 4)
    prepare(dataset, ["bm25", "last-k"], options=PrepareOptions(jobs=1), folders=folders)
    part = folders.prepared_dir / "colours/default/q2/db.json"
    whole = part.read_text()
    part.write_text(whole.replace("eggs", "EGGS"))
    with pytest.raises(FixtureError, match="Part 'db' is damaged") as caught:
        ranked(dataset, folders, ["bm25", "last-k"], jobs=2)
    assert "q2" in caught.value.where
    for memory in ("bm25", "last-k"):
        folder = folders.results_dir / f"r-{memory}"
        assert read_manifest(folder).status == "failed"
        assert [one["question_id"] for one in json_lines(folder / "rankings.jsonl")] == ["q0", "q1"]
    part.write_text(whole)
    report = ranked(dataset, folders, ["bm25", "last-k"], jobs=2)
    assert [run.newly_ranked for run in report.runs] == [2, 2]


@pytest.mark.slow
def test_the_same_command_goes_on_after_a_kill_without_a_name(tmp_path: Path, folders: Folders) -> None:
    dataset = colours(tmp_path / "colours.json", 40)
    prepare(dataset, ["bm25", "last-k"], options=PrepareOptions(jobs=1), folders=folders)
    command = ["retrieval", "--dataset", str(dataset.path), "--memory", "bm25", "--jobs", "1"]
    process = start(*command, cwd=tmp_path)
    begun = folders.results_dir
    stop_when(process, lambda: any(lines_in(path) >= 3 for path in begun.glob("*/rankings.jsonl")), signal.SIGKILL)
    (cut,) = begun.glob("*/rankings.jsonl")
    kept = cut.read_bytes()
    # Another memory, another level or a second time of asking is not what was begun.
    others = (["--memory", "last-k"], ["--memory", "bm25", "--granularity", "turn"], ["--memory", "bm25", "--twice"])
    for other in others:
        longmemeval("retrieval", "--dataset", dataset.path, *other, "--jobs", "1", cwd=tmp_path)
    assert cut.read_bytes() == kept
    longmemeval(*command, cwd=tmp_path)
    assert cut.read_bytes().startswith(kept[: kept.rfind(b"\n") + 1])
    assert lines_in(cut) == 40
    assert read_manifest(cut.parent).status == "completed"
    # A finished one is not written to: the next is a run of its own.
    longmemeval(*command, cwd=tmp_path)
    assert len(list(begun.glob("*_bm25_retrieval-session_*"))) == 3


@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_interrupted_work_goes_on_where_it_was(tmp_path: Path, folders: Folders, number: signal.Signals) -> None:
    dataset = colours(tmp_path / "colours.json", 40)
    prepare(dataset, ["bm25", "hybrid"], options=PrepareOptions(jobs=1), folders=folders)
    ranked(dataset, folders, ["bm25", "hybrid"], "whole", jobs=1)
    command = ["retrieval", "--dataset", str(dataset.path), "--memory", "bm25", "--memory", "hybrid", "--jobs"]
    begun = folders.results_dir / "cut-bm25" / "rankings.jsonl"
    process = start(*command, "2", "--run-id", "cut", cwd=tmp_path)
    told = stop_when(process, lambda: lines_in(begun) >= 3, number)
    assert "Traceback" not in told
    assert lines_in(begun) >= 3
    # Whoever goes on: one process, which need not begin workers.
    longmemeval(*command, "1", "--run-id", "cut", cwd=tmp_path)
    for memory in ("bm25", "hybrid"):
        whole, cut = (folders.results_dir / f"{run_id}-{memory}" / "rankings.jsonl" for run_id in ("whole", "cut"))
        assert whole.read_bytes() == cut.read_bytes()
        assert verify(f"cut-{memory}", folders=folders).problems == ()


def test_no_jobs_for_the_official_protocol(tmp_path: Path, folders: Folders) -> None:
    with pytest.raises(HarnessError, match="works in one process"):
        ranked(colours(tmp_path / "colours.json"), folders, ["bm25"], protocol="official", jobs=2)
    with pytest.raises(HarnessError, match="--jobs must be at least 1, not 0"):
        ranked(colours(tmp_path / "colours.json"), folders, ["bm25"], jobs=0)


@pytest.mark.slow
def test_fixtures_without_words_are_named(tmp_path: Path, folders: Folders) -> None:
    dataset = colours(tmp_path / "colours.json")
    prepare(dataset, ["last-k"], options=PrepareOptions(jobs=1), folders=folders)
    told: list[str] = []
    ranked(dataset, folders, ["bm25", "last-k"], tell=told.append)
    assert len(told) == 1
    assert "no part 'words' for 4 of 4 haystacks" in told[0]
