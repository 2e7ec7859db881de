"""`--published` of `compare` and `report`: without a value it means the same judge and metric."""

from collections.abc import Iterable, Iterator
from typing import Annotated, Literal

from longmemeval.core.options import OUTPUT, Flag

_SAME, _ALL = "same", "all"

Published = Annotated[
    Literal["same", "all"] | None,
    Flag(OUTPUT, "[all]", "Published figures: same judge and metric; or all.", name="--published"),
]


def with_default(arguments: Iterable[str]) -> Iterator[str]:
    """Yield the arguments, with the default value of `--published` if none follows it."""
    waiting = False
    for argument in arguments:
        if waiting and argument not in (_SAME, _ALL):
            yield _SAME
        waiting = argument == "--published"
        yield argument
    if waiting:
        yield _SAME
