"""What runs read: fixtures opened once, words counted at prepare or, in fixtures of before, in the run."""

import json
import re
import shlex
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs

from longmemeval.datasets.base import Dataset
from longmemeval.datasets.registry import load_dataset
from longmemeval.errors import FixtureError
from longmemeval.event_loop import complete
from longmemeval.files import sha256_bytes
from longmemeval.memory.configuration import build_memory, resolve_configuration
from longmemeval.memory.protocol import MemoryTools
from longmemeval.pipeline.prepare import PrepareOptions, prepare
from longmemeval.pipeline.prepared import PreparedFixtures
from longmemeval.pipeline.run import RunOptions, run
from longmemeval.pipeline.selection import Selection
from longmemeval.pipeline.verify import verify
from longmemeval.records import PartInfo
from longmemeval.retrieval.word_counts import encode_words
from longmemeval.settings import Folders
from longmemeval.storage.fixture import Fixture, fixture_folder, write_fixture
from tests.conftest import real_file
from tests.pipeline.helpers import MODEL, answers, colours, folders_in, manifest
from tests.support import longmemeval, tree

OPTIONS = PrepareOptions(jobs=1)


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    return colours(tmp_path / "colours.json")


@pytest.fixture
def where(tmp_path: Path) -> Folders:
    return folders_in(tmp_path)


def answer(dataset: Dataset, where: Folders, run_id: str, *, limit: int | None = None) -> list[str]:
    """A run of `hybrid`; what it told."""
    told: list[str] = []
    options = RunOptions(run_id=run_id, tell=told.append)
    run(dataset, "hybrid", MODEL, selection=Selection(limit=limit), options=options, where=where)
    return [one for one in told if "words" in one]


def given(where: Folders, run_id: str) -> list[tuple[str, str, str]]:
    """What was recalled and answered, question by question."""
    return sorted((one["question_id"], one["hypothesis"], str(one["recall_ids"])) for one in answers(where, run_id))


def test_fixtures_without_words_are_read_as_before(dataset: Dataset, where: Folders, tmp_path: Path) -> None:
    prepare(dataset, ["semantic-recall"], options=OPTIONS, where=where)
    before = tree(where.prepared_dir, without=("meta.json", "prepare.jsonl"))
    (told,) = answer(dataset, where, "counted-now")
    assert "4 of 4 haystacks" in told
    command = re.search("`longmemeval (.*)`", told)
    assert command
    longmemeval(*shlex.split(command[1]), cwd=tmp_path)
    after = tree(where.prepared_dir, without=("meta.json", "prepare.jsonl"))
    assert {name: after[name] for name in before} == before
    assert {Path(name).name for name in set(after) - set(before)} == {"words.json"}
    assert answer(dataset, where, "counted-before") == []
    assert given(where, "counted-now") == given(where, "counted-before")
    assert set(manifest(where, "counted-now")["fixtures"]["q1"]) == {"db", "vector"}
    assert set(manifest(where, "counted-before")["fixtures"]["q1"]) == {"db", "vector", "words"}
    # A run of before goes on after the words were added.
    assert answer(dataset, where, "counted-now") == []


def test_words_counted_by_other_rules_are_not_read_and_made_again(dataset: Dataset, where: Folders) -> None:
    prepare(dataset, ["hybrid"], options=OPTIONS, where=where)
    answer(dataset, where, "first")
    before = tree(where.prepared_dir, without=("meta.json", "prepare.jsonl"))
    meta = where.prepared_dir / "colours/default/q1/meta.json"
    document = json.loads(meta.read_text())
    document["parts"]["words"]["recipe"] = {"version": 0}
    meta.write_text(json.dumps(document))
    (told,) = answer(dataset, where, "second")
    assert "1 of 4 haystacks" in told
    assert given(where, "first") == given(where, "second")
    assert prepare(dataset, ["hybrid"], options=OPTIONS, where=where).prepared == 1
    assert tree(where.prepared_dir, without=("meta.json", "prepare.jsonl")) == before
    assert verify("colours/default", where=where).problems == ()


def test_words_of_another_history_are_refused(dataset: Dataset, where: Folders) -> None:
    prepare(dataset, ["hybrid"], options=OPTIONS, where=where)
    folder = where.prepared_dir / "colours/default/q1"
    fixture = Fixture.open(folder)
    short = encode_words(fixture.memory.messages[:-1])
    info = structs.replace(fixture.meta.parts["words"], sha256=sha256_bytes(short))
    write_fixture(folder, structs.replace(fixture.meta, parts={**fixture.meta.parts, "words": info}), {"words": short})
    (problem,) = verify("colours/default", where=where).problems
    assert "counts 5 messages, db.json has 6" in problem
    with pytest.raises(FixtureError, match="counts 5 messages"):
        answer(dataset, where, "r")


def test_a_fresh_recall_is_quicker_with_counted_words(tmp_path: Path, where: Folders) -> None:
    dataset = load_dataset(str(real_file("longmemeval_e47becba.json")))
    prepare(dataset, ["bm25"], options=OPTIONS, where=where)
    (question,) = dataset.questions()
    folder = fixture_folder(where.prepared_dir, dataset.name, "default", question.haystack_id)
    meta = Fixture.open(folder).meta
    memory = build_memory(resolve_configuration("bm25"), MemoryTools(lambda text: np.zeros(1, np.float32)))

    def processor_time(parts: dict[str, PartInfo]) -> float:
        times = []
        for _ in range(3):
            fixture = Fixture(folder, structs.replace(meta, parts=parts))
            started = time.process_time()
            complete(memory.recall(question, fixture))
            times.append(time.process_time() - started)
        return min(times)

    without = {name: info for name, info in meta.parts.items() if name != "words"}
    assert processor_time(meta.parts) < processor_time(without) / 2


def test_a_run_reads_every_file_once(where: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    """LoCoMo asks some 200 questions about a conversation."""
    dataset = load_dataset(str(real_file("locomo10.json")))
    selection = Selection(limit=250)
    prepare(dataset, ["hybrid"], selection=selection, options=OPTIONS, where=where)
    read = Counter[str]()
    original = Path.read_bytes

    def counted(path: Path) -> bytes:
        if where.prepared_dir in path.parents and path.suffix == ".json":
            read["/".join(path.parts[-2:])] += 1
        return original(path)

    monkeypatch.setattr(Path, "read_bytes", counted)
    run(dataset, "hybrid", MODEL, selection=selection, options=RunOptions(run_id="r"), where=where)
    haystacks = {question.haystack_id for question in list(dataset.questions())[:250]}
    assert read == {f"{one}/{part}.json": 1 for one in haystacks for part in ("meta", "db", "vector", "words")}


def test_what_is_kept_open_is_bounded(dataset: Dataset, where: Folders) -> None:
    prepare(dataset, ["last-k"], options=OPTIONS, where=where)
    fixtures = PreparedFixtures(dataset, "default", where, resolve_configuration("last-k"))
    first = fixtures.open("q0")
    assert fixtures.open("q0") is first
    first.bytes_read = 1 << 30
    second = fixtures.open("q1")
    assert fixtures.open("q1") is second
    assert fixtures.open("q0") is not first
