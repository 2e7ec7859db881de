"""`run --like` makes a run again, byte for byte but for times, and names whatever differs where that is not so."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import structs

from longmemeval.benchmarks.locomo.loader import LocomoDataset
from longmemeval.benchmarks.locomo.protocol import load_texts
from longmemeval.errors import FixtureError, HarnessError
from longmemeval.pipeline.prepare.prepare import PrepareOptions, prepare
from longmemeval.pipeline.retrieval.retrieve import RetrievalOptions, retrieve
from longmemeval.pipeline.run.like import run_like
from longmemeval.pipeline.run.plan import RunOptions
from longmemeval.pipeline.run.run import run
from longmemeval.reading.configuration import reading_configuration
from longmemeval.results import manifest as manifests
from longmemeval.results.index import settings_sha256
from longmemeval.results.manifest import read_manifest
from longmemeval.results.selection import Selection
from longmemeval.settings import Folders
from tests.benchmarks.locomo.test_loader import make_conversation
from tests.benchmarks.locomo.test_texts import write as write_texts
from tests.benchmarks.longmemeval.test_loader import write
from tests.pipeline.helpers import MODEL, folders_in, prepared_colours
from tests.support import json_lines, longmemeval, tree

OWN = "tests.memory.own_memory:FactMemory"
PROMPT = "Long ago:\n{history}\n\nNow it is {question_date}.\n{question}\n"


@pytest.fixture(autouse=True)
def _same_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The source tree may be worked on while tests run."""
    monkeypatch.setattr(manifests, "_git_state", lambda: {"commit": "c0ffee", "dirty": False})


def written(run_id: str, folders: Folders) -> Path:
    """The run.json of a run, elsewhere."""
    path = folders.results_dir.parent / f"{run_id}.json"
    shutil.copy(folders.results_dir / run_id / "run.json", path)
    return path


def made_again(file: Path, folders: Folders, *, strict: bool = True, run_id: str = "again") -> list[str]:
    """Run it again; what was told to differ."""
    told: list[str] = []
    try:
        asked = run_like(str(file), folders, strict=strict, tell=told.append)
        options = structs.replace(asked.options, run_id=run_id)
        run(
            asked.dataset, asked.configuration, asked.model, selection=asked.selection, options=options, folders=folders
        )
    except HarnessError as error:
        told.append(f"Error: {error}")
        if not strict or error.exit_code != 2:
            raise
    return [line for line in told if line.startswith(("Differs", "Error"))]


def timeless(folders: Folders, run_id: str) -> str:
    """The answers of a run without their times."""
    lines = json_lines(folders.results_dir / run_id / "answers.jsonl")
    return json.dumps([{key: value for key, value in one.items() if not key.endswith("_ms")} for one in lines])


def refused(file: Path, folders: Folders) -> list[str]:
    """The names of what differs by a strict run, which has written nothing."""
    before = tree(folders.results_dir)
    *told, error = made_again(file, folders, run_id="refused")
    assert error.startswith("Error: The run does not start")
    assert tree(folders.results_dir) == before
    return [line.removeprefix(f"Differs from {file}: ").partition(":")[0] for line in told]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("memory", "chosen"), [("hybrid", Selection(sample=3, seed=7)), (OWN, Selection(question_ids=("q2", "q0")))]
)
def test_a_run_made_twice_gives_the_same_answers(tmp_path: Path, memory: str, chosen: Selection) -> None:
    dataset, folders = prepared_colours(tmp_path, 4, memory)
    own = tmp_path / "own.txt"
    own.write_text(PROMPT)
    reading = reading_configuration(template=own, max_tokens=77, abstain_below=-3.0, history_format="json")
    options = RunOptions(run_id="r", reading=reading, repeat=2, save_prompts=False)
    run(dataset, memory, MODEL, selection=chosen, options=options, folders=folders)
    own.unlink()
    assert made_again(written("r", folders), folders) == []
    assert timeless(folders, "again") == timeless(folders, "r")
    both = [settings_sha256(read_manifest(folders.results_dir / name)) for name in ("again", "r")]
    assert both[0] == both[1]


@pytest.mark.parametrize("own_texts", [False, True])
def test_an_official_protocol_is_followed_again(tmp_path: Path, own_texts: bool) -> None:
    dataset, folders = LocomoDataset(write(tmp_path / "talks.json", make_conversation())), folders_in(tmp_path)
    prepare(dataset, ["full-history"], options=PrepareOptions(jobs=1), folders=folders)
    texts = load_texts(write_texts(tmp_path / "texts.json")) if own_texts else None
    options = RunOptions(run_id="r", protocol="official", protocol_texts=texts, seed=3)
    run(dataset, "full-history", MODEL, options=options, folders=folders)
    assert made_again(written("r", folders), folders) == []
    assert timeless(folders, "again") == timeless(folders, "r")


def _other_data(tmp_path: Path, folders: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "colours.json"
    path.write_text(path.read_text().replace("Seven minutes", "Eight minutes"))


def _other_fixture(tmp_path: Path, folders: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    from longmemeval.benchmarks.longmemeval.loader import LongMemEvalDataset

    options = PrepareOptions(jobs=1, force=True, embedder="hashing:64")
    prepare(LongMemEvalDataset(tmp_path / "colours.json"), ["hybrid"], options=options, folders=folders)


def _other_package(tmp_path: Path, folders: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifests, "_versions", lambda: {"numpy": "0.1"})


def _other_commit(tmp_path: Path, folders: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifests, "_git_state", lambda: {"commit": "decaf", "dirty": False})


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (_other_data, "dataset.content_sha256"),
        (_other_fixture, "preparation.vector"),
        (_other_package, "environment.packages.numpy"),
        (_other_commit, "environment.git.commit"),
    ],
)
def test_what_differs_is_named_and_strict_does_not_begin(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Path, Folders, pytest.MonkeyPatch], None],
    named: str,
) -> None:
    dataset, folders = prepared_colours(tmp_path, 2, "hybrid")
    run(dataset, "hybrid", MODEL, options=RunOptions(run_id="r"), folders=folders)
    file = written("r", folders)
    change(tmp_path, folders, monkeypatch)
    assert named in refused(file, folders)


def test_other_memory_code_and_other_prompts_are_named(tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path, 2, OWN)
    own = tmp_path / "own.txt"
    own.write_text(PROMPT)
    run(
        dataset,
        OWN,
        MODEL,
        options=RunOptions(run_id="r", reading=reading_configuration(template=own)),
        folders=folders,
    )
    file = written("r", folders)
    text = file.read_text()
    # As if the code had been other, and without the text of the prompt.
    source = json.loads(text)["settings"]["memory"]["source"]["source_sha256"]
    other = json.loads(text.replace(source, source[::-1]))
    file.write_text(json.dumps(other | {"templates": {}}))
    assert refused(file, folders) == [
        "settings.memory.source.source_sha256",
        "settings.reading.template",
    ]
    # A prompt that was edited in the file.
    file.write_text(text.replace("Long ago:", "Once:"))
    assert refused(file, folders) == ["settings.reading.template"]
    assert len(made_again(file, folders, strict=False)) == 1


def test_missing_fixtures_are_made_by_the_command_that_is_told(tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path, 2, "bm25")
    options = PrepareOptions(jobs=1, embedder="hashing:64", name="small")
    prepare(dataset, ["hybrid"], options=options, folders=folders)
    run(dataset, "hybrid", MODEL, options=RunOptions(run_id="r", prepared="small"), folders=folders)
    file = written("r", folders)
    elsewhere = folders.model_copy(update={"prepared_dir": tmp_path / "elsewhere"})
    with pytest.raises(FixtureError, match="2 of the 2 haystacks that the run reads are not prepared") as caught:
        run_like(str(file), elsewhere, strict=False, tell=print)
    command = caught.value.fix.split("`")[1]
    assert "--embedder hashing:64" in command
    longmemeval(*command.split()[1:], cwd=tmp_path)
    assert made_again(file, elsewhere) == []


def test_only_answers_of_this_harness_are_made_again(tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path, 2, "bm25")
    retrieve(dataset, ["bm25"], options=RetrievalOptions(run_id="ranked"), folders=folders)
    with pytest.raises(HarnessError, match="holds rankings"):
        run_like("ranked", folders, strict=False, tell=print)


@pytest.mark.parametrize(("text", "problem"), [("- 1", "damaged"), ('{"format": 99}', "format 99"), ("{", "damaged")])
def test_files_that_are_none_are_refused(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(HarnessError, match=problem):
        run_like(str(tmp_path / "x.json"), folders_in(tmp_path), strict=False, tell=print)
    with pytest.raises(HarnessError, match="cannot be read: No such file"):
        run_like(str(tmp_path / "y.json"), folders_in(tmp_path), strict=False, tell=print)


def test_the_command_line(tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path, 2, "bm25")
    del dataset
    first = ("run", "-d", "colours.json", "-m", "bm25", "--model", MODEL, "--run-id", "r")
    longmemeval(*first, cwd=tmp_path)
    longmemeval("run", "--like", "r", "--run-id", "again", "--concurrency", "2", cwd=tmp_path)
    assert timeless(folders, "again") == timeless(folders, "r")
    given = ("--memory", "bm25", "--limit", "1", "--repeat", "2", "--template", "x.txt", "--batch")
    said = longmemeval("run", "--like", "r", *given, cwd=tmp_path, code=2).stderr
    assert "--batch, --limit, --memory, --repeat, --template cannot be combined with" in said
    assert "Missing option '--memory'" in longmemeval("run", "-d", "colours.json", cwd=tmp_path, code=2).stderr
    other = json.loads((tmp_path / "results/r/run.json").read_text())
    other["environment"]["python"] = "2.7"
    (tmp_path / "other.json").write_text(json.dumps(other))
    before = tree(folders.results_dir)
    said = longmemeval("run", "--like", "other.json", "--strict", cwd=tmp_path, code=2).stderr
    assert "Differs from other.json: environment.python: there 2.7" in said
    assert tree(folders.results_dir) == before


def test_who_types_the_old_option_is_told_the_new_one(tmp_path: Path) -> None:
    assert "--recipe is now --like" in longmemeval("run", "--recipe", "r.yaml", cwd=tmp_path, code=2).stderr
