"""Every export of every kind of right answer, on every benchmark, read back."""

import csv
import io
import json
import zipfile
from pathlib import Path
from typing import Any, get_args

import pytest
from msgspec import structs
from pyarrow import parquet

from longmemeval.benchmarks.longmemeval.loader import LongMemEvalDataset
from longmemeval.benchmarks.registry import load_dataset
from longmemeval.pipeline.retrieval.retrieve import RetrievalOptions, retrieve
from longmemeval.records import Gold
from longmemeval.results.formats.export import export_runs
from longmemeval.results.options import ExportFormat
from longmemeval.settings import Folders
from tests.conftest import real_file
from tests.pipeline.graded_runs import graded_run
from tests.pipeline.helpers import folders_in, prepared_colours

KINDS: dict[str, tuple[object, str | None]] = {
    "text": ("red", "red"),
    "empty": ("", ""),
    "digits": ("3", "3"),
    "whole number": (3, "3"),
    "number": (2.5, "2.5"),
    "truth": (True, "true"),
    "list": (["red", 3, None], '["red",3,null]'),
    "object": ({"colour": "réd"}, '{"colour":"réd"}'),
    "null": (None, None),
}
"""The right answer in the data, and the text that stands for it in every table."""


def exported(form: ExportFormat, folders: Folders, output: Path) -> list[Any]:
    """The right answers of run `r`, as its export in this format holds them."""
    assert len(list(export_runs(["r"], form, output, folders=folders))) == 1
    suffix = {"inspect": "eval", "inspect-json": "json", "official": "jsonl", "trec": "qrels"}.get(form, form)
    data = (output / f"r.{suffix}").read_bytes()
    if form == "csv":
        return [row["gold"] for row in csv.DictReader(io.StringIO(data.decode(), newline=""))]
    if form == "jsonl":
        return [json.loads(line)["gold"] for line in data.splitlines()]
    if form == "parquet":
        table = parquet.read_table(output / "r.parquet")
        types = dict(zip(table.schema.names, map(str, table.schema.types), strict=True))
        assert types["gold"] == "string"
        return [row["gold"] for row in table.to_pylist()]
    if form == "inspect":
        with zipfile.ZipFile(output / "r.eval") as archive:
            names = [name for name in archive.namelist() if name.startswith("samples/")]
            return [json.loads(archive.read(name))["target"] for name in names]
    if form == "inspect-json":
        return [sample["target"] for sample in json.loads(data)["samples"]]
    assert data
    return []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", get_args(ExportFormat))
def test_every_kind_of_right_answer_is_exported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: ExportFormat, kind: str
) -> None:
    answer, text = KINDS[kind]
    of_the_file = LongMemEvalDataset.gold

    def gold(self: LongMemEvalDataset, question_id: str) -> Gold:
        found = of_the_file(self, question_id)
        return structs.replace(found, answer=answer) if question_id == "q1" else found

    monkeypatch.setattr(LongMemEvalDataset, "gold", gold)
    dataset, folders = prepared_colours(tmp_path, 3)
    if form == "trec":
        retrieve(dataset, ["last-k"], options=RetrievalOptions(run_id="r"), folders=folders)
    else:
        graded_run(dataset, folders, "r", [True, False, True])
    shown = exported(form, folders, tmp_path / "out")
    unknown = None if form in ("jsonl", "parquet") else ""
    expected = ["red", unknown if text is None else text, "blue"]
    assert shown == ([] if form in ("trec", "official") else expected)


REAL = (
    "longmemeval_e47becba.json",
    "locomo10.json",
    "locomo_plus.json",
    "factconsolidation.json",
    "beam/chats/100K",
    "personamem_32k",
)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sample", *REAL])
def test_the_right_answers_of_every_benchmark_come_back_from_every_export(tmp_path: Path, name: str) -> None:
    folders = folders_in(tmp_path)
    dataset = load_dataset(real_file(name) if name in REAL else name, folders.data_dir)
    ids = [question.question_id for question in dataset.questions()]
    graded_run(dataset, folders, "r", dict.fromkeys(ids, True))
    golds = [dataset.gold(question_id).answer for question_id in ids]
    texts = [gold if isinstance(gold, str) else json.dumps(gold) for gold in golds]
    for form in ("jsonl", "parquet", "inspect", "inspect-json"):
        assert sorted(exported(form, folders, tmp_path / form)) == sorted(texts), form
    assert len(exported("csv", folders, tmp_path / "csv")) == len(ids)
