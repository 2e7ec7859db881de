"""`prepare` adds what is missing, keeps what is there, refuses what would mix, and computes each text once."""

import json
from collections import Counter
from pathlib import Path

import pytest
from msgspec import structs

from longmemeval.datasets.base import Dataset
from longmemeval.datasets.longmemeval import LongMemEvalDataset
from longmemeval.datasets.registry import load_dataset
from longmemeval.errors import DataError, FixtureError, HarnessError
from longmemeval.memory.presets import PRESETS
from longmemeval.pipeline.build import PrepareRecord
from longmemeval.pipeline.journal import Journal
from longmemeval.pipeline.prepare import PrepareOptions, PrepareReport, prepare
from longmemeval.pipeline.selection import Selection
from longmemeval.pipeline.verify import verify
from longmemeval.settings import Folders
from tests.pipeline.helpers import answer_all, colour_record, colours, folders_in, litter
from tests.server import ModelServer
from tests.support import ROOT, json_lines, longmemeval, tree, write_dataset

FORCE = PrepareOptions(force=True)
DRY_RUN = PrepareOptions(dry_run=True)


def make(
    dataset: Dataset,
    where: Folders,
    *memories: str,
    limit: int | None = None,
    options: PrepareOptions = PrepareOptions(),
) -> PrepareReport:
    return prepare(dataset, memories, selection=Selection(limit=limit), options=options, where=where)


def parts(where: Folders, preparation: str = "d/default") -> dict[str, tuple[int, bytes]]:
    """Part -> when it was written and what it holds."""
    root = where.prepared_dir / preparation
    return {
        str(path.relative_to(root)): (path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(root.glob("*/*.json"))
    }


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    return colours(tmp_path / "d.json")


@pytest.fixture
def where(tmp_path: Path) -> Folders:
    return folders_in(tmp_path)


def test_fixtures_need_only_the_parts_that_are_read(dataset: Dataset, where: Folders) -> None:
    make(dataset, where, "none")
    assert {Path(name).name for name in parts(where)} == {"meta.json"}
    make(dataset, where, "last-k")
    assert {Path(name).name for name in parts(where)} == {"meta.json", "db.json"}
    db = json.loads((where.prepared_dir / "d/default/q1/db.json").read_text())
    assert db["resource"]["working_memory"] is None


def test_another_configuration_adds_what_is_missing(dataset: Dataset, where: Folders) -> None:
    make(dataset, where, "last-k")
    before = parts(where)
    report = make(dataset, where, "semantic-recall")
    after = parts(where)
    assert report.prepared == 4
    assert {name: after[name] for name in before if name.endswith("db.json")} == {
        name: kept for name, kept in before.items() if name.endswith("db.json")
    }
    assert sum(name.endswith("vector.json") for name in after) == 4
    make(dataset, where, "combined")
    final = parts(where)
    assert all(final[name] == after[name] for name in after if name.endswith("vector.json"))
    for number in range(4):
        db = json.loads(final[f"q{number}/db.json"][1])
        assert f"bicycle{number}" in db["resource"]["working_memory"]
    assert verify("d/default", where=where).problems == ()


def test_order_of_preparing_does_not_show(dataset: Dataset, tmp_path: Path) -> None:
    bit_by_bit, at_once = folders_in(tmp_path / "a"), folders_in(tmp_path / "b")
    for memory in ("last-k", "full-history", "semantic-recall", "combined", "bm25"):
        make(dataset, bit_by_bit, memory)
    make(dataset, at_once, *PRESETS)
    assert [part for _, part in parts(bit_by_bit).values() if b"prepared_at" not in part] == [
        part for _, part in parts(at_once).values() if b"prepared_at" not in part
    ]


def test_what_is_there_is_skipped(dataset: Dataset, where: Folders) -> None:
    make(dataset, where, "full-history", "combined", "hybrid")
    before = tree(where.prepared_dir)
    times = parts(where)
    for memory in PRESETS:
        report = make(dataset, where, memory)
        assert (report.prepared, report.already, report.messages) == (0, 4, 0)
    assert tree(where.prepared_dir) == before
    assert parts(where) == times


def test_larger_selection_adds_the_others_only(dataset: Dataset, where: Folders) -> None:
    make(dataset, where, "combined", limit=2)
    before = parts(where)
    report = make(dataset, where, "combined")
    assert (report.prepared, report.already) == (2, 2)
    assert {name: parts(where)[name] for name in before} == before


def test_lost_part_is_made_again(dataset: Dataset, where: Folders) -> None:
    make(dataset, where, "combined")
    before = {name: part for name, (_, part) in parts(where).items() if "meta" not in name}
    (where.prepared_dir / "d/default/q1/vector.json").unlink()
    (where.prepared_dir / "d/default/q2/meta.json").unlink()
    assert make(dataset, where, "combined").prepared == 2
    assert {name: part for name, (_, part) in parts(where).items() if "meta" not in name} == before


OTHER_WAYS = {
    "embedder": (PrepareOptions(embedder="hashing:64"), ["'hashing-v1:512'", "'hashing-v1:64'"]),
    "index": (PrepareOptions(index="exact"), ["'hnsw'", "'exact'"]),
    "template": (PrepareOptions(), ["working_memory.template_sha256", "was '", "now '"]),
}


def test_what_a_dead_process_left_half_named_is_tidied_up(dataset: Dataset, where: Folders) -> None:
    make(dataset, where, "combined")
    before = {name: part for name, (_, part) in parts(where).items() if "meta" not in name}
    fixture = where.prepared_dir / "d/default/q1"
    # Died after meta.json was replaced, before the parts got their names; and another time within a part.
    for name in ("db.json", "vector.json"):
        (fixture / name).rename(fixture / f"{name}.new")
    (where.prepared_dir / "d/default/q2/.db.json.abc.tmp").write_text('{"half')
    assert answer_all(dataset, where, memory="combined").answered == 4
    assert make(dataset, where, "last-k").prepared == 2
    assert {name: part for name, (_, part) in parts(where).items() if "meta" not in name} == before
    assert litter(where.prepared_dir) == []
    assert verify("d/default", where=where).problems == ()


@pytest.mark.parametrize("way", OTHER_WAYS)
def test_another_way_of_making_is_refused(dataset: Dataset, where: Folders, tmp_path: Path, way: str) -> None:
    options, named = OTHER_WAYS[way]
    if way == "template":
        (tmp_path / "own.md").write_text("# Mine\n\n## Everything\n")
        options = PrepareOptions(working_memory_template=tmp_path / "own.md")
    make(dataset, where, "combined", limit=2)
    before = tree(where.prepared_dir)
    with pytest.raises(FixtureError, match="made by another recipe") as caught:
        make(dataset, where, "combined", options=options)
    assert all(name in str(caught.value) for name in named)
    assert "--name" in caught.value.fix
    assert tree(where.prepared_dir) == before
    assert make(dataset, where, "combined", options=structs.replace(options, name="other")).prepared == 4
    assert {name: part for name, part in tree(where.prepared_dir).items() if name.startswith("d/default")} == before


def test_other_data_under_the_same_name_is_refused(dataset: Dataset, where: Folders, tmp_path: Path) -> None:
    make(dataset, where, "last-k")
    before = tree(where.prepared_dir)
    (tmp_path / "elsewhere").mkdir()
    other = colours(tmp_path / "elsewhere" / "d.json", 5)
    with pytest.raises(FixtureError, match="made from other data") as caught:
        make(other, where, "last-k")
    assert dataset.sha256[:12] in str(caught.value)
    assert other.sha256[:12] in str(caught.value)
    assert tree(where.prepared_dir) == before


def test_force_makes_the_selected_again_and_no_other(dataset: Dataset, where: Folders) -> None:
    make(dataset, where, "combined")
    before = parts(where)
    assert make(dataset, where, "combined", limit=2, options=FORCE).prepared == 2
    after = parts(where)
    assert {name for name in after if after[name][0] != before[name][0]} == {
        f"{question}/{part}.json" for question in ("q0", "q1") for part in ("db", "vector", "meta")
    }
    assert all(after[name][1] == before[name][1] for name in after if "meta" not in name)


def test_force_never_leaves_a_mixed_preparation(dataset: Dataset, where: Folders) -> None:
    make(dataset, where, "combined")
    before = tree(where.prepared_dir)
    with pytest.raises(FixtureError, match="another recipe"):
        make(dataset, where, "combined", limit=2, options=structs.replace(FORCE, embedder="hashing:64"))
    assert tree(where.prepared_dir) == before
    make(dataset, where, "combined", options=structs.replace(FORCE, embedder="hashing:64"))
    assert verify("d/default", where=where).problems == ()
    assert answer_all(dataset, where, memory="combined").answered == 4


def test_force_that_was_interrupted_is_noticed_by_run(dataset: Dataset, where: Folders) -> None:
    make(dataset, where, "semantic-recall", options=PrepareOptions(embedder="hashing:64", name="other"))
    make(dataset, where, "semantic-recall")
    # As it stands when `prepare --force --embedder hashing:64` dies after two fixtures.
    for question in ("q0", "q1"):
        (where.prepared_dir / "d/default" / question).rename(where.prepared_dir / "gone")
        (where.prepared_dir / "d/other" / question).rename(where.prepared_dir / "d/default" / question)
        for path in (where.prepared_dir / "gone").iterdir():
            path.unlink()
        (where.prepared_dir / "gone").rmdir()
    with pytest.raises(FixtureError, match="The preparation is mixed") as caught:
        answer_all(dataset, where, memory="semantic-recall")
    assert "hashing-v1:64" in str(caught.value)
    assert "hashing-v1:512" in str(caught.value)
    assert verify("d/default", where=where).problems != ()
    assert answer_all(dataset, where, memory="last-k").answered == 4


def test_force_does_not_drop_a_working_memory(dataset: Dataset, where: Folders) -> None:
    make(dataset, where, "working-memory")
    before = tree(where.prepared_dir)
    with pytest.raises(FixtureError, match="would drop its working memory"):
        make(dataset, where, "last-k", options=FORCE)
    assert tree(where.prepared_dir) == before


def test_force_replaces_a_preparation_of_other_data(where: Folders, tmp_path: Path) -> None:
    make(colours(tmp_path / "d.json", 3), where, "combined")
    other = colours(tmp_path / "d.json", 3, question_date="2024/01/01 (Mon) 10:00")
    make(other, where, "last-k", options=FORCE)
    assert verify("d/default", where=where).problems == ()
    assert answer_all(other, where).answered == 3


def test_dry_run_counts_and_writes_nothing(dataset: Dataset, where: Folders, tmp_path: Path) -> None:
    report = make(dataset, where, "combined", options=DRY_RUN)
    assert (report.prepared, report.already) == (4, 0)
    # Each haystack has 6 messages, of which the 3 of the assistant are the same everywhere.
    assert report.estimate["messages"] == 24
    assert report.estimate["distinct texts"] == 4 * 3 + 3
    assert report.estimate["texts not in the cache"] == 15
    assert sorted(tmp_path.iterdir()) == [tmp_path / "d.json"]


def test_dry_run_counts_what_is_missing_only(dataset: Dataset, where: Folders) -> None:
    make(dataset, where, "combined", limit=2)
    before = tree(where.prepared_dir)
    report = make(dataset, where, "combined", options=DRY_RUN)
    assert (report.prepared, report.already) == (2, 2)
    assert report.estimate["messages"] == 12
    assert report.estimate["distinct texts"] == 2 * 3 + 3
    assert report.estimate["texts not in the cache"] == 6
    assert tree(where.prepared_dir) == before


def test_dry_run_prints_its_counts(dataset: Dataset, tmp_path: Path) -> None:
    done = longmemeval("prepare", "--dataset", "d.json", "--memory", "combined", "--dry-run", cwd=tmp_path)
    assert done.stdout.splitlines()[0] == "Would prepare 4 of 4 haystacks in prepared-data/d/default"
    assert "  distinct texts: 15" in done.stdout
    assert sorted(tmp_path.iterdir()) == [tmp_path / "d.json"]


def test_each_text_is_embedded_once_across_haystacks_and_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    dataset, where = colours(tmp_path / "d.json", 30), folders_in(tmp_path)
    with ModelServer() as server:
        options = PrepareOptions(embedder="openai:local", api_base=server.url)
        report = make(dataset, where, "semantic-recall", limit=10, options=options)
        assert report.usage.calls == len(server.requests)
        for changed in (options, structs.replace(options, name="again"), structs.replace(options, force=True)):
            make(dataset, where, "semantic-recall", options=changed)
        sent = Counter(text for request in server.requests for text in request.body["input"])
    assert set(sent.values()) == {1}
    assert len(sent) == 30 * 3 + 3
    assert parts(where)["q7/vector.json"][1] == parts(where, "d/again")["q7/vector.json"][1]
    work = json_lines(where.prepared_dir / "d/default/prepare.jsonl")
    assert sum(line["usage"]["calls"] for line in work if line["work"] == "embeddings") == len(server.requests)


def test_embeddings_that_were_paid_for_survive_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    dataset, where = colours(tmp_path / "d.json", 20), folders_in(tmp_path)
    with ModelServer() as server:
        options = PrepareOptions(embedder="openai:local", api_base=server.url, jobs=1)
        make(dataset, where, "semantic-recall", limit=8, options=options)
        server.embedding_faults.append(401)
        with pytest.raises(HarnessError, match="refuses the key"):
            make(dataset, where, "semantic-recall", options=options)
        assert len(list(where.prepared_dir.glob("d/default/*/vector.json"))) == 8
        make(dataset, where, "semantic-recall", options=options)
        sent = Counter(text for request in server.requests for text in request.body["input"])
    # The refused call is the only one that was repeated.
    assert max(sent.values()) == 2
    assert sum(count == 2 for count in sent.values()) == len(server.requests[1].body["input"])


def test_exact_index_needs_no_hnswlib(dataset: Dataset, tmp_path: Path) -> None:
    (tmp_path / "without").mkdir()
    (tmp_path / "without" / "hnswlib.py").write_text("raise ImportError('hnswlib is not installed')\n")
    path = f"{tmp_path / 'without'}:{ROOT}"
    command = ("prepare", "--dataset", "d.json", "--memory", "combined")
    refused = longmemeval(*command, cwd=tmp_path, code=2, PYTHONPATH=path)
    assert "hnswlib" in refused.stderr
    assert "--index exact" in refused.stderr
    longmemeval(*command, "--index", "exact", "--name", "exact", cwd=tmp_path, PYTHONPATH=path)
    run = ("run", "--dataset", "d.json", "--memory", "combined", "--model", "offline/extractive", "--run-id", "r")
    longmemeval(*run, "--prepared", "exact", cwd=tmp_path, PYTHONPATH=path)
    assert len(json_lines(tmp_path / "results/r/answers.jsonl")) == 4


def test_second_process_on_a_preparation_is_refused(dataset: Dataset, where: Folders) -> None:
    root = where.prepared_dir / "d" / "default"
    with Journal(root / "prepare.jsonl", PrepareRecord):
        with pytest.raises(HarnessError, match="Another process is writing"):
            make(dataset, where, "last-k")
        assert make(dataset, where, "last-k", options=DRY_RUN).prepared == 4
    assert list(root.iterdir()) == [root / "prepare.jsonl"]


def test_bad_record_is_told_before_anything_is_made(where: Folders, tmp_path: Path) -> None:
    records = [colour_record(number) for number in range(30)]
    records[25]["haystack_sessions"][1][0]["role"] = "system"
    dataset = LongMemEvalDataset(write_dataset(tmp_path / "d.json", *records))
    with pytest.raises(DataError, match="record 26"):
        make(dataset, where, "last-k")
    assert list(where.prepared_dir.glob("d/default/*/meta.json")) == []
    assert make(dataset, where, "last-k", limit=25).prepared == 25


def test_shipped_sample_holds_its_gold_back(tmp_path: Path) -> None:
    """Nothing of what decides a score is in any file that is prepared, or in any prompt."""
    where, dataset = folders_in(tmp_path), load_dataset("sample")
    make(dataset, where, *PRESETS)
    for memory in PRESETS:
        answer_all(dataset, where, memory, memory=memory)
    golds = [dataset.gold(question.question_id) for question in dataset.questions()]
    # Rubrics and the explanations of what cannot be answered are written by graders: no chat holds them.
    hidden = {str(gold.answer) for gold in golds if gold.abstention or gold.question_type.endswith("preference")}
    assert len(hidden) > 5
    labels = {gold.question_type for gold in golds} | {"has_answer", "answer_session_ids", "question_type"}
    prepared = "\n".join(part.decode() for part in tree(where.prepared_dir).values())
    assert [text for text in hidden | labels if text in prepared] == []
    prompts = [
        message["content"]
        for path in where.results_dir.glob("*/prompts.jsonl")
        for line in json_lines(path)
        for message in line["messages"]
    ]
    assert len(prompts) == len(PRESETS) * len(dataset)
    ids = {session.session_id for haystack in dataset.haystacks() for session in haystack.sessions}
    ids |= {question.question_id for question in dataset.questions()}
    everything = "\n".join(prompts)
    assert [text for text in hidden | labels | ids if text in everything] == []
