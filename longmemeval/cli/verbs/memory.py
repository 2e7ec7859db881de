"""`longmemeval memory`: create, install and check memory systems."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from longmemeval.cli import options as shared
from longmemeval.cli.next_step import command_line, option_words
from longmemeval.cli.options import add_verb
from longmemeval.cli.output import err, out, print_json, print_row, print_table, printable, warn
from longmemeval.cli.panels import Verbs
from longmemeval.core.options import WHAT, Flag, Group, words_of
from longmemeval.core.part_options import PartOptions
from longmemeval.core.secrets.parameters import public_command
from longmemeval.llm.options import ModelOptions

if TYPE_CHECKING:
    from longmemeval.memory.external.contract_check import Finding
    from longmemeval.memory.products.adapter import Adapter, Description
    from longmemeval.memory.products.installed import Installed


app = typer.Typer(cls=Verbs, help="Create, install and check memory systems.")

_SIGNS = {"works": "yes", "missing": "missing", "failed": "NO"}
_FAILED = 3
_WIDEST_TRIAL = len("same question, same hits")
_MEGABYTES_A_MINUTE = 150
"""Megabytes of the final size that pip installs per minute, measured at 0.4 MB/s; uv is much faster."""


def init(
    file: Annotated[Path, Flag(metavar="FILE", help="Python file to write, such as mymem.py.", argument=True)],
) -> None:
    """Write a working memory of thirty lines, as a starting point.

    It is a class with two methods, add and search.
    """
    from longmemeval.memory.external.contract_check import write_example

    write_example(file)
    out.print(f"Wrote {printable(str(file))}.")
    out.next((command_line("memory", "check", f"{file.stem}:MyMemory"), "test it on two small histories"))


def install(
    name: Annotated[
        str, Flag(metavar="NAME", help="Product to install; without it, all are listed.", shown=False, argument=True)
    ] = "",
    python: Annotated[str, Flag(WHAT, "PYTHON", "Python interpreter for its environment.")] = "",
) -> None:
    """Install a memory product in its own environment.

    Afterwards use it by its name: --memory NAME. Its folder is installed-memories/NAME (LONGMEMEVAL_MEMORIES_DIR).
    """
    from time import monotonic

    from longmemeval.memory.products.install import install as put
    from longmemeval.memory.products.installed import place_of
    from longmemeval.memory.products.known import ADAPTERS

    if not name:
        _show_products()
        return
    place = place_of(ADAPTERS.get(name))
    if place.installed and not python:
        out.print(f"{printable(name)} is already installed: {printable(_count(place.installed))}.")
    else:
        description = place.adapter.description
        minutes = 1 + description.megabytes // _MEGABYTES_A_MINUTE
        out.print(
            f"Installing {printable(_pins(description))} into {printable(str(place.folder))}: about "
            f"{description.megabytes} MB, within {minutes} {'minutes' if minutes > 1 else 'minute'} on most links."
        )
        began = monotonic()
        installed = put(place, python)
        out.print(f"Installed {printable(name)} in {monotonic() - began:.0f} s: {printable(_count(installed))}.")
    if place.adapter.description.remark:
        err.print(f"Note: {printable(name)} was {printable(place.adapter.description.remark)}.")
    file = f":{place.adapter.description.file}" if place.adapter.wants_file else ""
    out.next((command_line("memory", "check", f"{name}{file}"), "test it on two small histories"))


def _pins(description: "Description") -> str:
    """Return the packages to install, without their conditions."""
    return ", ".join(requirement.partition(";")[0].strip() for requirement in description.requirements)


def _count(installed: "Installed") -> str:
    return f"{len(installed.packages)} packages, Python {installed.python}"


def _show_products() -> None:
    from longmemeval.core.tables.table import Column, tabulate
    from longmemeval.memory.products.installed import place_of
    from longmemeval.memory.products.known import all_adapters

    columns: list[Column[Adapter]] = [
        Column("name", lambda adapter: adapter.name, "text"),
        Column(
            "description",
            lambda adapter: "; ".join(filter(None, (adapter.description.summary, adapter.description.remark))),
            "prose",
        ),
        Column("packages", lambda adapter: _pins(adapter.description), "prose"),
        Column("MB", lambda adapter: adapter.description.megabytes),
        Column("installed", lambda adapter: place_of(adapter).installed is not None, "text"),
    ]
    print_table(tabulate("", columns, all_adapters()))
    err.print("Install one with: longmemeval memory install NAME")


def check(
    spec: Annotated[
        str,
        Flag(
            metavar="MEMORY",
            help="Registered name, module:Class, process:COMMAND, URL or YAML.",
            shown=False,
            argument=True,
        ),
    ],
    parts: Annotated[PartOptions, Group(("memory_model", "embedder"))],
    connection: Annotated[ModelOptions, Group(("api_base",))],
    settings: Annotated[
        list[str] | None,
        Flag(WHAT, "KEY=VALUE", "Parameter of the memory; repeatable.", name="--set"),
    ] = None,
    profile: Annotated[str | None, Flag(WHAT, "NAME", "Short for --set profile=NAME.")] = None,
    as_json: shared.Json = False,
) -> None:
    """Test a memory system on small synthetic histories.

    Reports what works and what tables will not show; the exit code is 3 if something is wrong.
    """
    from longmemeval.memory.configuration import given_parameters, resolve_configuration
    from longmemeval.memory.external.contract_check import MemoryCheck
    from longmemeval.memory.products.known import product_deviations

    overrides = [*(settings or ()), *given_parameters(profile=profile)]
    configuration = resolve_configuration(spec, overrides)
    trial = MemoryCheck(configuration, spec, parts, connection)
    if not as_json:
        err.print(f"Testing {printable(public_command(spec))} on two synthetic histories …")
        if deviations := product_deviations(configuration.preset, configuration.parameters):
            warn(f"{', '.join(deviations)}.")
    outcome = trial.check(_show if not as_json else lambda finding: None)
    for reason in outcome.failed_calls:
        err.print(f"A model call of the memory failed: {printable(reason)}")
    if as_json:
        print_json(outcome.findings)
    elif outcome.failed:
        err.print("FAILED: fix these first; results would be wrong.")
    else:
        words = [*option_words("--set", overrides), *words_of(parts), *words_of(connection)]
        out.next(
            (command_line("probe", "--memory", spec, *words), "test it on synthetic histories"),
            (command_line("prepare", "--dataset", "sample", "--memory", spec, *words), "ingest the sample"),
        )
    if outcome.failed:
        raise typer.Exit(_FAILED)


def _show(finding: "Finding") -> None:
    widest = max(map(len, _SIGNS.values()))
    print_row([(finding.what, _WIDEST_TRIAL), (_SIGNS[finding.state], widest), (finding.details, None)])


add_verb(app, "init", init, example="longmemeval memory init mymem.py")
add_verb(app, "install", install, example="longmemeval memory install chroma")
add_verb(app, "check", check, example="longmemeval memory check mymem:MyMemory")
