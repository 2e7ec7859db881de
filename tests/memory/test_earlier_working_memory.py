"""Fixtures of the version that kept the working memory in `db.json`: read as they are, and never lost."""

import json
from pathlib import Path

import pytest
from msgspec import structs

from longmemeval.core.files import sha256_bytes
from longmemeval.dataset import Dataset
from longmemeval.errors import FixtureError
from longmemeval.memory.working_memory.part import DOCUMENT
from longmemeval.pipeline.prepare.prepare import PrepareOptions, prepare
from longmemeval.pipeline.verify.verify import verify
from longmemeval.records import PartInfo
from longmemeval.results.manifest import read_manifest
from longmemeval.results.preparation.costs import prepare_usage
from longmemeval.settings import Folders
from longmemeval.storage.fixture import Fixture, write_fixture
from longmemeval.storage.memory_store import MemoryStore
from tests.pipeline.helpers import answer_all, answers, colours
from tests.support import json_lines, tree

ONE = PrepareOptions(jobs=1)


def make_earlier(folder: Path) -> None:
    """Put the document where it stood, in the fixture and in what its recipe tells."""
    fixture = Fixture.open(folder)
    store = MemoryStore.hydrate(fixture.read_part("db"), "db")
    store.working_memory = fixture.part(DOCUMENT)
    parts = dict(fixture.meta.parts)
    recipe = {"version": 1, "working_memory": parts.pop("working-memory").recipe}
    data = store.persist()
    parts["db"] = PartInfo(sha256_bytes(data), recipe)
    write_fixture(folder, structs.replace(fixture.meta, parts=parts), {"db": data})
    (folder / "working-memory.json").unlink()


@pytest.fixture
def dataset(tmp_path: Path, where: Folders) -> Dataset:
    """Prepared as the earlier version did; its journal too tells of `db` alone."""
    dataset = colours(tmp_path / "d.json", 3)
    prepare(dataset, ["combined"], options=ONE, where=where)
    for number in range(3):
        make_earlier(where.prepared_dir / "d" / "default" / f"q{number}")
    journal = where.prepared_dir / "d" / "default" / "prepare.jsonl"
    lines = json_lines(journal)
    for line in lines:
        folder = where.prepared_dir / "d" / "default" / line["haystack_id"]
        line["parts"].remove("working-memory")
        line["part_sha256"].pop("working-memory")
        line["part_sha256"]["db"] = Fixture.open(folder).meta.parts["db"].sha256
        line["usage_by_part"] = {"db": {"calls": 3, "cost_usd": 0.25}}
    journal.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return dataset


def test_it_is_read_and_nothing_is_made_again(dataset: Dataset, where: Folders) -> None:
    before = tree(where.prepared_dir)
    for memory in ("combined", "working-memory", "last-k"):
        assert prepare(dataset, [memory], options=ONE, where=where).prepared == 0
    assert tree(where.prepared_dir) == before
    assert verify("d/default", where=where).problems == ()
    assert answer_all(dataset, where, memory="working-memory").answered == 3
    prompts = json_lines(where.results_dir / "r" / "prompts.jsonl")
    assert all("painted my bicycle" in str(prompt["messages"]) for prompt in prompts)
    assert answers(where)[0]["recall_tokens"] > 100
    # As a manifest of that version has it, so that its runs are gone on with.
    assert set(read_manifest(where.results_dir / "r").fixtures["q1"]) == {"db"}


def test_who_reads_it_pays_for_it_and_who_reads_messages_does_not(dataset: Dataset, where: Folders) -> None:
    for run, memory in (("r", "combined"), ("other", "last-k")):
        answer_all(dataset, where, run, memory=memory)
    with_document, without = (
        prepare_usage(read_manifest(where.results_dir / run), where.prepared_dir) for run in ("r", "other")
    )
    assert with_document is not None
    assert without is not None
    assert (with_document.calls, with_document.cost_usd) == (9, 0.75)
    assert (without.calls, without.cost_usd) == (0, 0.0)


def test_another_template_is_refused_and_force_drops_nothing(dataset: Dataset, where: Folders, tmp_path: Path) -> None:
    (tmp_path / "own.md").write_text("# Mine\n\n## Everything\n")
    own = ONE.replaced(working_memory_template=tmp_path / "own.md")
    with pytest.raises(FixtureError, match=r"'working-memory'.* another recipe \(template_sha256: was"):
        prepare(dataset, ["combined"], options=own, where=where)
    with pytest.raises(FixtureError, match="would drop its working memory"):
        prepare(dataset, ["last-k"], options=ONE.replaced(force=True), where=where)
    prepare(dataset, ["combined"], options=ONE.replaced(force=True), where=where)
    folder = where.prepared_dir / "d" / "default" / "q1"
    assert json.loads((folder / "db.json").read_text())["resource"]["working_memory"] is None
    assert "bicycle1" in json.loads((folder / "working-memory.json").read_text())["document"]
    assert verify("d/default", where=where).problems == ()
