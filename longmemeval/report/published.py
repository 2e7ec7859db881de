"""Figures that papers print, to set beside one's own: data of each benchmark, checked when it is read."""

from collections import Counter
from functools import cache
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from longmemeval.benchmarks.specs import BENCHMARK_SPECS, benchmark_of, benchmarks
from longmemeval.core.text_files import UnreadableError, decode_json
from longmemeval.dataset import Dataset
from longmemeval.errors import DataError, nearest
from longmemeval.judges.protocol import JudgeIdentity

Fraction = Annotated[float, Meta(ge=0, le=1)]
Text = Annotated[str, Meta(min_length=1)]


class PublishedFigure(Struct, frozen=True):
    """One system's figure as it was published; fractions between 0 and 1."""

    dataset: str
    """The benchmark."""
    variant: str
    """Which release, part or size of the data."""
    system: str
    value: float | None
    """None where only parts were published."""
    metric: str
    n: int | None
    """Questions; None where it is not given."""
    judge: str
    reader: str
    """The answering model; empty where it is not given or there is none."""
    source: str
    by_group: dict[str, float]
    """By category or context size, under their true names."""
    note: str


class _Figure(Struct, frozen=True, forbid_unknown_fields=True):
    system: Text
    value: Fraction | None
    reader: str = ""
    by_group: dict[Text, Fraction] = {}
    note: str = ""


class _Table(Struct, frozen=True, forbid_unknown_fields=True):
    """Figures that share everything but the system."""

    dataset: Text
    variant: Text
    catalogue: tuple[Text, ...]
    """Names in the catalogue of the data meant, or of another release of it."""
    metric: Text
    n: Annotated[int, Meta(ge=1)] | None
    judge: Text
    source: Text
    figures: Annotated[tuple[_Figure, ...], Meta(min_length=1)]
    graded_by: str = ""
    """The judge of ours that grades in the same way; empty where there is none."""


def published_for(dataset: Dataset, judge: JudgeIdentity | None = None) -> tuple[PublishedFigure, ...]:
    """Figures on a data set's variant if it is a known one, else all on its benchmark.

    Args:
        dataset: what one's own runs are about.
        judge: only figures that this judge, with its metric, could have given. None: all.
    """
    file = benchmark_of(dataset).published
    tables = _read(file) if file else ()
    if judge is not None:
        tables = tuple(table for table in tables if _grades_alike(judge, table))
    same = [table for table in tables if dataset.name in table.catalogue]
    return tuple(_figure(table, figure) for table in same or tables for figure in table.figures)


def _grades_alike(judge: JudgeIdentity, table: _Table) -> bool:
    """Return whether the metric is the same, and the model with the benchmark's own prompts or the rules."""
    ruled = judge.model.startswith("offline/")
    return (judge.metric, judge.model) == (table.metric, table.graded_by) and (judge.official or ruled)


def load_published(path: Path | None = None) -> tuple[PublishedFigure, ...]:
    """Read all figures of a file.

    Args:
        path: a JSON list of tables, each `{"dataset", "variant", "catalogue", "metric", "n", "judge", "source",
            "figures": [{"system", "value", "reader", "by_group", "note"}]}`; None: the files of all benchmarks.

    Raises:
        DataError: it is not of that form, a value is not a fraction, a figure says nothing or is there twice.
    """
    files = [path] if path else [one.published for one in benchmarks() if one.published]
    return tuple(_figure(table, figure) for file in files for table in _read(file) for figure in table.figures)


@cache
def _read(path: Path) -> tuple[_Table, ...]:
    try:
        tables = decode_json(path.read_bytes(), tuple[_Table, ...])
    except UnreadableError as error:
        raise DataError(f"The published figures are not in their format: {error}", where=str(path)) from error
    named = Counter(
        (table.dataset, table.variant, table.metric, table.source, figure.system, figure.reader)
        for table in tables
        for figure in table.figures
    )
    for name, times in named.items():
        if times > 1:
            raise DataError(f"A published figure occurs {times} times: {' / '.join(name)}", where=str(path))
    for table in tables:
        if table.dataset not in BENCHMARK_SPECS:
            what = f"The published figures are on no benchmark '{table.dataset}'"
            raise DataError(what, where=str(path), fix=nearest(table.dataset, BENCHMARK_SPECS.names()))
        for figure in table.figures:
            if figure.value is None and not figure.by_group:
                what = f"The published figure of {figure.system!r} ({table.source}) has no value and no parts"
                raise DataError(what, where=str(path))
    return tables


def _figure(table: _Table, figure: _Figure) -> PublishedFigure:
    return PublishedFigure(
        dataset=table.dataset,
        variant=table.variant,
        system=figure.system,
        value=figure.value,
        metric=table.metric,
        n=table.n,
        judge=table.judge,
        reader=figure.reader,
        source=table.source,
        by_group=figure.by_group,
        note=figure.note,
    )
