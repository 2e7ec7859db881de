"""Tokens counted at prepare: the same figures without counting again, and fixtures of before are read as ever."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from longmemeval.datasets.base import Dataset
from longmemeval.errors import FixtureError
from longmemeval.files import sha256_bytes
from longmemeval.llm.registry import ModelOptions
from longmemeval.llm.tokens import TiktokenCounter
from longmemeval.pipeline.prepare import PrepareOptions, prepare
from longmemeval.pipeline.run import RunOptions, run
from longmemeval.pipeline.verify import verify
from longmemeval.records import PartInfo
from longmemeval.settings import Folders
from longmemeval.storage.fixture import Fixture, fixture_folder, write_fixture
from tests.pipeline.helpers import answers, colours, folders_in
from tests.server import ModelServer
from tests.support import tree

OPTIONS = PrepareOptions(jobs=1)


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    words = "I went to the market this morning and bought bread and cheese and oranges for everybody. "
    sessions = [
        [{"role": "user", "content": f"{number} times: " + words * 50 + "\n" + words} for number in range(20)]
    ] * 3
    return colours(tmp_path / "colours.json", 3, haystack_sessions=sessions)


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


@pytest.fixture
def where(tmp_path: Path) -> Folders:
    return folders_in(tmp_path)


def counted(
    dataset: Dataset, where: Folders, run_id: str, model: str, monkeypatch: pytest.MonkeyPatch, server: ModelServer
) -> tuple[list[tuple[str, int, int]], int]:
    """Question, tokens of its recall and of its prompt, sorted; and how many characters were counted for that."""
    characters = 0
    plain = TiktokenCounter.encode_count

    def spied(self: TiktokenCounter, text: str) -> int:
        nonlocal characters
        characters += len(text)
        return plain(self, text)

    with monkeypatch.context() as patch:
        patch.setattr(TiktokenCounter, "encode_count", spied)
        patch.setenv("OPENAI_API_KEY", "test")
        options = RunOptions(run_id=run_id, model_options=ModelOptions(api_base=server.url))
        run(dataset, "full-history", model, options=options, where=where)
    told: list[dict[str, Any]] = answers(where, run_id)
    return sorted((one["question_id"], one["recall_tokens"], one["prompt_tokens"]) for one in told), characters


@pytest.mark.parametrize("model", ["openai/gpt-4o", "openai/other"])
def test_counts_are_those_of_a_run_that_counts_itself(
    dataset: Dataset, where: Folders, monkeypatch: pytest.MonkeyPatch, model: str, server: ModelServer
) -> None:
    prepare(dataset, ["last-k"], options=OPTIONS, where=where)
    before = tree(where.prepared_dir, without=("meta.json", "prepare.jsonl"))
    assert {Path(name).name for name in before} == {"db.json"}
    itself, characters = counted(dataset, where, "itself", model, monkeypatch, server)
    assert prepare(dataset, ["full-history"], options=OPTIONS, where=where).prepared == 3
    after = tree(where.prepared_dir, without=("meta.json", "prepare.jsonl"))
    assert {Path(name).name for name in after} == {"db.json", "tokens.json"}
    assert {name: after[name] for name in before} == before
    prepared, fewer = counted(dataset, where, "prepared", model, monkeypatch, server)
    assert prepared == itself
    assert fewer < 0.1 * characters
    assert verify("colours/default", where=where).problems == ()
    # A run of before goes on after tokens were counted.
    assert counted(dataset, where, "itself", model, monkeypatch, server) == (itself, 0)


def test_counts_of_other_messages_are_refused(
    dataset: Dataset, where: Folders, monkeypatch: pytest.MonkeyPatch, server: ModelServer
) -> None:
    prepare(dataset, ["full-history"], options=OPTIONS, where=where)
    folder = fixture_folder(where.prepared_dir, dataset.name, "default", "q1")
    fixture = Fixture.open(folder)
    content = json.loads(fixture.read_part("tokens"))
    content["encodings"]["o200k_base"]["tokens"].pop()
    data = json.dumps(content).encode()
    parts = fixture.meta.parts | {"tokens": PartInfo(sha256_bytes(data), fixture.meta.parts["tokens"].recipe)}
    write_fixture(folder, structs.replace(fixture.meta, parts=parts), {"tokens": data})
    with pytest.raises(FixtureError, match="has not one count for each message") as caught:
        counted(dataset, where, "r", "openai/gpt-4o", monkeypatch, server)
    assert caught.value.where == str(folder / "tokens.json")
    (problem,) = verify("colours/default", where=where).problems
    assert "tokens.json" in problem
