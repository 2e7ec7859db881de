"""`longmemeval facts`."""

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from longmemeval.cli.next_step import command_line
from longmemeval.cli.options import shared
from longmemeval.cli.options.groups import add_verb
from longmemeval.cli.output import out, print_json, print_lines, print_table, printable
from longmemeval.core.options import OUTPUT, WHAT, Flag
from longmemeval.core.tables.table import Column, tabulate
from longmemeval.core.text.figures import count_of
from longmemeval.errors import HarnessError, nearest

if TYPE_CHECKING:
    from longmemeval.memory.engram.engine import Engine
    from longmemeval.memory.engram.recall.profiles import Profile, Trait
    from longmemeval.memory.engram.records import Fact

_DATES = ["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M"]


def register(app: typer.Typer) -> None:
    """Add the verb."""
    add_verb(app, "facts", facts, example="longmemeval facts smp_4ea7 --as-of 2024-03-01")


def facts(
    identifier: Annotated[str, Flag(metavar="HAYSTACK", help="A haystack or question id.", argument=True)],
    places: shared.PreparedPlaces,
    dataset: shared.DatasetName = "sample",
    subject: Annotated[str | None, Flag(WHAT, "NAME", "Facts on this person or thing only.")] = None,
    predicate: Annotated[str | None, Flag(WHAT, "NAME", "Facts of this kind only, such as home or employer.")] = None,
    as_of: Annotated[
        datetime | None,
        typer.Option("--as-of", formats=_DATES, metavar="DATE", rich_help_panel=WHAT, help="What was so then."),
    ] = None,
    believed_at: Annotated[
        datetime | None,
        typer.Option(
            "--believed-at", formats=_DATES, metavar="DATE", rich_help_panel=WHAT, help="By what was known then."
        ),
    ] = None,
    profile: Annotated[bool, Flag(WHAT, help="What holds of each person, grouped.")] = False,
    draw: Annotated[
        Literal["svg", "mermaid"] | None,
        Flag(OUTPUT, help="Draw the timeline instead of a table."),
    ] = None,
    output: Annotated[Path | None, Flag(OUTPUT, help="Write the drawing to this file.", name="--output -o")] = None,
    prepared: Annotated[str | None, Flag(WHAT, "NAME", "Show what was read at prepare.")] = None,
    as_json: shared.Json = False,
) -> None:
    """Show what a history says, and when it was so.

    Facts are read by rules, or were by a model at prepare (--prepared): what holds (or held, with --as-of), what was
    believed (--believed-at). A profile is what holds of one person, grouped by kind.
    """
    from longmemeval.benchmarks.registry import load_dataset
    from longmemeval.memory.engram.drawing import mermaid, svg
    from longmemeval.memory.engram.engine import replayed
    from longmemeval.memory.engram.prepared import prepared_engine
    from longmemeval.pipeline.inspect.history import haystack_named
    from longmemeval.storage.fixture import Fixture, fixture_folder
    from longmemeval.storage.messages import haystack_messages

    where = places.folders()
    data = load_dataset(dataset, where.data_dir)
    haystack = haystack_named(data, identifier)
    if prepared is None:
        engine = replayed(haystack_messages(haystack))
    else:
        folder = fixture_folder(where.prepared_dir, data.name, prepared, haystack.haystack_id)
        engine = prepared_engine(Fixture.open(folder))
    _check(engine, subject, predicate)
    if profile:
        if draw:
            raise HarnessError("A profile cannot be drawn", fix="Leave out --draw or --profile")
        profiles = engine.profiles(subject, predicate, as_of=as_of, believed_at=believed_at)
        _show_profiles(profiles, haystack.haystack_id, as_of, as_json)
        return
    if as_of is None:
        found = engine.timeline(subject, predicate, believed_at=believed_at)
    else:
        found = engine.facts(subject, predicate, as_of=as_of, believed_at=believed_at)
    if as_json:
        print_json(found)
        return
    if draw:
        end = max(episode.event_at for episode in engine.episodes) if engine.episodes else datetime(1970, 1, 1)
        drawn = (svg if draw == "svg" else mermaid)(found, as_of or end)
        _put(drawn, output)
        return
    _show(found, haystack.haystack_id, as_of)
    if found and as_of is None:
        words = ["facts", identifier, *([] if dataset == "sample" else ["--dataset", dataset])]
        words += [] if prepared is None else ["--prepared", prepared]
        out.next(command_line(*words, "--draw", "svg", "--output", "facts.svg", places=places))


def _check(engine: "Engine", subject: str | None, predicate: str | None) -> None:
    """Refuse a name that no fact has."""
    everything = engine.timeline()
    if subject and everything and not engine.timeline(subject):
        raise HarnessError(
            f"No fact of this history is on '{subject}'", fix=nearest(subject, {one.subject for one in everything})
        )
    if predicate and everything and not engine.timeline(None, predicate):
        kinds = {one.predicate.partition(":")[0] for one in everything}
        raise HarnessError(f"No fact of this history is of kind '{predicate}'", fix=nearest(predicate, kinds))


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
    print_table(tabulate(title, columns, [(one.subject, trait) for one in profiles for trait in one.traits]))


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


def _put(drawn: str, output: Path | None) -> None:
    if output is None:
        print_lines(drawn.splitlines())
        return
    from longmemeval.core.files import write_atomic

    write_atomic(output, drawn.encode())
    out.print(f"{printable(str(output))} is written.")
