"""`longmemeval probe`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from longmemeval.cli import options as shared
from longmemeval.cli.next_step import command_line, option_words
from longmemeval.cli.options import Shown
from longmemeval.cli.output import err, out, print_json, print_table, printable, warn
from longmemeval.core.options import OUTPUT, WHAT, Flag, Group
from longmemeval.core.part_options import PartOptions
from longmemeval.llm.options import MaxCost, ModelOptions

if TYPE_CHECKING:
    from longmemeval.pipeline.probe.probe import ProbeReport


EXAMPLE = "longmemeval probe -m hybrid -m bm25"


def probe(
    memory: shared.Memories,
    parts: PartOptions,
    connection: Annotated[ModelOptions, Group(("api_base",))],
    places: shared.Places,
    rates: shared.Rates,
    shown: Shown,
    settings: Annotated[
        list[str] | None,
        Flag(WHAT, "KEY=VALUE", "Parameter of the memories; repeatable.", name="--set"),
    ] = None,
    seed: Annotated[
        int | None,
        Flag(WHAT, "N", "Seed of the synthetic users [default: new, or that of an interrupted probe]."),
    ] = None,
    lives: Annotated[int, Flag(WHAT, "N", "Number of synthetic users for each length.", minimum=1)] = 5,
    sessions: Annotated[
        list[int] | None,
        Flag(WHAT, "N", "History length in sessions, 10 to 1000; repeatable [default: 10, 100]."),
    ] = None,
    spending: MaxCost = None,
    output: Annotated[
        Path | None, Flag(OUTPUT, "FILE.svg", "SVG file for a drawing of the table.", name="--output -o")
    ] = None,
    as_json: shared.Json = False,
) -> None:
    """Test memories on synthetic user histories.

    No question is answered and nothing is graded: the truth is known by construction. Every
    memory is shown next to a control that recalls nothing and one that reads the evidence.
    """
    from longmemeval.memory.configuration import resolve_configuration
    from longmemeval.pipeline.options import PrepareOptions
    from longmemeval.pipeline.probe import probe as pipeline
    from longmemeval.report.charts.probes import check_drawable, probe_chart

    shown.apply()
    if output:
        check_drawable(output)
    folders = places.folders()
    report = pipeline.probe(
        [resolve_configuration(spec, settings or []) for spec in memory],
        seed=seed,
        lives=lives,
        sessions=tuple(sessions or (10, 100)),
        options=PrepareOptions(**dict(parts), model_options=rates.on(connection, folders), spending=spending),
        spending=spending,
        folders=folders,
    )
    if output:
        probe_chart(report).alone().save(output)
        err.print(f"Wrote {printable(str(output))}.")
    if as_json:
        print_json(report)
    else:
        show(report, memory, places)


def show(report: "ProbeReport", memories: list[str], places: shared.Places) -> None:
    """Print the verdict, the table, and the commands to look closer."""
    from longmemeval.report.tables.probe import probe_table

    out.print(printable(report.verdict))
    print_table(probe_table(report))
    for note in dict.fromkeys(note for memory in report.memories for note in memory.notes):
        out.print(printable(note))
    out.print(
        "Passed: the statement that answers is among the first 10 items, and no item that is out of date, about "
        "another person or planted is ranked above it. The lower bound cannot pass; the upper bound must."
    )
    out.print(
        "Deletion (memories with delete(subject)): a statement is found and deleted. After a restart and after a "
        "further message, neither it nor anything made from it is found, and nothing else is lost. Read after write "
        "(memories with add and search): a message is found before another one is added."
    )
    words = option_words("--memory", memories)
    same = ["--seed", str(report.seed), "--lives", str(report.lives)]
    same += option_words("--sessions", report.sessions)
    again = command_line("probe", *words, *same, places=places)
    warn(f"To repeat with the same histories: {again}")
    retrieval = command_line("retrieval", "--dataset", str(report.dataset), *words, places=places)
    err.next((retrieval, "measure evidence recall on these histories"))
