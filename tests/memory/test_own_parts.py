"""A memory system with parts of its own, asynchronous ingestion included, is one file: from prepare to the costs."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from longmemeval.core.files import sha256_file
from longmemeval.dataset import Dataset
from longmemeval.errors import FixtureError, HarnessError
from longmemeval.memory.configuration import MemoryConfiguration, build_memory, resolve_configuration
from longmemeval.memory.protocol import MemoryTools
from longmemeval.pipeline.inspect.inspect import inspect
from longmemeval.pipeline.prepare.access import PreparedFixtures
from longmemeval.pipeline.prepare.prepare import PrepareOptions, prepare
from longmemeval.pipeline.verify.verify import verify
from longmemeval.records import Usage
from longmemeval.results.manifest import read_manifest
from longmemeval.results.preparation import prepare_usage
from longmemeval.settings import Folders
from longmemeval.storage.fixture import Fixture, fixture_folder
from longmemeval.storage.opaque import HistoryIds
from longmemeval.storage.parts import PartInput, PartOutput, PartTools
from tests.memory.own_memory import Facts, Shelf
from tests.pipeline.helpers import answer_all, answers, colours, folders_in, litter, timeless
from tests.server import ModelServer
from tests.support import json_lines, longmemeval, tree

OWN = "tests.memory.own_memory:FactMemory"
MODEL = "openai/gpt-4o-mini"


def own_ids(shown: list[str]) -> list[str]:
    """The ids of messages of the first question that a part of others holds."""
    return [*map(HistoryIds("q1", ["filler_1", "answer_1", "filler_2"]).own, shown)]


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    return colours(tmp_path / "d.json", 4)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-a-key")
    with ModelServer(lambda body: f"fact: {body['messages'][-1]['content']}") as running:
        yield running


def own(*overrides: str) -> MemoryConfiguration:
    return resolve_configuration(OWN, overrides)


def meta(folders: Folders, question: str = "q1") -> dict[str, Any]:
    document: dict[str, Any] = json.loads((folders.prepared_dir / "d/default" / question / "meta.json").read_text())
    return document


@pytest.mark.slow
def test_its_parts_are_made_written_and_read_like_any_other(dataset: Dataset, folders: Folders) -> None:
    report = prepare(dataset, [own("shelf=true")], folders=folders)
    assert report.parts == ("db", "facts", "shelf")
    parts = meta(folders)["parts"]
    assert parts["facts"]["recipe"] == {"version": 1, "model": None, "per_session": 1, "ids": "opaque"}
    assert "reproducible" not in parts["facts"]
    assert parts["shelf"]["recipe"] == {"version": 1, "ids": "opaque", "facts_sha256": parts["facts"]["sha256"]}
    assert (parts["shelf"]["reproducible"], parts["shelf"]["directory"]) == (False, True)
    assert prepare(dataset, [own("shelf=true"), "last-k"], folders=folders).prepared == 0
    assert verify("d/default", folders=folders).problems == ()
    report = prepare(dataset, [own("shelf=true"), "hybrid"], folders=folders)
    assert meta(folders)["parts"]["shelf"] == parts["shelf"]
    told = answer_all(dataset, folders, memory=own("shelf=true"))
    assert told.answered == 4
    assert all(one["recall_ids"] == ["answer_1:0"] for one in answers(folders))
    assert set(read_manifest(folders.results_dir / "r").fixtures["q1"]) == {"db", "facts", "shelf"}
    journal = json_lines(folders.prepared_dir / "d/default/prepare.jsonl")
    assert [one["notes"] for one in journal if "shelf" in one["parts"]] == [["3 pages"]] * 4


@pytest.mark.variants
@pytest.mark.parametrize(
    ("jobs", "executor"),
    [*(pytest.param(jobs, "processes", marks=pytest.mark.slow) for jobs in (1, 2)), (2, "threads")],
)
def test_bytes_are_the_same_however_they_are_made(dataset: Dataset, tmp_path: Path, jobs: int, executor: str) -> None:
    folders, other = folders_in(tmp_path / "a"), folders_in(tmp_path / "b")
    prepare(dataset, [own("shelf=true"), "hybrid"], options=PrepareOptions(jobs=1), folders=folders)
    options = PrepareOptions(jobs=1).replaced(jobs=jobs, executor=executor)
    for memory in ("hybrid", own("shelf=true")):
        prepare(dataset, [memory], options=options, folders=other)
    parts = [
        {name: data for name, data in tree(one.prepared_dir).items() if "meta" not in name and "jsonl" not in name}
        for one in (folders, other)
    ]
    assert parts[0] == parts[1]
    assert len(parts[0]) > 16


def test_its_chat_model_is_cached_counted_and_paid_for_by_who_reads(
    dataset: Dataset, folders: Folders, server: ModelServer
) -> None:
    asked = own(f"extractor={MODEL}")
    options = PrepareOptions(api_base=server.url, jobs=1)
    report = prepare(dataset, [asked], options=options, folders=folders)
    assert report.usage.calls == len(server.chat_requests) == 12
    assert report.usage.cost_usd > 0
    prepare(dataset, [asked], options=options.replaced(force=True), folders=folders)
    assert len(server.chat_requests) == 12
    answer_all(dataset, folders, memory=asked)
    answer_all(dataset, folders, "other", memory="last-k")
    paid, free = (
        prepare_usage(read_manifest(folders.results_dir / run), folders.prepared_dir) for run in ("r", "other")
    )
    assert paid is not None
    assert paid.cost_usd == pytest.approx(report.usage.cost_usd)
    assert free == Usage()


@pytest.mark.slow
def test_calls_that_nobody_counted_are_of_unknown_cost(
    dataset: Dataset, folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Shelf.make

    def uncounted(self: Shelf, source: PartInput, tools: PartTools) -> PartOutput:
        return structs.replace(made(self, source, tools), usage=Usage(unpriced_calls=1))

    monkeypatch.setattr(Shelf, "make", uncounted)
    monkeypatch.setattr(Shelf, "calls_models", True)
    prepare(dataset, [own("shelf=true")], options=PrepareOptions(jobs=1), folders=folders)
    answer_all(dataset, folders, memory=own("shelf=true"))
    paid = prepare_usage(read_manifest(folders.results_dir / "r"), folders.prepared_dir)
    assert paid == Usage(unpriced_calls=4)
    assert paid.dollars is None


def test_verify_checks_the_content_of_its_parts_when_the_memory_is_named(dataset: Dataset, folders: Folders) -> None:
    prepare(dataset, [own("shelf=true")], folders=folders)
    told = verify("d/default", folders=folders)
    assert [note.split("'")[1] for note in told.notes] == ["facts", "shelf"]
    assert "give --memory the memory that reads it" in told.notes[0]
    document = meta(folders)
    facts = folders.prepared_dir / "d/default/q1/facts.json"
    facts.write_text("{}")
    document["parts"]["facts"]["sha256"] = document["parts"]["shelf"]["recipe"]["facts_sha256"] = sha256_file(facts)
    (facts.parent / "meta.json").write_text(json.dumps(document))
    assert verify("d/default", folders=folders).problems == ()
    named = verify("d/default", memories=[own("shelf=true")], folders=folders)
    assert (len(named.problems), named.notes) == (1, ())
    assert "q1, part facts: it cannot be opened (ValidationError" in named.problems[0]
    told_of = longmemeval("verify", "d", "--memory", OWN, cwd=folders.results_dir.parent, code=3).stderr
    assert "q1, part facts" in told_of


def test_parameters_that_decide_a_part_do_not_mix(dataset: Dataset, folders: Folders) -> None:
    prepare(dataset, [own()], folders=folders)
    with pytest.raises(FixtureError, match="per_session: was 1, now 2"):
        prepare(dataset, [own("per_session=2")], folders=folders)
    with pytest.raises(FixtureError, match=r"'facts' .* another recipe \(per_session: was 1, now 2\)") as caught:
        PreparedFixtures(dataset, "default", folders, own("per_session=2")).open("q1")
    assert "--set per_session=2" in caught.value.fix
    assert "--force`, or prepare under another name" in caught.value.fix


def test_a_part_is_made_again_when_what_it_was_made_of_was(
    dataset: Dataset, folders: Folders, server: ModelServer
) -> None:
    options = PrepareOptions(api_base=server.url, jobs=1)
    asked = f"extractor={MODEL}"
    prepare(dataset, [own(asked, "shelf=true")], options=options, folders=folders)
    server.responder = lambda body: "Other fact"
    (folders.cache_dir / "replies.sqlite").unlink()
    prepare(dataset, [own(asked)], options=options.replaced(force=True), folders=folders)
    with pytest.raises(FixtureError, match="Part 'shelf' is stale: the parts it was made from have changed"):
        PreparedFixtures(dataset, "default", folders, own(asked, "shelf=true")).open("q1")
    assert prepare(dataset, [own(asked, "shelf=true")], options=options, folders=folders).prepared == 4
    folder = fixture_folder(folders.prepared_dir, "d", "default", "q1")
    pages = Fixture.open(folder).part(Shelf(Facts()))
    assert own_ids(pages["O"]) == ["filler_1:0", "answer_1:0", "filler_2:0"]
    assert litter(folders.prepared_dir) == []


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["changed", "added", "removed", "gone"])
def test_a_damaged_directory_is_named(dataset: Dataset, folders: Folders, damage: str) -> None:
    prepare(dataset, [own("shelf=true")], folders=folders)
    shelf = folders.prepared_dir / "d/default/q1/shelf"
    page = shelf / "pages" / "H.json"
    match damage:
        case "changed":
            page.write_text("[]")
        case "added":
            (shelf / "other").write_text("")
        case "removed":
            page.unlink()
        case "gone":
            shutil.rmtree(shelf)
    told = "missing" if damage == "gone" else "damaged"
    assert any(f"Part 'shelf' is {told}" in problem for problem in verify("d/default", folders=folders).problems)
    prepare(dataset, [own("shelf=true")], options=PrepareOptions(force=True), folders=folders)
    assert verify("d/default", folders=folders).problems == ()


def test_a_process_that_died_leaves_the_old_directory_or_the_new(dataset: Dataset, folders: Folders) -> None:
    prepare(dataset, [own("shelf=true")], folders=folders)
    before = timeless(folders.prepared_dir / "d/default/q1")
    fixture = folders.prepared_dir / "d/default/q1"
    # Died after meta.json was replaced: the new directory has not got its name yet, the old one is still there.
    shutil.copytree(fixture / "shelf", fixture / "shelf.new")
    (fixture / "shelf" / "pages" / "H.json").write_text("old")
    assert own_ids(Fixture.open(fixture).part(Shelf(Facts()))["H"]) == ["filler_1:0"]
    # Died while another one was being written.
    other = folders.prepared_dir / "d/default/q2"
    shutil.copytree(other / "shelf", other / "shelf.new")
    (other / "shelf.new" / "half").write_text("")
    prepare(dataset, ["last-k"], folders=folders)
    assert timeless(fixture) == before
    assert litter(folders.prepared_dir) == []
    assert verify("d/default", folders=folders).problems == ()


def test_an_ingestion_that_was_stopped_goes_on_in_its_folder(dataset: Dataset, folders: Folders) -> None:
    prepare(dataset, [own()], folders=folders)
    unfinished = folders.prepared_dir / "d/default/q1/shelf.unfinished"
    (unfinished / "pages").mkdir(parents=True)
    (unfinished / "pages" / "A.json").write_text("[]")
    prepare(dataset, [own("shelf=true")], folders=folders)
    assert (folders.prepared_dir / "d/default/q1/shelf/pages/A.json").exists()
    assert not unfinished.exists()
    assert verify("d/default", folders=folders).problems == ()


def test_a_fault_in_its_code_is_told_without_a_traceback(
    dataset: Dataset, folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: Shelf, source: object, tools: object) -> None:
        raise KeyError("pages")

    monkeypatch.setattr(Shelf, "make", fails)
    with pytest.raises(HarnessError, match=r"Part 'shelf' cannot be made: KeyError: 'pages' .*own_memory\.Shelf\.make"):
        prepare(dataset, [own("shelf=true")], folders=folders)
    monkeypatch.undo()
    assert prepare(dataset, [own("shelf=true")], folders=folders).prepared == 4


def test_estimate_inspect_and_the_remedy_know_it(dataset: Dataset, folders: Folders) -> None:
    figures = prepare(dataset, [own("shelf=true")], options=PrepareOptions(dry_run=True), folders=folders).estimate
    assert figures["disk for fixtures, MB"] > 0
    prepare(dataset, ["last-k"], folders=folders)
    with pytest.raises(FixtureError, match="lacks part 'facts'") as caught:
        PreparedFixtures(dataset, "default", folders, own("shelf=true", "per_session=2")).open("q1")
    assert "--memory tests.memory.own_memory:FactMemory --set per_session=2 --set shelf=True" in caught.value.fix
    prepare(dataset, [own()], folders=folders)
    seen = inspect(dataset, "q1", [own()], preparation="default", folders=folders)
    assert set(seen.stored[0].parts) == {"db", "facts"}
    assert seen.recalled[0].recall is not None


def test_what_cannot_be_made_again_the_same_is_marked(dataset: Dataset, folders: Folders, tmp_path: Path) -> None:
    prepare(dataset, [own("shelf=true"), "last-k"], folders=folders)
    for run, memory in (("r", own("shelf=true")), ("other", "last-k")):
        answer_all(dataset, folders, run, memory=memory)
    assert read_manifest(folders.results_dir / "r").settings.plain["not_reproducible"] == ["shelf"]
    assert "not_reproducible" not in read_manifest(folders.results_dir / "other").settings.plain
    longmemeval("evaluate", "r", "--judge", "offline/lexical", cwd=tmp_path)
    longmemeval("evaluate", "other", "--judge", "offline/lexical", cwd=tmp_path)
    shown = " ".join(longmemeval("compare", "r", "other", "--tables", "--notes", cwd=tmp_path).stdout.split())
    assert "FactMemory uses parts that are not reproducible: shelf" in shown


def test_it_ranks_nothing_and_retrieval_takes_what_it_recalls(dataset: Dataset, folders: Folders) -> None:
    prepare(dataset, [own()], folders=folders)
    fixtures = PreparedFixtures(dataset, "default", folders, own())
    memory = build_memory(own(), MemoryTools(lambda text: pytest.fail(f"{text} is embedded")))
    assert fixtures.embedder_of(list(dataset.questions())) is None
    assert memory is not None
