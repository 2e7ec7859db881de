"""`longmemeval plugins`."""

from typing import TYPE_CHECKING, Annotated

import typer

from longmemeval.cli import options as shared
from longmemeval.cli.output import err, out, print_json, print_table, printable
from longmemeval.core.options import WHAT, Flag

if TYPE_CHECKING:
    from longmemeval.plugins import Plugin


EXAMPLE = "longmemeval plugins --check"
_NOT_ALL_USABLE = 3


def plugins(
    check: Annotated[bool, Flag(WHAT, help="Load built-in plugins too; exit with 3 if one fails.")] = False,
    as_json: shared.Json = False,
) -> None:
    """List plugins, their packages and their problems.

    Plugins are memory systems, benchmarks, judges, executors, embedders, stores of the engine and folders of claims.
    """
    from longmemeval.pipeline.extensions import all_plugins

    found = all_plugins(check_built_in=check)
    problems = [plugin for plugin in found if plugin.problem]
    if as_json:
        print_json(found)
    else:
        _show(found, problems)
    if check and problems:
        raise typer.Exit(_NOT_ALL_USABLE)


def _show(found: "list[Plugin]", problems: "list[Plugin]") -> None:
    from longmemeval.core.tables.table import Column, tabulate
    from longmemeval.pipeline.extensions import remarks_on

    remarks = remarks_on(found)
    columns: list[Column[Plugin]] = [
        Column("group", lambda row: row.group, "text"),
        Column("name", lambda row: row.name, "text"),
        Column("package", lambda row: row.package, "text"),
        Column("version", lambda row: row.version, "text"),
        Column("", lambda row: "cannot be used" if row.problem else remarks.get((row.group, row.name), ""), "prose"),
    ]
    print_table(tabulate("", columns, found))
    for plugin in problems:
        out.print(f"[bold]{printable(plugin.name or plugin.package)}[/]: {printable(plugin.problem)}")
    if not problems:
        err.print("Add your own with an entry point in one of these groups: docs/plugins.md")
