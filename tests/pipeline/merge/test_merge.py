"""The runs of all shards become one run, equal to that of one machine; what does not fit is named, nothing written."""

import shutil
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from longmemeval.dataset import Dataset
from longmemeval.errors import HarnessError, IntegrityError
from longmemeval.judges.offline.lexical import lexical_judge
from longmemeval.llm.costs import spent_in
from longmemeval.llm.options import SpendingLimit
from longmemeval.pipeline.evaluate.evaluate import EvaluateOptions, evaluate
from longmemeval.pipeline.merge.merge import added_up, merge
from longmemeval.pipeline.merge.to_grade import shard_to_grade
from longmemeval.pipeline.retrieval.retrieve import RetrievalOptions, retrieve
from longmemeval.pipeline.run.answering import RunReport
from longmemeval.pipeline.run.plan import RunOptions
from longmemeval.pipeline.run.run import run
from longmemeval.pipeline.verify.verify import verify
from longmemeval.results.manifest import read_manifest, write_manifest
from longmemeval.results.selection import Selection, shard_named
from longmemeval.settings import Folders
from tests.pipeline.helpers import (
    answer_all,
    answers,
    litter,
    manifest,
    patience,
    prepared_colours,
    start,
    stop_when,
    timeless,
)
from tests.server import ModelServer
from tests.support import longmemeval, next_steps, tree

JUDGE = lexical_judge().identity.id

OFFLINE = EvaluateOptions(judge="offline/lexical")
OF = 8
SHARDS = [f"r-{number}of{OF}" for number in range(1, OF + 1)]
DECISIVE = ("settings", "question_ids", "fixtures", "selection", "status", "dataset", "kind")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Dataset, Folders]:
    """20 questions answered and graded as a whole, and in eight shards."""
    dataset, folders = prepared_colours(tmp_path_factory.mktemp("shards"), 20)
    answer_all(dataset, folders, "whole")
    evaluate("whole", options=OFFLINE, folders=folders)
    for number in range(1, OF + 1):
        answer_all(dataset, folders, selection=Selection(shard=f"{number}/{OF}"))
        evaluate(SHARDS[number - 1], options=OFFLINE, folders=folders)
    return dataset, folders


@pytest.fixture
def shards(made: tuple[Dataset, Folders], tmp_path: Path) -> Folders:
    """A copy of the runs, to be spoiled."""
    shutil.copytree(made[1].results_dir, tmp_path / "results")
    return made[1].model_copy(update={"results_dir": tmp_path / "results"})


def comparable(folders: Folders, run_id: str) -> dict[str, Any]:
    """A run's files without times, lines in the order of the questions, without its name."""
    found: dict[str, Any] = timeless(folders.results_dir / run_id)
    order = manifest(folders, run_id)["question_ids"]
    for name, content in found.items():
        if name.endswith(".jsonl") and "question_id" in content[0]:
            found[name] = sorted(content, key=lambda line: order.index(line["question_id"]))
        elif name.startswith("metrics/"):
            found[name] = content.replace(b'"' + run_id.encode() + b'"', b'"-"')
    document = found.pop("run.json")
    return found | {"run.json": {key: document[key] for key in DECISIVE}, "totals": document["totals"]}


@pytest.mark.slow
def test_eight_shards_equal_one_run(shards: Folders) -> None:
    before = tree(shards.results_dir, without=("index.jsonl",))
    report = merge(SHARDS[::-1], folders=shards)
    assert (report.run_id, report.shards, report.questions, report.answered, report.already) == ("r", 8, 20, 20, False)
    found = verify("r", folders=shards)
    assert found.problems == ()
    assert found.checked > 80
    ours, theirs = comparable(shards, "r"), comparable(shards, "whole")
    # Hashes of files with times in them.
    judged = f"metrics/{JUDGE}.json"
    assert ours.pop(judged).split(b"judgements_sha256")[0] == theirs.pop(judged).split(b"judgements_sha256")[0]
    assert ours == theirs
    assert [line["question_id"] for line in answers(shards)] == manifest(shards)["question_ids"]
    after = tree(shards.results_dir, without=("index.jsonl",))
    assert {name: after[name] for name in before} == before
    assert litter(shards.results_dir) == []
    assert [path.name for path in shards.results_dir.glob(".*")] == []


def test_manifest_names_the_shards_with_their_hashes(shards: Folders) -> None:
    merge(SHARDS, folders=shards)
    records = manifest(shards)["merged_from"]
    assert [(one["shard"], one["run_id"], one["questions"]) for one in records] == [
        (f"{number}/8", f"r-{number}of8", 3 if number <= 4 else 2) for number in range(1, 9)
    ]
    assert records[2]["files"]["answers.jsonl"] == manifest(shards, "r-3of8")["files"]["answers.jsonl"]
    assert set(records[2]["files"]) == {"answers.jsonl", "prompts.jsonl", f"judgements/{JUDGE}.jsonl"}


def test_merging_again_changes_nothing_and_other_shards_are_refused(shards: Folders) -> None:
    merge(SHARDS, folders=shards)
    before = tree(shards.results_dir)
    assert merge(SHARDS, folders=shards).already
    assert tree(shards.results_dir) == before
    with pytest.raises(HarnessError, match="Run 'whole' already exists, not merged from shards"):
        merge(SHARDS, run_id="whole", folders=shards)
    folder = shards.results_dir / SHARDS[0]
    write_manifest(folder, structs.replace(read_manifest(folder), ended_at="2027-01-01T00:00:00+00:00"))
    with pytest.raises(HarnessError, match="merged from other shards, or shards that have changed since"):
        merge(SHARDS, folders=shards)


def drop_judgements(folders: Folders) -> None:
    for name in ("judgements", "metrics"):
        shutil.rmtree(folders.results_dir / "r-5of8" / name)


def as_if_running(folders: Folders) -> None:
    folder = folders.results_dir / "r-2of8"
    write_manifest(folder, structs.replace(read_manifest(folder), status="running", ended_at="", files={}))


def twice(folders: Folders) -> None:
    shutil.copytree(folders.results_dir / "r-4of8", folders.results_dir / "copy-4of8")
    folder = folders.results_dir / "copy-4of8"
    document = (folder / "run.json").read_text().replace('"r-4of8"', '"copy-4of8"')
    (folder / "run.json").write_text(document)


def other_settings(folders: Folders) -> None:
    folder = folders.results_dir / "r-6of8"
    text = (folder / "run.json").read_text()
    (folder / "run.json").write_text(text.replace('"max_tokens": 500', '"max_tokens": 400'))


def fewer_questions(folders: Folders) -> None:
    folder = folders.results_dir / "r-7of8"
    before = read_manifest(folder)
    write_manifest(folder, structs.replace(before, question_ids=before.question_ids[:1]))


def changed_answer(folders: Folders) -> None:
    path = folders.results_dir / "r-8of8" / "answers.jsonl"
    path.write_bytes(path.read_bytes().replace(b"ok", b"OK", 1))


def nothing(folders: Folders) -> None:
    """All is as it was."""


@pytest.mark.parametrize(
    ("spoil", "named", "told"),
    [
        (nothing, [*SHARDS[:2], *SHARDS[3:]], "Shard 3/8 is missing"),
        (nothing, [*SHARDS[:2], *SHARDS[4:]], "Shards 3/8, 4/8 are missing"),
        (twice, [*SHARDS, "copy-4of8"], "Shard 4/8 is given twice, by runs 'r-4of8' and 'copy-4of8'"),
        (
            other_settings,
            SHARDS,
            "Shard 6/8 .* differs from the others: settings.model.max_tokens: 400, in shard 1/8 500",
        ),
        (as_if_running, SHARDS, "Shard 2/8 has not ended: run 'r-2of8' is running"),
        (drop_judgements, SHARDS, f"Shard 5/8 is not graded by {JUDGE}, others are"),
        (nothing, [*SHARDS, "whole"], "Run 'whole' is not a shard"),
        (nothing, [], "No runs to merge"),
    ],
    ids=["missing", "two missing", "doubled", "differing", "running", "ungraded", "whole", "none"],
)
def test_what_does_not_fit_is_named(
    shards: Folders, spoil: Callable[[Folders], None], named: list[str], told: str
) -> None:
    spoil(shards)
    before = tree(shards.results_dir)
    with pytest.raises(HarnessError, match=told):
        merge(named, run_id="m", folders=shards)
    assert tree(shards.results_dir) == before


@pytest.mark.parametrize("spoil", [fewer_questions, changed_answer])
def test_a_shard_that_was_changed_is_refused(shards: Folders, spoil: Callable[[Folders], None]) -> None:
    spoil(shards)
    before = tree(shards.results_dir)
    with pytest.raises(IntegrityError, match=r"r-[78]of8"):
        merge(SHARDS, folders=shards)
    assert tree(shards.results_dir) == before


def test_other_divisions_do_not_mix(made: tuple[Dataset, Folders], shards: Folders) -> None:
    answer_all(made[0], shards, selection=Selection(shard="1/2"))
    with pytest.raises(HarnessError, match=r"shards of different divisions: shard 1/8 .*; shard 1/2"):
        merge([*SHARDS, "r-1of2"], folders=shards)


@pytest.mark.slow
def test_shards_of_rankings(made: tuple[Dataset, Folders], tmp_path: Path) -> None:
    dataset, folders = made[0], made[1].model_copy(update={"results_dir": tmp_path / "results"})
    retrieve(dataset, ["bm25"], options=RetrievalOptions(run_id="whole", protocol="official"), folders=folders)
    for number in (1, 2, 3):
        options = RetrievalOptions(run_id="k", protocol="official")
        retrieve(dataset, ["bm25"], selection=Selection(shard=f"{number}/3"), options=options, folders=folders)
    merge([f"k-{number}of3" for number in (1, 2, 3)], folders=folders)
    assert verify("k", folders=folders).problems == ()
    assert comparable(folders, "k") == comparable(folders, "whole")


@pytest.mark.slow
def test_a_whole_run_is_graded_in_shards(shards: Folders) -> None:
    names = [shard_to_grade("whole", f"{number}/3", None, shards) for number in (1, 2, 3)]
    for name in names:
        evaluate(name, options=OFFLINE, folders=shards)
        assert verify(name, folders=shards).problems == ()
    merge(names, run_id="again", folders=shards)
    assert verify("again", folders=shards).problems == ()
    ours, theirs = manifest(shards, "again"), manifest(shards, "whole")
    assert {key: ours[key] for key in (*DECISIVE, "totals")} == {key: theirs[key] for key in (*DECISIVE, "totals")}
    assert shard_to_grade("r", "3/8", None, shards) == "r-3of8"
    with pytest.raises(HarnessError, match="cannot be divided into shards"):
        shard_to_grade("r-3of8", "1/2", None, shards)


def priced(dataset: Dataset, folders: Folders, server: ModelServer, selection: Selection = Selection()) -> RunReport:
    """Run "r" by a model that has a price, one question at a time."""
    options = RunOptions(run_id="r", concurrency=1, model_options=patience(server), spending=SpendingLimit(1.0))
    return run(dataset, "last-k", "openai/gpt-4o-mini", selection=selection, options=options, folders=folders)


def test_costs_and_failures_are_those_of_all_shards_and_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
    dataset, folders = prepared_colours(tmp_path, 6)
    halves = ["r-1of2", "r-2of2"]
    with ModelServer(lambda body: "green") as server:
        for number in (1, 2):
            # The first call of each half is repeated, its second question fails for good.
            server.faults.extend([500, "slow:0", 400])
            priced(dataset, folders, server, Selection(shard=f"{number}/2"))
        report = merge(halves, folders=folders)
        assert (report.answered, manifest(folders)["status"]) == (4, "incomplete")
        calls = [manifest(folders, name)["totals"]["usage"]["calls"] for name in ("r", *halves)]
        assert calls[0] == calls[1] + calls[2] > 0
        spent = [spent_in(folders.results_dir / name / "spending.jsonl") for name in ("r", *halves)]
        assert spent[0] == pytest.approx(spent[1] + spent[2])
        assert spent[0] > 0
        assert verify("r", folders=folders).problems == ()
        assert priced(dataset, folders, server).newly_answered == 2
    assert manifest(folders)["status"] == "completed"
    assert len(manifest(folders)["merged_from"]) == 2
    assert verify("r", folders=folders).problems == ()


def test_what_runs_tell_is_added_up() -> None:
    one = {"a": 1, "b": {"c": 0.5, "d": ["x"]}, "e": "first", "f": True}
    assert added_up([one, {"a": 2, "b": {"c": 1.0, "d": ["y", "x"]}, "e": "second", "g": 3}]) == {
        "a": 3,
        "b": {"c": 1.5, "d": ["x", "y"]},
        "e": "first",
        "f": True,
        "g": 3,
    }


def has_asked(server: ModelServer, requests: int) -> bool:
    return len(server.chat_requests) >= requests


def test_killed_shards_end_as_if_undisturbed(tmp_path: Path) -> None:
    """Each shard is killed in the middle of a call, one before it has any answer and one after some."""
    dataset, folders = prepared_colours(tmp_path, 10)

    def answer(run_id: str, selection: Selection = Selection()) -> None:
        options = RunOptions(run_id=run_id, concurrency=1, model_options=patience(server))
        run(dataset, "last-k", "openai/local", selection=selection, options=options, folders=folders)

    with ModelServer(lambda body: f"Reply to {len(body['messages'][0]['content'])} letters.") as server:
        command = ("run", "--dataset", dataset.path, "--memory", "last-k", "--model", "openai/local", "--run-id", "r")
        for shard, answered in (("1/2", 0), ("2/2", 2)):
            asked = len(server.chat_requests) + answered + 1
            server.faults.extend([*["slow:0"] * answered, "hang"])
            options = ("--shard", shard, "--api-base", server.url, "--concurrency", "1")
            stop_when(start(*command, *options, cwd=tmp_path), partial(has_asked, server, asked), signal.SIGKILL)
            assert len(answers(folders, shard_named(shard).run_id("r"))) == answered
            answer("r", Selection(shard=shard))
        answer("whole")
    merge(["r-1of2", "r-2of2"], folders=folders)
    assert verify("r", folders=folders).problems == ()
    ours, theirs = comparable(folders, "r"), comparable(folders, "whole")
    assert ours["answers.jsonl"] == theirs["answers.jsonl"]
    assert ours["prompts.jsonl"] == theirs["prompts.jsonl"]
    assert ours["run.json"] == theirs["run.json"]


def test_command_line_names_shards_and_goes_on(tmp_path: Path) -> None:
    prepared_colours(tmp_path, 5)
    command = ("run", "--dataset", "colours.json", "--memory", "last-k", "--model", "offline/extractive")
    first = longmemeval(*command, "--run-id", "n", "--shard", "1/2", cwd=tmp_path)
    assert next_steps(first.stdout)[0][:2] == ["evaluate", "n-1of2"]
    assert "noise" not in first.stderr
    missing = longmemeval("merge", "n-*", cwd=tmp_path, code=2)
    assert "Shard 2/2 is missing" in missing.stderr
    longmemeval(*command, "--run-id", "n", "--shard", "2/2", cwd=tmp_path)
    for number in ("1/2", "2/2"):
        longmemeval("evaluate", "n", "--shard", number, "--judge", "offline/lexical", cwd=tmp_path)
    merged = longmemeval("merge", "n-*of2", cwd=tmp_path)
    assert "Run n merged from 2 shards: 5 of 5 questions answered" in merged.stdout
    longmemeval(*next_steps(merged.stdout)[0], cwd=tmp_path)


def test_a_dry_run_foresees_a_shard_of_a_whole_run_and_makes_none(tmp_path: Path) -> None:
    prepared_colours(tmp_path, 5)
    run = ("run", "--dataset", "colours.json", "--memory", "last-k", "--model", "offline/extractive", "--run-id", "n")
    longmemeval(*run, cwd=tmp_path)
    before = tree(tmp_path / "results")
    told = longmemeval("evaluate", "n", "--shard", "1/2", "--judge", "offline/lexical", "--dry-run", cwd=tmp_path)
    assert "Would grade run n-1of2: 3 of 3 questions have an answer" in told.stdout
    assert tree(tmp_path / "results") == before
