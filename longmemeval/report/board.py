"""The board as a folder to publish: one page, one JSON document, and the manifests that the page links to."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from longmemeval.core.files import write_atomic
from longmemeval.core.text.plural import count_of
from longmemeval.pipeline.board.board import Board, BoardField, BoardRow, make_board
from longmemeval.pipeline.board.signers import Signer
from longmemeval.report.charts.svg import need_report_libraries
from longmemeval.report.page.templates import environment, page_file, policy
from longmemeval.report.tables.cells import percent
from longmemeval.settings import Folders

_STYLE = """
header, nav, main, footer { max-width: 94rem; }
.board tbody + tbody { border-top: 3px double var(--line); }
.board td.text { min-width: 5rem; }
.board td.text:nth-of-type(5) { min-width: 10rem; }
.board th.text { min-width: 8rem; white-space: normal; }
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
    where: Folders | None = None,
) -> WrittenBoard:
    """Verify the runs below `paths`, and write `index.html`, `board.json` and `manifests/`; same runs, same bytes.

    Args:
        paths: folders of runs, of one person each say.
        output: the folder; manifests of an earlier board in it that are not linked any more are removed.
        datasets: files that the runs answered, where these are not of the catalogue.
        keys: a folder of public keys, by which signatures are checked.
        where: the folders; that of downloaded data counts.

    Raises:
        HarnessError: a folder or a file of data is not there, or the extra `report` is missing.
    """
    need_report_libraries()
    made = make_board(paths, datasets=datasets, keys=keys, where=where)
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
    from markupsafe import Markup

    style = page_file("page.css") + _STYLE
    runs = sum(len(field.rows) for field in board.fields)
    text = (
        environment()
        .get_template("board.html.j2")
        .render(
            policy=policy("", style),
            title="Memory systems, measured",
            lead=f"{count_of(runs, 'verified run')}, {count_of(len(board.apart), 'run')} not ranked",
            version=board.version,
            groups=[_group(list(fields)) for _, fields in groupby(board.fields, lambda one: one.field.dataset_sha256)],
            apart=board.apart,
            style=Markup(style),
        )
    )
    return text + "\n"


def _group(fields: list[BoardField]) -> dict[str, Any]:
    """Return the runs on one data set."""
    first = fields[0].field
    return {"title": first.dataset, "sha256": first.dataset_sha256, "blocks": [_block(one) for one in fields]}


def _block(one: BoardField) -> dict[str, Any]:
    field = one.field
    official = ", official" if field.official else ""
    return {
        "dataset": field.dataset,
        "judge": f"{field.judge}{official}, {field.metric}",
        "reader": field.reader,
        "budget": field.budget or "no limit",
        "protocol": field.protocol,
        "rows": [_row(row) for row in one.rows],
    }


def _signed(signer: Signer) -> str:
    if not signer.key:
        return "no"
    short = f"key {signer.key[:16]}…"
    return f"{signer.name}, {short}" if signer.name else f"{short}, not checked"


def _row(row: BoardRow) -> dict[str, str]:
    low, high = (f"{bound * 100:.1f}" for bound in row.interval)
    return {
        "place": _place(row),
        "memory": row.memory,
        "mark": row.mark,
        "signed": _signed(row.signer),
        "score": percent(row.score),
        "warnings": ", ".join(row.warnings),
        "interval": f"{low} to {high}",
        "n": f"{row.n:,}",
        "not_evaluated": f"{row.not_evaluated:,}",
        "tokens": "-" if row.prompt_tokens is None else f"{row.prompt_tokens:,.0f}",
        "dollars": "-" if row.answers.usd is None else f"{row.answers.usd:.2f}",
        "manifest": row.manifest.replace("%", "%25"),
        "submission": row.submission,
    }


def _place(row: BoardRow) -> str:
    if row.rank is None:
        return "-"
    first, last = row.rank
    return str(first) if first == last else f"{first} to {last}"
