"""Write the board as a folder to publish: a page, a JSON document, and the manifests that the page links to."""

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from longmemeval.core.files import write_atomic
from longmemeval.core.tables.table import Column, Link, tabulate
from longmemeval.core.text.figures import UNKNOWN, bounds, count, count_of, in_dollars, listed, percent
from longmemeval.core.text.paths import document_without_places
from longmemeval.pipeline.board import Board, BoardField, BoardRow, Field, Rejected, Signer, make_board
from longmemeval.report.charts.svg import need_report_libraries
from longmemeval.report.page.templates import written_page
from longmemeval.results.manifest import document_of, manifest_in
from longmemeval.results.scores.warnings import IN_GENERAL
from longmemeval.settings import Folders

_STYLE = """
header, nav, main, footer { max-width: 94rem; }
td.text, th.name { min-width: 5rem; }
"""


class WrittenBoard(Struct, frozen=True):
    """The files that `board build` wrote."""

    folder: str
    ranked: int
    """Number of rows with a rank."""
    shown: int
    """Number of rows of ceilings, controls and runs that were not fully checked, which have no rank."""
    apart: int
    """Number of runs that are not in the tables."""
    board: Board


def write_board(
    paths: Sequence[Path],
    output: Path,
    *,
    datasets: Sequence[str] = (),
    keys: Path | None = None,
    folders: Folders | None = None,
) -> WrittenBoard:
    """Verify the runs below `paths`, and write `index.html`, `board.json` and `manifests/`; same runs, same bytes.

    Args:
        paths: folders of runs, for instance one for each submitter.
        output: the folder to write; manifests of an earlier board that are no longer linked are removed from it.
        datasets: data files that the runs answered, if they are not in the catalogue.
        keys: a folder of public keys to check signatures with.
        folders: only the folder of downloaded data is used; None: from the environment.

    Raises:
        HarnessError: a folder or a data file does not exist, or the extra `report` is not installed.
    """
    need_report_libraries()
    assembled = make_board(paths, datasets=datasets, keys=keys, folders=folders)
    for name, source in assembled.manifests.items():
        write_atomic(output / name, _copy_of(source))
    for path in (output / "manifests").rglob("*.json"):
        if path.relative_to(output).as_posix() not in assembled.manifests:
            path.unlink()
    write_atomic(output / "board.json", msgspec.json.format(msgspec.json.encode(assembled.board), indent=2) + b"\n")
    write_atomic(output / "index.html", board_page(assembled.board).encode())
    rows = [row for field in assembled.board.fields for row in field.rows]
    ranked = sum(row.rank is not None for row in rows)
    return WrittenBoard(str(output), ranked, len(rows) - ranked, len(assembled.board.apart), assembled.board)


def _copy_of(file: Path) -> bytes:
    """Return a manifest to publish: as it is, unless it has absolute paths or secrets, which are left out."""
    data = file.read_bytes()
    shown = document_without_places(document_of(manifest_in(file)))
    if msgspec.json.decode(data) == shown:
        return data
    return msgspec.json.format(msgspec.json.encode(shown), indent=2) + b"\n"


def board_page(board: Board) -> str:
    """Return the page of a board."""
    runs = sum(len(field.rows) for field in board.fields)
    return written_page(
        "board.html.j2",
        style=_STYLE,
        kind="board",
        title="Memory systems, measured",
        lead=f"{count_of(runs, 'verified run')}, {count_of(len(board.apart), 'run')} not ranked",
        groups=[_group(list(fields)) for _, fields in groupby(board.fields, lambda own: own.field.dataset_sha256)],
        apart=tabulate("", _APART, board.apart) if board.apart else None,
    )


_Placed = tuple[Field, BoardRow]


def _group(fields: list[BoardField]) -> dict[str, Any]:
    """Return the runs on one dataset, with breaks between the fields."""
    first = fields[0].field
    rows = [(board_field.field, row) for board_field in fields for row in board_field.rows]
    breaks = [place for place, (before, after) in enumerate(pairwise(rows), start=1) if before[0] != after[0]]
    return {
        "title": first.dataset,
        "sha256": first.dataset_sha256,
        "table": tabulate("", _COLUMNS, rows, breaks=breaks),
        "warnings": list(_warnings([row for _, row in rows])),
    }


def _warnings(rows: list[BoardRow]) -> Iterator[str]:
    """Yield what an ! stands for, each as a sentence with the memories it is about unless it is about all."""
    for code, sentence in IN_GENERAL.items():
        about = [row for row in rows if code in row.warnings]
        if about:
            names = listed([*dict.fromkeys(row.memory for row in about)], 4)
            yield f"! {'' if len(about) == len(rows) else f'{names}: '}{sentence}"


def _judge(field: Field) -> str:
    return f"{field.judge}{', official' if field.official else ''}, {field.metric}"


def _signed(signer: Signer) -> str:
    if not signer.key:
        return "no"
    short = f"key {signer.key[:16]}…"
    return f"{signer.name}, {short}" if signer.name else f"{short}, not checked"


def _place(row: BoardRow) -> str:
    if row.rank is None:
        return UNKNOWN
    first, last = row.rank
    return str(first) if first == last else f"{first} to {last}"


_COLUMNS: list[Column[_Placed]] = [
    Column("place", lambda row: _place(row[1])),
    Column("memory", lambda row: f"{row[1].memory} {row[1].mark}".strip(), "text"),
    Column("score", lambda row: f"{percent(row[1].score)}{' !' if row[1].warnings else ''}"),
    Column("95% CI", lambda row: bounds(row[1].interval)),
    Column("dataset", lambda row: row[0].dataset, "text"),
    Column("judge", lambda row: _judge(row[0]), "text"),
    Column("reader", lambda row: row[0].reader, "text"),
    Column("budget", lambda row: row[0].budget or "no limit", "text"),
    Column("protocol", lambda row: row[0].protocol, "text"),
    Column("questions", lambda row: row[1].n),
    Column("not evaluated", lambda row: row[1].not_evaluated),
    Column("prompt tokens", lambda row: count(row[1].prompt_tokens)),
    Column("answers", lambda row: in_dollars(row[1].answers.usd)),
    Column("signed", lambda row: _signed(row[1].signer), "text"),
    Column("not checked", lambda row: "; ".join(row[1].not_checked), "text"),
    Column("manifest", lambda row: Link(row[1].submission, row[1].manifest.replace("%", "%25")), "text"),
]
_APART: list[Column[Rejected]] = [
    Column("run", lambda run: run.submission, "text"),
    Column("why", lambda run: run.reason, "text"),
]
