"""What the tests of the pipeline share: small data sets, folders, and files compared without their times."""

import json
import re
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from longmemeval.benchmarks.longmemeval.loader import LongMemEvalDataset
from longmemeval.dataset import Dataset
from longmemeval.judges.plants.judged import JUDGED_FILE
from longmemeval.llm.options import ModelOptions
from longmemeval.memory.configuration import MEMORIES, MemoryConfiguration
from longmemeval.memory.definition import MemoryDefinition
from longmemeval.pipeline.compare.compare import compare_runs
from longmemeval.pipeline.compare.comparison import Comparison, Family
from longmemeval.pipeline.compare.verdict import MARGIN
from longmemeval.pipeline.prepare.prepare import PrepareOptions, prepare
from longmemeval.pipeline.run.answering import RunReport
from longmemeval.pipeline.run.plan import RunOptions
from longmemeval.pipeline.run.run import run
from longmemeval.pipeline.verify.retrieval import check_retrieval
from longmemeval.results.graded.graded_run import load_graded
from longmemeval.results.run_files import RunFiles
from longmemeval.results.selection import Selection
from longmemeval.results.settings import RetrievalSettings
from longmemeval.settings import Folders
from tests.forking import Forked, start_forked
from tests.server import ModelServer
from tests.support import clean_environment, json_lines, record, tree, write_dataset

MODEL = "offline/extractive"
# What may differ between two equal runs: clocks, and the state of the source tree while it is worked on.
_TIMES = {
    "prepared_at",
    "finished_at",
    "started_at",
    "ended_at",
    "seconds",
    "processor_s",
    "recall_ms",
    "latency_ms",
    "load",
} | {
    "git",
    "files",
}
_COLOURS = ("red", "green", "blue", "black", "white", "yellow", "purple", "orange", "silver", "brown")


def painted_keys(body: dict[str, Any]) -> str:
    """A chat model's reply that makes a key of each sentence about painting, and none of the rest."""
    found = re.findall(r"I painted [^.?!]*\.", body["messages"][-1]["content"])
    return json.dumps({"items": found})


def folders_in(path: Path) -> Folders:
    """The three folders under `path`."""
    return Folders(data_dir=path / "data", prepared_dir=path / "prepared-data", results_dir=path / "results")


def colour_record(number: int, **changes: object) -> dict[str, Any]:
    """Question number `number`, on a haystack of its own in which one session holds the answer."""
    colour, thing = _COLOURS[number % len(_COLOURS)], f"bicycle{number}"
    sessions = [
        [
            {"role": "user", "content": f"How do I boil {number} eggs?"},
            {"role": "assistant", "content": "Seven minutes in boiling water."},
        ],
        [
            {"role": "user", "content": f"I painted my {thing} {colour} today. Any tips?", "has_answer": True},
            {"role": "assistant", "content": "Let it dry for a day."},
        ],
        [
            {"role": "user", "content": f"Name {number} rivers in France."},
            {"role": "assistant", "content": "The Seine, the Loire and the Rhone."},
        ],
    ]
    own = {"question": f"What colour is my {thing}?", "answer": colour, "haystack_sessions": sessions}
    return record(f"q{number}", **own) | changes


def colours(path: Path, count: int = 4, **changes: object) -> Dataset:
    """A data set of `count` such questions in the file `path`."""
    return LongMemEvalDataset(write_dataset(path, *(colour_record(number, **changes) for number in range(count))))


def judged_colours(folder: Path) -> None:
    """Answers labelled by hand to such questions, beside the data in `folder`: a right and a wrong one to each."""
    judged = [
        {"question_id": f"q{number}", "answer": answer, "correct": correct, "kind": kind, "held_out": True}
        for number in range(30)
        for answer, correct, kind in (
            (f"You painted it {_COLOURS[number % len(_COLOURS)]}.", True, "stated"),
            (f"You painted it {_COLOURS[(number + 1) % len(_COLOURS)]}.", False, "neighbouring value"),
        )
    ]
    (folder / JUDGED_FILE).write_text("".join(json.dumps(line) + "\n" for line in judged))


def prepared_colours(folder: Path, count: int = 4, memory: str = "last-k") -> tuple[Dataset, Folders]:
    """Such a data set, `colours.json`, prepared in `folder`, with judged answers beside it."""
    dataset, folders = colours(folder / "colours.json", count), folders_in(folder)
    judged_colours(folder)
    prepare(dataset, [memory], options=PrepareOptions(jobs=1), folders=folders)
    return dataset, folders


def add_memory(monkeypatch: pytest.MonkeyPatch, name: str, definition: MemoryDefinition[Any]) -> str:
    """Have a memory among the built-in ones for one test; its name."""
    monkeypatch.setattr(MEMORIES, "built_in", {**MEMORIES.built_in, name: "added by a test"})
    monkeypatch.setitem(MEMORIES._loaded, name, definition)
    return name


def answer_all(
    dataset: Dataset,
    folders: Folders,
    run_id: str = "r",
    *,
    memory: MemoryConfiguration | str = "last-k",
    selection: Selection = Selection(),
) -> RunReport:
    """A finished offline run."""
    return run(dataset, memory, MODEL, selection=selection, options=RunOptions(run_id=run_id), folders=folders)


def patience(server: ModelServer) -> ModelOptions:
    """Three attempts at a call, and hardly a wait between them."""
    return ModelOptions(server.url, max_attempts=3, max_wait_s=0.01)


def ask(
    dataset: Dataset, folders: Folders, server: ModelServer, memory: str = "last-k", **changes: object
) -> RunReport:
    """A run over HTTP that asks one question at a time, unless it is told otherwise."""
    options = structs.replace(RunOptions(run_id="r", concurrency=1, model_options=patience(server)), **changes)
    return run(dataset, memory, "openai/local", options=options, folders=folders)


def timeless(folder: Path) -> dict[str, object]:
    """Relative path -> content of every visible file below `folder`; times are left out of JSON."""
    return {name: _timeless_file(name, data) for name, data in tree(folder).items()}


def _timeless_file(name: str, data: bytes) -> object:
    if name.endswith(".jsonl"):
        return [_timeless(json.loads(line)) for line in data.decode().splitlines()]
    # Parts are compared as bytes.
    return _timeless(json.loads(data)) if name.endswith(("meta.json", "run.json")) else data


def _timeless(value: object) -> object:
    if isinstance(value, dict):
        return {key: _timeless(inner) for key, inner in value.items() if key not in _TIMES}
    return [_timeless(inner) for inner in value] if isinstance(value, list) else value


def litter(folder: Path) -> list[str]:
    """Temporary files anywhere below `folder`, hidden ones included."""
    return [str(path) for path in folder.rglob("*") if re.search(r"\.(tmp|new)$", path.name)]


def manifest(folders: Folders, run_id: str = "r") -> dict[str, Any]:
    """`run.json` as plain values."""
    document: dict[str, Any] = json.loads((folders.results_dir / run_id / "run.json").read_text())
    return document


def answers(folders: Folders, run_id: str = "r") -> list[dict[str, Any]]:
    """The lines of `answers.jsonl`."""
    return json_lines(folders.results_dir / run_id / "answers.jsonl")


def lines_in(path: Path) -> int:
    """Whole lines of a file that may not be there yet."""
    return path.read_bytes().count(b"\n") if path.exists() else 0


def start(*arguments: str | Path, cwd: Path, **environment: str) -> Forked:
    """The command as a process of its own group, under way."""
    return start_forked(list(map(str, arguments)), cwd, clean_environment(**environment))


def stop_when(process: Forked, reached: Callable[[], bool], number: int) -> str:
    """Send `number` to `process` as soon as `reached` holds; its standard error.

    SIGINT goes to its whole group, as a terminal sends it; SIGKILL to the process alone.
    """
    deadline = time.monotonic() + 200
    while not reached():
        assert process.poll() is None, f"ended too early: {process.communicate()[1]}"
        assert time.monotonic() < deadline
        time.sleep(0.002)
    process.send_signal(number, group=number == signal.SIGINT)
    return process.communicate(timeout=200)[1]


def checked(folder: Path, dataset: Dataset) -> list[str | None]:
    """What `verify` finds of a run of `retrieval`, one outcome per check."""
    files = RunFiles(folder)
    assert isinstance(files.manifest.settings, RetrievalSettings)
    return list(check_retrieval(files, files.manifest.settings, dataset))


def compare(
    run_ids: Sequence[str],
    *,
    judge: str | None = None,
    dataset: str | None = None,
    common: bool = False,
    margin: float = MARGIN,
    family: Family = "baseline",
    folders: Folders,
) -> Comparison:
    """Compare graded runs by their ids, the first as the baseline."""
    graded = load_graded(run_ids, folders, judge=judge, dataset=dataset)
    return compare_runs(graded, folders, common=common, margin=margin, family=family)
