"""Validation of the arguments of public functions: a wrong type is a `HarnessError`, not a traceback."""

import re
import types
import typing
from collections.abc import Callable
from functools import cache, wraps
from inspect import signature
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from longmemeval.errors import HarnessError

if TYPE_CHECKING:
    from pydantic import TypeAdapter

P = ParamSpec("P")
R = TypeVar("R")

_AT_LEAST_ONE = {"concurrency", "context_window", "jobs", "max_attempts", "max_tokens", "repeats", "votes"}
"""Counts, in any record that has them."""
_SHOWN = 60
"""Characters of a wrong value to repeat."""


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Wrap a function so that it refuses arguments and fields of option records of the wrong type.

    A path may be given as text.

    Args:
        function: with type hints.
    """
    name = function.__name__

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        bound = signature(function).bind(*args, **kwargs)
        hints = typing.get_type_hints(function)
        for argument, value in bound.arguments.items():
            if argument in hints:
                bound.arguments[argument] = _fitting(value, hints[argument], f"{name}({argument}=", argument)
        return function(*bound.args, **bound.kwargs)

    return call


def _fitting(value: object, hint: object, where: str, name: str) -> object:
    """Return the value, or the one its text stands for.

    Raises:
        HarnessError: it is of another type, or a count below 1.
    """
    from pydantic import ValidationError

    if name in _AT_LEAST_ONE and isinstance(value, int) and value < 1:
        raise HarnessError(f"{where}{value}) is too small", fix="Give 1 or more")
    if _is_protocol(hint):
        fits = all(hasattr(value, member) for member in vars(hint) if not member.startswith("_"))
        if not fits:
            raise _refusal(value, hint, where)
        return value
    try:
        found = _adapter(hint).validate_python(value)
    except ValidationError as error:
        raise _refusal(value, hint, where) from error
    if isinstance(hint, type) and hasattr(hint, "model_fields") and not isinstance(value, hint):
        raise _refusal(value, hint, where)
    if hasattr(found, "__struct_fields__") or hasattr(type(found), "model_fields"):
        _check_fields(found)
    return found


def _check_fields(record: object) -> None:
    """Check the fields of an option record, which were set without validation."""
    hints = typing.get_type_hints(type(record))
    fields: typing.Iterable[str] = getattr(record, "__struct_fields__", getattr(type(record), "model_fields", ()))
    for field in fields:
        value, where = getattr(record, field), f"{type(record).__name__}({field}="
        found = _fitting(value, hints[field], where, field)
        # Text in place of a number or a path would fail later.
        if isinstance(value, str) and not isinstance(found, str):
            raise _refusal(value, hints[field], where)


@cache
def _adapter(hint: object) -> "TypeAdapter[object]":
    from pydantic import ConfigDict, PydanticUserError, TypeAdapter

    try:
        return TypeAdapter(typing.cast("type[object]", hint), config=ConfigDict(arbitrary_types_allowed=True))
    except PydanticUserError:
        # A model has a configuration of its own.
        return TypeAdapter(typing.cast("type[object]", hint))


def _is_protocol(hint: object) -> bool:
    return bool(getattr(hint, "_is_protocol", False))


def _refusal(value: object, hint: object, where: str) -> HarnessError:
    given = repr(value)
    given = given if len(given) <= _SHOWN else f"{given[:_SHOWN]}…"
    wanted = _readable(hint)
    source = " (`load_dataset` gives one)" if wanted == "Dataset" else ""
    listed = " Put it into a list" if isinstance(value, str) and wanted.startswith("Sequence") else ""
    fix = f"Give {wanted}{source}.{listed}".rstrip(".")
    return HarnessError(f"{where}{given}) has the wrong type or value", fix=fix)


def _readable(hint: object) -> str:
    """Return a type as one would write it, without modules."""
    text = hint.__name__ if isinstance(hint, type) and not isinstance(hint, types.GenericAlias) else str(hint)
    plain = re.sub(r"\b(?:[a-z_]\w*\.)+", "", text)
    return re.sub(r"^Optional\[(.*)\]$", r"\1 | None", plain)
