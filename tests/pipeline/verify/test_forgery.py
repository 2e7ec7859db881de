"""A forger's kit: whoever can write every file and knows every hash is still named by `verify`."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from longmemeval.core.files import sha256_bytes
from longmemeval.dataset import Dataset
from longmemeval.errors import IntegrityError
from longmemeval.judges.offline.lexical import LEXICAL_JUDGE
from longmemeval.memory.token_counts import encode_tokens
from longmemeval.pipeline.board import Board, make_board
from longmemeval.pipeline.evaluate.evaluate import EvaluateOptions, evaluate
from longmemeval.pipeline.prepare.prepare import PrepareOptions, prepare
from longmemeval.pipeline.run.plan import RunOptions
from longmemeval.pipeline.run.run import run
from longmemeval.pipeline.verify.fixtures import Remaker
from longmemeval.pipeline.verify.verify import Verification, sign, verify, verify_all
from longmemeval.ranking.dense import GRAPH, encode_graph
from longmemeval.ranking.word_counts import encode_words
from longmemeval.records import Message
from longmemeval.settings import Folders
from longmemeval.storage.memory_store import MemoryStore
from longmemeval.storage.messages_part import MESSAGES
from longmemeval.storage.parts import PartInput, PartOutput, PartTools
from longmemeval.storage.vector_index import Graph, VectorIndex
from tests.pipeline.helpers import colours, folders_in, prepared_colours
from tests.pipeline.verify.test_signature import make_key
from tests.server import ModelServer
from tests.support import json_lines, longmemeval

QUESTIONS = 4


def answered(dataset: Dataset, folders: Folders, run_id: str, memory: str = "last-k") -> None:
    """A graded run of the offline model."""
    run(dataset, memory, "offline/extractive", options=RunOptions(run_id=run_id), folders=folders)
    evaluate(run_id, options=EvaluateOptions(judge=LEXICAL_JUDGE), folders=folders)


def edited(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a JSON file."""
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document, indent=2))


def forged(fixture: Path, part: str, data: bytes) -> None:
    """Replace a part and give `meta.json` its hash and size, and those of parts that were made from it."""
    before = json.loads((fixture / "meta.json").read_text())["parts"][part]["sha256"]
    (fixture / f"{part}.json").write_bytes(data)
    edited(
        fixture / "meta.json",
        lambda meta: meta["parts"][part].update(sha256=sha256_bytes(data), stored_bytes=len(data)),
    )
    meta = fixture / "meta.json"
    meta.write_text(meta.read_text().replace(before, sha256_bytes(data)))


def forge_messages(folders: Folders, preparation: str = "colours/default") -> None:
    """Write question and gold answer into the last message of every fixture."""
    data = {one["question_id"]: one for one in json.loads((folders.results_dir.parent / "colours.json").read_text())}
    for fixture in (folders.prepared_dir / preparation).iterdir():
        if fixture.is_dir():
            store = json.loads((fixture / "db.json").read_text())
            asked = data[fixture.name]
            store["messages"][-1]["content"] = f"{asked['question']} {asked['answer'].upper()}."
            forged(fixture, "db", json.dumps(store).encode())


def test_gold_in_the_messages_is_named_by_verify_and_neither_signed_nor_ranked(tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path, QUESTIONS)
    answered(dataset, folders, "honest")
    forge_messages(folders)
    answered(dataset, folders, "forged")
    for subject in ("forged", "colours/default"):
        problems = verify(subject, dataset=str(dataset.path), folders=folders).problems
        assert problems == ("colours/default/q0 and 3 more: part db is not what the data give",), problems
    # The honest run has other messages than are on disk now.
    assert any("part db, as the run read it" in problem for problem in verify("honest", folders=folders).problems)
    private, _ = make_key(tmp_path, "key")
    with pytest.raises(IntegrityError, match="was not signed"):
        sign("forged", private, folders=folders)
    apart = make_board([folders.results_dir], datasets=[str(dataset.path)], folders=folders).board.apart
    assert {entry.submission: "part db" in entry.reason for entry in apart} == {
        "results/forged": True,
        "results/honest": True,
    }


def test_board_shows_what_it_could_not_check_without_a_place(tmp_path: Path) -> None:
    """Fixtures that were not handed over are made from the data; what that does not give is not ranked."""
    dataset, folders = prepared_colours(tmp_path, QUESTIONS, "bm25")
    answered(dataset, folders, "bm25", "bm25")
    shutil.copytree(folders.results_dir / "bm25", tmp_path / "people/ann/results/bm25")

    def board(keys: Path | None = None) -> Board:
        return make_board([tmp_path / "people"], datasets=[str(dataset.path)], keys=keys, folders=folders).board

    ((row,),) = (field.rows for field in board().fields)
    assert (row.rank, row.mark, row.not_checked) == ((1, 1), "", ())
    manifest = tmp_path / "people/ann/results/bm25/run.json"
    edited(manifest, lambda document: [read.update(words="0" * 64) for read in document["fixtures"].values()])
    ((row,),) = (field.rows for field in board().fields)
    assert (row.rank, row.mark) == (None, "not checked")
    assert row.not_checked[0].startswith("part words of 4 of 4 haystacks: its fixture is missing")
    keys = tmp_path / "keys"
    keys.mkdir()
    private, public = make_key(tmp_path, "ann")
    shutil.copy(public, keys)
    sign("bm25", private, folders=folders.model_copy(update={"results_dir": manifest.parent.parent}))
    ((row,),) = (field.rows for field in board(keys).fields)
    assert (row.rank, row.signer.name, len(row.not_checked)) == ((1, 1), "ann", 1)
    # Messages have one recipe alone: another hash of theirs is a forgery, with or without the fixtures.
    edited(manifest, lambda document: [read.update(db="0" * 64) for read in document["fixtures"].values()])
    (entry,) = board().apart
    assert "part db, whose hash run.json has, is not what the data give" in entry.reason


def gold(fixture: Path) -> list[Message]:
    """The messages of a fixture, the last one with the answer."""
    messages = MemoryStore.hydrate((fixture / "db.json").read_bytes(), "db").messages
    return [*messages[:-1], structs.replace(messages[-1], content="bicycle1 is green, green, green")]


def vectors(fixture: Path) -> VectorIndex:
    """The stored vectors."""
    return VectorIndex.hydrate((fixture / "vector.json").read_bytes(), "vector")


def moved_vectors(fixture: Path) -> bytes:
    """Each message with the vector of another."""
    index = vectors(fixture)
    return VectorIndex.of(index.name, index.items, np.roll(index.vectors, 1, axis=0), index.embedder).persist()


def unlinked(fixture: Path) -> bytes:
    """A graph in which no message leads to another."""
    state = Graph.build(vectors(fixture).vectors, GRAPH).state
    return encode_graph(structs.replace(state, base_links=bytes(len(state.base_links))))


def other_facts(fixture: Path) -> bytes:
    """Facts with another colour."""
    facts = (fixture / "engram.json").read_bytes()
    assert b"bicycle1" in facts
    return facts.replace(b"bicycle1", b"tricycle")


PARTS: dict[str, tuple[str, Callable[[Path], bytes]]] = {
    "words": ("bm25", lambda fixture: encode_words(gold(fixture))),
    "tokens": ("full-history", lambda fixture: encode_tokens(gold(fixture))),
    "vector": ("hybrid", moved_vectors),
    "vector-graph": ("semantic-recall", unlinked),
    "engram": ("engram-lean", other_facts),
}


@pytest.mark.parametrize("part", PARTS)
def test_any_part_that_rules_make_is_named(tmp_path: Path, part: str) -> None:
    memory, forge = PARTS[part]
    dataset, folders = prepared_colours(tmp_path, QUESTIONS, memory)
    answered(dataset, folders, "honest", memory)
    for subject in ("honest", "colours"):
        found = verify(subject, dataset=str(dataset.path), folders=folders)
        assert (found.problems, found.not_checked) == ((), ())
    fixture = folders.prepared_dir / "colours/default/q1"
    forged(fixture, part, forge(fixture))
    answered(dataset, folders, "forged", memory)
    for subject in ("forged", "colours"):
        problems = verify(subject, dataset=str(dataset.path), folders=folders).problems
        assert any(f"default/q1: part {part} is not what the data give" in problem for problem in problems), problems


def test_ids_and_recipes_in_meta_json_are_named(tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path, QUESTIONS)
    root = folders.prepared_dir / "colours/default"

    def found() -> Verification:
        return verify("colours", dataset=str(dataset.path), folders=folders)

    whole = {path: path.read_text() for path in root.glob("*/meta.json")}
    for meta in whole:
        edited(meta, lambda document: document.update(question_ids=["q9"]))
    assert "meta.json has other questions or sessions than the data" in found().problems[0]
    for meta, text in whole.items():
        meta.write_text(text.replace('"version": 1', '"version": 2'))
    # A recipe that this version does not follow is said, never counted as held.
    assert found().problems == ()
    assert found().not_checked == ("part db of 4 of 4 haystacks: another recipe made it (version: was 2, now 1)",), (
        found().not_checked
    )
    for meta, text in whole.items():
        meta.write_text(text.replace(dataset.sha256, "0" * 64))
    assert "they were made of other data than colours.json" in found().not_checked[0]
    (root / "q0").rename(root / "kept")
    shutil.copytree(root / "q1", root / "q0")
    assert any("q0/meta.json: is another dataset's or haystack's" in problem for problem in found().problems)


RUN_JSON: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "hash of a part": (
        lambda manifest: manifest["fixtures"]["q1"].update(db="0" * 64),
        "default/q1: part db, as the run read it by run.json, is not the one on disk",
    ),
    "no hash of a part": (lambda manifest: manifest["fixtures"]["q1"].pop("db"), "run.json: has no hashes"),
    "no hashes": (lambda manifest: manifest.update(fixtures={}), "run.json: has no hashes"),
    "footprint": (
        lambda manifest: manifest["totals"]["footprint"]["stored_bytes"].update(q1=1),
        "default/q1: run.json: gives another size on disk",
    ),
}


@pytest.mark.parametrize("change", RUN_JSON)
def test_what_run_json_says_of_fixtures_is_compared(tmp_path: Path, change: str) -> None:
    dataset, folders = prepared_colours(tmp_path, QUESTIONS)
    answered(dataset, folders, "r")
    apply, named = RUN_JSON[change]
    edited(folders.results_dir / "r/run.json", apply)
    assert any(named in problem for problem in verify("r", folders=folders).problems)


def test_lines_of_prepare_jsonl_are_compared_and_costs_said_to_be_reported(tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path, QUESTIONS)
    journal = folders.prepared_dir / "colours/default/prepare.jsonl"
    lines = json_lines(journal)

    def problems(**changes: object) -> tuple[str, ...]:
        journal.write_text("".join(json.dumps(line | changes) + "\n" for line in lines))
        return verify("colours", dataset=str(dataset.path), folders=folders).problems

    assert problems() == ()
    assert "prepare.jsonl: the line on q0 counts other messages" in problems(messages=1)[0]
    paid = {"db": {"calls": 1, "cost_usd": 5.0}}
    assert "prepare.jsonl: the line on q0 has a cost of db, which no model makes" in problems(usage_by_part=paid)[0]
    assert problems(seconds=0.001) == ()
    answered(dataset, folders, "r")
    for subject in ("r", "colours"):
        assert any("prepare.jsonl" in what for what in verify(subject, folders=folders).cannot_prove)


def test_index_line_without_a_file_of_the_run_is_said(tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path, QUESTIONS)
    answered(dataset, folders, "r")
    index = folders.results_dir / "index.jsonl"
    (line,) = json_lines(index)
    invented = line | {"judge": "official-0", "official": True, "accuracy": 1.0}
    index.write_text(json.dumps(line) + "\n" + json.dumps(invented) + "\n")
    assert "metrics/official-0.json: is missing" in verify("r", folders=folders).problems[0]
    earlier = invented | {"ended_at": "2020-01-01T00:00:00+00:00"}
    index.write_text(json.dumps(line) + "\n" + json.dumps(earlier) + "\n")
    found = verify("r", folders=folders)
    assert found.not_checked == ("index.jsonl: a line of judge official-0, of which the run has no file",)


def test_missing_fixtures_and_data_are_said_and_never_counted(tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path, QUESTIONS, "bm25")
    answered(dataset, folders, "r", "bm25")
    with_fixtures = verify("r", folders=folders)
    prepare(dataset, ["semantic-recall"], options=PrepareOptions(jobs=1, name="exact", index="exact"), folders=folders)
    options = RunOptions(run_id="exact", prepared="exact")
    run(dataset, "semantic-recall", "offline/extractive", options=options, folders=folders)
    shutil.rmtree(folders.prepared_dir)
    # The data give the very bytes that the run read.
    without = verify("r", folders=folders)
    assert (without.problems, without.not_checked) == ((), ())
    found = verify("exact", folders=folders)
    assert found.problems == ()
    (gap,) = found.not_checked
    assert gap.startswith("part vector-graph of 4 of 4 haystacks: its fixture is missing")
    assert found.checked < with_fixtures.checked
    dataset.path.unlink()
    found = verify("exact", folders=folders)
    assert found.not_checked[0].startswith("the fixtures: The dataset 'colours'")


def test_no_model_is_called_to_make_a_part_again(tmp_path: Path) -> None:
    dataset, folders = colours(tmp_path / "colours.json", 2), folders_in(tmp_path)
    with ModelServer(lambda body: "[]") as server:
        options = PrepareOptions(jobs=1, embedder="openai:small", api_base=server.url)
        prepare(dataset, ["semantic-recall"], options=options, folders=folders)
        asked = len(server.requests)
        found = verify("colours", dataset=str(dataset.path), folders=folders)
        assert len(server.requests) == asked > 0
    assert found.problems == ()
    assert found.not_checked == ("part vector of 2 of 2 haystacks: openai:small made its vectors",)


def test_sample_is_named_and_drawn_again_by_its_seed(tmp_path: Path) -> None:
    """Of a large run all messages are made again, of the other parts a sample."""
    dataset, folders = prepared_colours(tmp_path, QUESTIONS, "bm25")
    answered(dataset, folders, "r", "bm25")
    root = folders.prepared_dir / "colours/default"
    sampled = Remaker(seed=5, sample=1).drawn(["q0", "q1", "q2", "q3"])
    found = verify("r", folders=folders, remaker=Remaker(seed=5, sample=1))
    (gap,) = found.not_checked
    assert gap.startswith("part words of 3 of 4 haystacks: not in the sample of 1 (--seed 5)")
    for name in ("q0", "q1", "q2", "q3"):
        forged(root / name, "words", encode_words(gold(root / name)))
    answered(dataset, folders, "forged", "bm25")
    (problem,) = verify("forged", folders=folders, remaker=Remaker(seed=5, sample=1)).problems
    assert problem == f"colours/default/{sampled.pop()}: part words is not what the data give"


def test_fixtures_of_several_runs_are_made_again_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset, folders = prepared_colours(tmp_path, QUESTIONS)
    made = list[str]()
    own = MESSAGES.make

    def counted(source: PartInput, tools: PartTools) -> PartOutput:
        made.append(source.haystack.haystack_id)
        return own(source, tools)

    for run_id in ("a", "b"):
        answered(dataset, folders, run_id)
    monkeypatch.setattr(MESSAGES, "make", counted)
    verify_all(["a", "b", "colours"], dataset=str(dataset.path), folders=folders)
    assert sorted(made) == ["q0", "q1", "q2", "q3"]


def test_command_says_what_was_not_checked_and_cannot_be_proved(tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path, QUESTIONS)
    answered(dataset, folders, "r")
    told = longmemeval("verify", "r", "colours", cwd=tmp_path)
    assert "Not checked (colours): all parts of 4 of 4 haystacks: the data 'colours' are not in the" in told.stdout
    assert told.stdout.splitlines()[-1].startswith("No file can prove: ")
    document = json.loads(longmemeval("verify", "r", "--json", cwd=tmp_path).stdout)
    assert document["not_checked"] == []
    assert "that the answers are replies of offline/extractive" in document["cannot_prove"]
    forge_messages(folders)
    told = longmemeval("verify", "r", cwd=tmp_path, code=3)
    assert "colours/default/q0 and 3 more: part db is not what the data give" in told.stderr
