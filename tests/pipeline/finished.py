"""A finished run, made once for all workers and copied by each test that wants one."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from longmemeval.benchmarks.longmemeval.loader import LongMemEvalDataset
from longmemeval.dataset import Dataset
from longmemeval.judges.offline.lexical import LEXICAL_JUDGE
from longmemeval.pipeline.evaluate.evaluate import EvaluateOptions, evaluate
from longmemeval.pipeline.run.plan import RunOptions
from longmemeval.pipeline.run.run import run
from longmemeval.settings import Folders
from tests.made_once import made_once
from tests.pipeline.helpers import MODEL, folders_in, prepared_colours

RIGHT_AND_WRONG = ("red", "no idea", "blue", "green")
"""Replies to four questions: q0 and q2 right, q1 and q3 wrong."""


def finished(
    factory: pytest.TempPathFactory,
    folder: Path,
    count: int = 4,
    memory: str = "last-k",
    *,
    said: Sequence[str] = (),
    judge: str = LEXICAL_JUDGE,
) -> tuple[Dataset, Folders]:
    """`prepared_colours` in `folder`, with a finished run `r` on it, graded by `judge` (empty: not graded).

    It replies as `said`, a text for each question, or as the offline reader does.
    """

    def make(whole: Path) -> None:
        dataset, folders = prepared_colours(whole, count, memory)
        model = MODEL
        if said:
            script = whole.with_name(f"{whole.name}.script.json")  # Part of the settings: the same for every copy.
            script.write_text(json.dumps({f"q{number}": text for number, text in enumerate(said)}))
            model = f"offline/scripted:{script}"
        run(dataset, memory, model, options=RunOptions(run_id="r"), folders=folders)
        if judge:
            evaluate("r", options=EvaluateOptions(judge=judge), folders=folders)

    name = "-".join([memory, str(count), *said, judge.replace("/", "-")])
    return copied(made_once(factory, name, make), folder)


def copied(made: Path, folder: Path) -> tuple[Dataset, Folders]:
    """A copy of a workspace on `colours.json`, whose runs name the files of the copy."""
    shutil.copytree(made, folder, dirs_exist_ok=True)
    for path in folder.glob("results/*/run.json"):
        path.write_text(path.read_text().replace(f"{made}/", f"{folder}/"))
    return LongMemEvalDataset(folder / "colours.json"), folders_in(folder)
