"""`longmemeval facts`."""

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from longmemeval.cli import options as shared
from longmemeval.cli.next_step import command_line
from longmemeval.cli.output import out, print_json, print_lines, print_table, printable, write_output
from longmemeval.core.options import OUTPUT, WHAT, Flag
from longmemeval.core.tables.table import Column, tabulate
from longmemeval.core.text.figures import count_of
from longmemeval.errors import HarnessError

if TYPE_CHECKING:
    from longmemeval.memory.engram.profiles import Profile, Trait
    from longmemeval.memory.engram.records import Fact


EXAMPLE = "longmemeval facts smp_4ea7 --as-of 2024-03-01"
_DATES = ["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M"]


def facts(
    identifier: Annotated[str, Flag(metavar="HAYSTACK", help="Haystack or question id.", argument=True)],
    places: shared.PreparedPlaces,
    dataset: shared.DatasetName = "sample",
    subject: Annotated[str | None, Flag(WHAT, "NAME", "Person or thing to show facts about.")] = None,
    predicate: Annotated[str | None, Flag(WHAT, "NAME", "Kind of fact, such as home or employer.")] = None,
    as_of: Annotated[
        datetime | None,
        typer.Option(
            "--as-of", formats=_DATES, metavar="DATE", rich_help_panel=WHAT, help="Date on which the facts held."
        ),
    ] = None,
    believed_at: Annotated[
        datetime | None,
        typer.Option(
            "--believed-at",
            formats=_DATES,
            metavar="DATE",
            rich_help_panel=WHAT,
            help="Date at which the facts were known.",
        ),
    ] = None,
    profile: Annotated[bool, Flag(WHAT, help="Group the current facts by person.")] = False,
    draw: Annotated[
        Literal["svg", "mermaid"] | None,
        Flag(OUTPUT, "FORM", "Drawing instead of a table: svg or mermaid."),
    ] = None,
    output: Annotated[Path | None, Flag(OUTPUT, "FILE", "File for the drawing.", name="--output -o")] = None,
    prepared: Annotated[str | None, Flag(WHAT, "NAME", "Preparation whose facts to show.")] = None,
    as_json: shared.Json = False,
) -> None:
    """Show facts extracted from a history, with dates.

    Facts are read by rules, or were read by a model at prepare (--prepared): what holds (or held, with --as-of), and
    what was believed (--believed-at). A profile is what holds for one person, grouped by kind.
    """
    from longmemeval.benchmarks.registry import load_dataset
    from longmemeval.pipeline.inspect.facts import HistoryFacts

    folders = places.folders()
    history = HistoryFacts(load_dataset(dataset, folders.data_dir), identifier, prepared=prepared, folders=folders)
    if profile:
        engine = history.about(subject, predicate)
        profiles = engine.profiles(subject, predicate, as_of=as_of, believed_at=believed_at)
        if draw:
            raise HarnessError("A profile cannot be drawn", fix="Leave out --draw or --profile")
        _show_profiles(profiles, history.haystack_id, as_of, as_json)
        return
    found = history.facts(subject, predicate, as_of=as_of, believed_at=believed_at)
    if as_json:
        print_json(found)
        return
    if draw:
        drawn = history.drawn(found, draw, as_of)
        if output is None:
            print_lines(drawn.splitlines())
        else:
            write_output(output, drawn)
            out.print(f"{printable(str(output))} is written.")
        return
    _show(found, history.haystack_id, as_of)
    if found and as_of is None:
        words = ["facts", identifier, *([] if dataset == "sample" else ["--dataset", dataset])]
        words += [] if prepared is None else ["--prepared", prepared]
        out.next((command_line(*words, "--draw", "svg", "--output", "facts.svg", places=places), "draw them"))


def _show_profiles(profiles: "list[Profile]", haystack_id: str, as_of: datetime | None, as_json: bool) -> None:
    if as_json:
        print_json(profiles)
        return
    columns: list[Column[tuple[str, Trait]]] = [
        Column("subject", lambda row: row[0], "text"),
        Column("predicate", lambda row: row[1].predicate, "text"),
        Column("what holds", lambda row: row[1].text, "prose"),
        Column("messages", lambda row: ", ".join(row[1].episode_ids), "prose"),
    ]
    when = f" on {as_of:%Y-%m-%d}" if as_of else ""
    title = f"Haystack {haystack_id}{when}: {count_of(len(profiles), 'profile')}"
    print_table(
        tabulate(title, columns, [(profile.subject, trait) for profile in profiles for trait in profile.traits])
    )


def _show(found: "list[Fact]", haystack_id: str, as_of: datetime | None) -> None:
    columns: list[Column[Fact]] = [
        Column("subject", lambda fact: fact.subject, "text"),
        Column("predicate", lambda fact: fact.predicate, "text"),
        Column("object", lambda fact: fact.object + (" (disputed)" if fact.disputed else ""), "prose"),
        Column("from", lambda fact: f"{fact.valid_at:%Y-%m-%d}", "text"),
        Column("until", lambda fact: f"{fact.invalid_at:%Y-%m-%d}" if fact.invalid_at else "now", "text"),
        Column("learned", lambda fact: f"{fact.created_at:%Y-%m-%d}", "text"),
        Column("messages", lambda fact: ", ".join(fact.episode_ids), "prose"),
    ]
    when = f" on {as_of:%Y-%m-%d}" if as_of else ""
    title = f"Haystack {haystack_id}{when}: {count_of(len(found), 'fact')}"
    print_table(tabulate(title, columns, found))
