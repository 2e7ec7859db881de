"""`longmemeval status`."""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from longmemeval.cli import options as shared
from longmemeval.cli.output import out, print_json, print_json_line, print_lines, print_table
from longmemeval.core.options import OUTPUT, Flag

if TYPE_CHECKING:
    from longmemeval.pipeline.status import UnderWay, Watching
    from longmemeval.settings import Folders


EXAMPLE = "longmemeval status demo-hybrid --watch"
_LOOK_AGAIN_S = 1.0
_LINE_EVERY_S = 60.0


def status(
    runs: shared.Runs,
    places: shared.Places,
    watch: Annotated[bool, Flag(OUTPUT, help="Refresh until all runs have finished.", name="--watch -w")] = False,
    as_json: shared.Json = False,
) -> None:
    """Show how runs stand, why they ended, and the next command.

    Reads files alone, so it works from another terminal or machine; `runs RUN` does the same. Without RUN: unfinished
    work, and work that ended in the last day.
    """
    show(runs, places.folders(), watch=watch, as_json=as_json)


def show(runs: shared.Runs, folders: "Folders", *, watch: bool, as_json: bool) -> None:
    """Print the progress of runs.

    Args:
        runs: the named runs; if there are none, unfinished work and work that ended in the last day.
        watch: look again until no process works on them.
        as_json: print one document, or with `watch` one per look.
    """
    from longmemeval.pipeline.status import watch_named, watch_recent

    named = bool(runs.run_ids) or runs.sweep is not None
    watching = watch_named(runs.named(folders, rankings=True), folders) if named else watch_recent(folders)
    if not watch:
        _show_once(watching.look(), as_json=as_json, named=named)
        return
    try:
        _watch(watching, as_json=as_json)
    except KeyboardInterrupt:
        # Watching may stop at any time: no work was in progress here.
        return


def _show_once(found: "UnderWay", *, as_json: bool, named: bool) -> None:
    from longmemeval.report.tables.status import sentences, status_table

    if as_json:
        print_json(found.runs[0] if named and len(found.runs) == 1 else found)
    elif named:
        for run in found.runs:
            print_lines(sentences(run))
            if run.next:
                out.next((run.next, "grade the answers" if " evaluate " in run.next else "continue"))
    elif found.every:
        print_table(status_table(found.runs, found.preparations))
    else:
        out.print("No unfinished work, and no work ended in the last day.")


def _watch(watching: "Watching", *, as_json: bool) -> None:
    """Look again and again until no process works on it: in place in a terminal, else a line per minute."""
    from rich.live import Live
    from rich.text import Text

    from longmemeval.report.tables.status import sentences

    def text(found: "UnderWay") -> str:
        return "\n".join(line for state in found.every for line in sentences(state))

    looks = _looks(watching)
    if as_json:
        for found in looks:
            print_json_line(found)
    elif out.console.is_terminal:
        with Live(console=out.console, auto_refresh=False) as live:
            for found in looks:
                live.update(Text(text(found)), refresh=True)
    else:
        last = None
        for found in looks:
            if found.is_over or last is None or time.monotonic() - last >= _LINE_EVERY_S:
                out.file.write(text(found) + "\n")
                out.file.flush()
                last = time.monotonic()


def _looks(watching: "Watching") -> Iterator["UnderWay"]:
    """Yield the work in progress, again every second, until no process works on it."""
    over = False
    while not over:
        found = watching.look()
        over = found.is_over
        yield found
        time.sleep(0 if over else _LOOK_AGAIN_S)
