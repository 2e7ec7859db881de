"""`longmemeval status`."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from longmemeval.cli.options import shared
from longmemeval.cli.options.groups import add_verb
from longmemeval.cli.output import out, print_json, print_lines, print_table
from longmemeval.core.options import OUTPUT, Flag

if TYPE_CHECKING:
    from longmemeval.pipeline.status.preparations import PreparationState, PreparationWatch
    from longmemeval.pipeline.status.runs import RunState, RunWatch
    from longmemeval.settings import Folders

_LOOK_AGAIN_S = 1.0
_LINE_EVERY_S = 60.0
_RECENT_S = 86_400.0
_MOST_RECENT = 10


def register(app: typer.Typer) -> None:
    """Add the verb."""
    add_verb(app, "status", status, example="longmemeval status demo-hybrid --watch")


def status(
    runs: shared.Runs,
    places: shared.Places,
    watch: Annotated[bool, Flag(OUTPUT, help="Keep looking until the work ends.", name="--watch -w")] = False,
    as_json: shared.Json = False,
) -> None:
    """Show how far runs are, from their files alone.

    Works from another terminal or machine; `runs RUN` does the same. Without RUN: what is unfinished, and what ended in
    the last day.
    """
    show(runs, places.folders(), watch=watch, as_json=as_json)


def show(runs: shared.Runs, where: "Folders", *, watch: bool, as_json: bool) -> None:
    """Print how far runs are.

    Args:
        runs: those that are named; without any, what is unfinished and what ended in the last day.
        where: the folders.
        watch: whether to look again until nothing is at them any more.
        as_json: as one document, or with `watch` as one a look.
    """
    named = bool(runs.run_ids) or runs.sweep is not None
    looking = _named(runs.named(where, rankings=True), where) if named else _unfinished(where)
    if not watch:
        _show_once(looking, as_json=as_json, named=named)
        return
    try:
        _watch(looking, as_json=as_json)
    except KeyboardInterrupt:
        # Who looks on may stop at any time: nothing was under way here.
        return


class _Looking:
    """The runs and preparations that are looked at."""

    def __init__(self, runs: "Sequence[RunWatch]", preparations: "Sequence[PreparationWatch]" = ()) -> None:
        self._runs, self._preparations = runs, preparations

    def look(self) -> "tuple[list[RunState], list[PreparationState]]":
        """Return the state of all of them at this moment."""
        return [one.look() for one in self._runs], [one.look() for one in self._preparations]


def _named(run_ids: Sequence[str], where: "Folders") -> _Looking:
    from longmemeval.pipeline.status.runs import RunWatch
    from longmemeval.results.manifest import run_folder

    return _Looking([RunWatch(run_folder(where.results_dir, run_id)) for run_id in run_ids])


def _unfinished(where: "Folders") -> _Looking:
    from longmemeval.pipeline.status.preparations import unfinished_preparations
    from longmemeval.pipeline.status.runs import RunWatch, is_unfinished
    from longmemeval.results.manifest import run_ids

    since = time.time() - _RECENT_S
    folders = [where.results_dir / run_id for run_id in run_ids(where.results_dir)]
    folders.sort(key=lambda folder: (folder / "run.json").stat().st_mtime, reverse=True)
    # What goes on first, then what ended last.
    unfinished = [folder for folder in folders if is_unfinished(folder)]
    ended = [
        folder for folder in folders if folder not in unfinished and (folder / "run.json").stat().st_mtime >= since
    ]
    watches = [RunWatch(folder) for folder in (*unfinished, *ended[:_MOST_RECENT])]
    return _Looking(watches, unfinished_preparations(where.prepared_dir))


def _show_once(looking: _Looking, *, as_json: bool, named: bool) -> None:
    from longmemeval.report.tables.status import sentences, status_table

    found, preparations = looking.look()
    if as_json:
        print_json(found[0] if named and len(found) == 1 else {"runs": found, "preparations": preparations})
    elif named:
        print_lines(line for one in found for line in sentences(one))
    elif found or preparations:
        print_table(status_table(found, preparations))
    else:
        out.print("Nothing is unfinished, and nothing ended in the last day.")


def _watch(looking: _Looking, *, as_json: bool) -> None:
    """Look again and again until nothing is at it any more: in place in a terminal, else a line a minute."""
    import msgspec
    from rich.live import Live
    from rich.text import Text

    from longmemeval.report.tables.status import sentences

    def text() -> tuple[str, bool]:
        found, preparations = looking.look()
        every: list[RunState | PreparationState] = [*found, *preparations]
        over = all(one.is_over for one in every)
        if as_json:
            return msgspec.json.encode({"runs": found, "preparations": preparations}).decode(), over
        return "\n".join(line for one in every for line in sentences(one)), over

    if out.console.is_terminal and not as_json:
        with Live(console=out.console, auto_refresh=False) as live:
            over = False
            while not over:
                shown, over = text()
                live.update(Text(shown), refresh=True)
                time.sleep(0 if over else _LOOK_AGAIN_S)
        return
    last = 0.0
    over = False
    while not over:
        shown, over = text()
        if as_json or over or time.monotonic() - last >= _LINE_EVERY_S or not last:
            out.file.write(shown + "\n")
            out.file.flush()
            last = time.monotonic()
        time.sleep(0 if over else _LOOK_AGAIN_S)
