"""Rows of the split `Conflict_Resolution` as JSON: a list of facts, questions about it and their official answers."""

import re
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from longmemeval.benchmarks.in_memory import read_records
from longmemeval.core.files import sha256_text
from longmemeval.errors import DataError

KINDS = {"sh": "single-hop", "mh": "multi-hop"}
"""Type of a row's questions by part of its source."""
HEADER = "Here is a list of facts:"

_SOURCE = re.compile(r"factconsolidation_(sh|mh)_(\w+)", re.ASCII)


class _Metadata(Struct, frozen=True):
    source: str
    qa_pair_ids: tuple[str, ...]


class _Row(Struct, frozen=True):
    context: str
    questions: tuple[str, ...]
    answers: tuple[tuple[str, ...], ...]
    metadata: _Metadata


class Row(Struct, frozen=True):
    """The questions of one kind about one list."""

    kind: str
    """`sh` or `mh`."""
    size: str
    """Size in the name of the source, such as `6k`: the id of the haystack."""
    facts: tuple[str, ...]
    """Lines `serial. sentence.`; the serial is the index."""
    context_sha256: str
    questions: tuple[tuple[str, str, str], ...]
    """Id, text and official answer."""


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a file.

    Raises:
        DataError: the file is not a JSON array of such rows, or a row belongs to another task of MemoryAgentBench.
    """
    return [_row(path, number, record) for number, record in enumerate(read_records(path), start=1)]


def _row(path: Path, number: int, record: dict[str, Any]) -> Row:
    where = f"{path}, record {number}"
    try:
        row = msgspec.convert(record, _Row)
    except msgspec.ValidationError as error:
        raise DataError(f"The record is not a row of FactConsolidation: {error}", where=where) from None
    match = _SOURCE.fullmatch(row.metadata.source)
    if match is None:
        what = f"The row belongs to another task of MemoryAgentBench, '{row.metadata.source}'"
        raise DataError(what, where=where, fix="Leave only rows whose metadata.source begins with factconsolidation_")
    counts = {len(row.questions), len(row.answers), len(row.metadata.qa_pair_ids)}
    if len(counts) != 1:
        what = "The row has different numbers of questions, answers and metadata.qa_pair_ids"
        raise DataError(what, where=where, fix="Convert the published file again")
    for index, answers in enumerate(row.answers):
        if len(answers) != 1:
            what = f"A question must have one official answer, but this one has {len(answers)}"
            raise DataError(what, where=f"{where}, field answers[{index}]", fix="Convert the published file again")
    golds = (answer for answer, *_ in row.answers)
    return Row(
        kind=match[1],
        size=match[2],
        facts=_facts(where, row.context),
        context_sha256=sha256_text(row.context),
        questions=tuple(zip(row.metadata.qa_pair_ids, row.questions, golds, strict=True)),
    )


def _facts(where: str, context: str) -> tuple[str, ...]:
    header, *facts = context.rstrip("\n").split("\n")
    if header != HEADER or not facts:
        raise DataError(f"The context does not begin with '{HEADER}' and a fact", where=f"{where}, field context")
    for serial, fact in enumerate(facts):
        if not fact.startswith(f"{serial}. "):
            what = f"A line of the context does not begin with its serial number, '{serial}. '"
            raise DataError(what, where=f"{where}, field context, line {serial + 2}", fix="Serials count from 0")
    return tuple(facts)
