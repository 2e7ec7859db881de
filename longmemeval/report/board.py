"""The board as a folder to publish: one page, one JSON document, and the manifests that the page links to."""

from collections.abc import Sequence
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from longmemeval.core.files import write_atomic
from longmemeval.core.tables.table import Column, Link, tabulate
from longmemeval.core.text.figures import UNKNOWN, bounds, count, count_of, in_dollars, percent
from longmemeval.pipeline.board.board import Board, BoardField, BoardRow, Field, make_board
from longmemeval.pipeline.board.signers import Signer
from longmemeval.pipeline.board.submissions import Apart
from longmemeval.report.charts.svg import need_report_libraries
from longmemeval.report.page.templates import written_page
from longmemeval.settings import Folders

_STYLE = """
header, nav, main, footer { max-width: 94rem; }
td.text, th.name { min-width: 5rem; }
"""


class WrittenBoard(Struct, frozen=True):
    """The files that `board build` wrote."""

    folder: str
    ranked: int
    """Rows with a place."""
    shown: int
    """Rows of ceilings and controls, without a place."""
    apart: int
    """Runs that are not in the tables."""
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
        paths: folders of runs, of one person each say.
        output: the folder; manifests of an earlier board in it that are not linked any more are removed.
        datasets: files that the runs answered, where these are not of the catalogue.
        keys: a folder of public keys, by which signatures are checked.
        folders: the folders; that of downloaded data counts.

    Raises:
        HarnessError: a folder or a file of data is not there, or the extra `report` is missing.
    """
    need_report_libraries()
    made = make_board(paths, datasets=datasets, keys=keys, folders=folders)
    for name, source in made.manifests.items():
        write_atomic(output / name, source.read_bytes())
    for path in (output / "manifests").rglob("*.json"):
        if path.relative_to(output).as_posix() not in made.manifests:
            path.unlink()
    write_atomic(output / "board.json", msgspec.json.format(msgspec.json.encode(made.board), indent=2) + b"\n")
    write_atomic(output / "index.html", board_page(made.board).encode())
    rows = [row for field in made.board.fields for row in field.rows]
    ranked = sum(row.rank is not None for row in rows)
    return WrittenBoard(str(output), ranked, len(rows) - ranked, len(made.board.apart), made.board)


def board_page(board: Board) -> str:
    """Return the page of a board."""
    runs = sum(len(field.rows) for field in board.fields)
    return written_page(
        "board.html.j2",
        style=_STYLE,
        kind="board",
        title="Memory systems, measured",
        lead=f"{count_of(runs, 'verified run')}, {count_of(len(board.apart), 'run')} not ranked",
        groups=[_group(list(fields)) for _, fields in groupby(board.fields, lambda one: one.field.dataset_sha256)],
        apart=tabulate("", _APART, board.apart) if board.apart else None,
    )


_Placed = tuple[Field, BoardRow]


def _group(fields: list[BoardField]) -> dict[str, Any]:
    """Return the runs on one data set, those of each field apart."""
    first = fields[0].field
    rows = [(one.field, row) for one in fields for row in one.rows]
    breaks = [place for place, (before, after) in enumerate(pairwise(rows), start=1) if before[0] != after[0]]
    return {
        "title": first.dataset,
        "sha256": first.dataset_sha256,
        "table": tabulate("", _COLUMNS, rows, breaks=breaks),
    }


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
    Column("place", lambda one: _place(one[1])),
    Column("memory", lambda one: f"{one[1].memory} {one[1].mark}".strip(), "text"),
    Column(
        "score", lambda one: f"{percent(one[1].score)}{' ! ' if one[1].warnings else ''}{', '.join(one[1].warnings)}"
    ),
    Column("95 % interval", lambda one: bounds(one[1].interval)),
    Column("data set", lambda one: one[0].dataset, "text"),
    Column("judge", lambda one: _judge(one[0]), "text"),
    Column("reader", lambda one: one[0].reader, "text"),
    Column("budget", lambda one: one[0].budget or "no limit", "text"),
    Column("protocol", lambda one: one[0].protocol, "text"),
    Column("questions", lambda one: one[1].n),
    Column("not evaluated", lambda one: one[1].not_evaluated),
    Column("prompt tokens", lambda one: count(one[1].prompt_tokens)),
    Column("answers", lambda one: in_dollars(one[1].answers.usd)),
    Column("signed", lambda one: _signed(one[1].signer), "text"),
    Column("manifest", lambda one: Link(one[1].submission, one[1].manifest.replace("%", "%25")), "text"),
]
_APART: list[Column[Apart]] = [
    Column("run", lambda one: one.submission, "text"),
    Column("why", lambda one: one.reason, "text"),
]
