"""`--published` of `compare` and `report`: alone it means the same judge and metric."""

from collections.abc import Iterable, Iterator
from typing import Annotated, Literal

import typer

from longmemeval.cli.options.panels import OUTPUT

_SAME, _ALL = "same", "all"

Published = Annotated[
    Literal["same", "all"] | None,
    typer.Option(
        "--published",
        metavar="[all]",
        rich_help_panel=OUTPUT,
        help="Published figures: same judge and metric; or all.",
    ),
]


def with_default(arguments: Iterable[str]) -> Iterator[str]:
    """Return the arguments with the value that `--published` has where `all` does not follow."""
    waiting = False
    for argument in arguments:
        if waiting and argument not in (_SAME, _ALL):
            yield _SAME
        waiting = argument == "--published"
        yield argument
    if waiting:
        yield _SAME
