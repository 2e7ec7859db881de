"""Validation of the arguments of public functions: a wrong or misspelt one is a `HarnessError`, not a traceback."""

import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from functools import cache, reduce, wraps
from inspect import Parameter, Signature, signature
from operator import or_
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from msgspec import Struct, StructMeta

from longmemeval.errors import HarnessError, nearest

if TYPE_CHECKING:
    from pydantic import TypeAdapter

P = ParamSpec("P")
R = TypeVar("R")

_AT_LEAST_ONE = {"concurrency", "context_window", "jobs", "max_attempts", "max_tokens", "n", "repeats", "votes"}
"""Names of counts, in any record that has them."""
_MAX_QUOTED = 60
"""Number of characters of a wrong value to repeat."""
_VARIADIC = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


def checked(**forms: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator of public functions and methods that refuses missing, unknown and wrong arguments.

    Fields of option records are checked too. A path may be given as text.

    Args:
        forms: what to write instead, by name of an argument that an earlier version had, or whose type has changed.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        name = function.__qualname__.removesuffix(".__init__")

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            taken = _signature(function)
            try:
                bound = taken.bind(*args, **kwargs)
            except TypeError as error:
                raise _unbound(name, taken, len(args), kwargs, forms, error) from error
            hints = _hints(function)
            for argument, value in bound.arguments.items():
                if argument in hints:
                    bound.arguments[argument] = _checked_one(taken.parameters[argument], value, hints, name, forms)
            return function(*bound.args, **bound.kwargs)

        return call

    return decorate


_signature = cache(signature)
_hints = cache(typing.get_type_hints)


def _checked_one(
    parameter: Parameter, value: object, hints: Mapping[str, object], function: str, forms: Mapping[str, str]
) -> object:
    """Return the value of an argument, or the value that its text stands for; all values of a variadic one."""
    name, hint = parameter.name, hints[parameter.name]
    where = f"{function}({name}="
    try:
        if parameter.kind is Parameter.VAR_POSITIONAL:
            return tuple(_fitting(item, hint, where, name) for item in typing.cast("tuple[object, ...]", value))
        if parameter.kind is Parameter.VAR_KEYWORD:
            named = typing.cast("dict[str, object]", value)
            return {key: _fitting(item, hint, f"{function}({key}=", key) for key, item in named.items()}
        return _fitting(value, hint, where, name)
    except _WrongTypeError as error:
        fix = f"Write {forms[name]}" if name in forms else error.fix
        raise HarnessError(error.what, fix=fix) from error


def _unbound(
    function: str,
    accepted: Signature,
    count: int,
    named: Mapping[str, object],
    forms: Mapping[str, str],
    error: TypeError,
) -> HarnessError:
    """Return the error for arguments that do not fit a signature: one is unknown or missing, or there are too many."""
    valid = [
        name
        for name, parameter in accepted.parameters.items()
        if parameter.kind not in _VARIADIC and name not in ("self", "cls")
    ]
    for name in named:
        if name not in accepted.parameters:
            fix = f"Write {forms[name]}" if name in forms else nearest(name, valid)
            return HarnessError(f"{function}() has no argument '{name}'", fix=fix)
    # If several are missing, the first one.
    if missing := re.search(r"missing a required (?:keyword-only )?argument: '(\w+)'", str(error)):
        return HarnessError(f"{function}() needs the argument '{missing[1]}'", fix=f"It takes {', '.join(valid)}")
    return HarnessError(
        f"{function}() does not take {count} positional arguments", fix=f"Pass them by name: {', '.join(valid)}"
    )


class _WrongTypeError(HarnessError):
    """An argument has the wrong type or value."""


def _fitting(value: object, hint: object, where: str, name: str) -> object:
    """Return the value, or the value that its text stands for.

    Raises:
        HarnessError: it has another type, or is a count below 1.
    """
    from pydantic import ValidationError

    if name in _AT_LEAST_ONE and isinstance(value, int) and value < 1:
        raise HarnessError(f"{where}{value}) is too small", fix="Give 1 or more")
    kinds: tuple[Any, ...] = typing.get_args(hint) if _is_union(hint) else (hint,)
    if any(_is_a(value, kind) for kind in kinds):
        check_fields(value)
        return value
    others = [kind for kind in kinds if not _is_object(kind)]
    try:
        if not others:
            raise _refusal(value, hint, where)
        converted = _adapter(reduce(or_, others)).validate_python(value)
    except ValidationError as error:
        raise _refusal(value, hint, where) from error
    if isinstance(hint, type) and hasattr(hint, "model_fields") and not isinstance(value, hint):
        raise _refusal(value, hint, where)
    check_fields(converted)
    return converted


def _is_a(value: object, kind: object) -> bool:
    """Return whether a value is an instance of one of our classes, or has all members of a protocol."""
    if getattr(kind, "_is_protocol", False):
        return not isinstance(value, str) and all(hasattr(value, name) for name in vars(kind) if name[0] != "_")
    return isinstance(kind, type) and _is_object(kind) and isinstance(value, kind)


def _is_object(kind: object) -> bool:
    """Return whether values of a type are not converted: classes of this package, classes themselves, callables."""
    ours = isinstance(kind, type) and kind.__module__.partition(".")[0] == __name__.partition(".")[0]
    return kind is type or ours or bool(getattr(kind, "_is_protocol", False))


def _is_union(hint: object) -> bool:
    return typing.get_origin(hint) in (typing.Union, types.UnionType)


def check_fields(record: object) -> None:
    """Check the fields of an option record, which were set without validation."""
    if not hasattr(type(record), "__struct_fields__") and not hasattr(type(record), "model_fields"):
        return
    hints = typing.get_type_hints(type(record))
    fields: Iterable[str] = getattr(record, "__struct_fields__", getattr(type(record), "model_fields", ()))
    for field in fields:
        value, where = getattr(record, field), f"{type(record).__name__}({field}="
        converted = _fitting(value, hints[field], where, field)
        # Text in place of a number or a path would fail later.
        if isinstance(value, str) and not isinstance(converted, str):
            raise _refusal(value, hints[field], where)


@cache
def _adapter(hint: object) -> "TypeAdapter[object]":
    from pydantic import ConfigDict, PydanticUserError, TypeAdapter

    try:
        return TypeAdapter(typing.cast("type[object]", hint), config=ConfigDict(arbitrary_types_allowed=True))
    except PydanticUserError:
        # A model has a configuration of its own.
        return TypeAdapter(typing.cast("type[object]", hint))


def _refusal(value: object, hint: object, where: str) -> _WrongTypeError:
    shown = repr(value)
    shown = shown if len(shown) <= _MAX_QUOTED else f"{shown[:_MAX_QUOTED]}…"
    wanted = _readable(hint)
    listed = " Put it into a list" if isinstance(value, str) and wanted.startswith("Sequence") else ""
    fix = f"Give {wanted}.{listed}".rstrip(".")
    return _WrongTypeError(f"{where}{shown}) has the wrong type or value", fix=fix)


def _readable(hint: object) -> str:
    """Return a type as written in code, without modules."""
    text = hint.__name__ if isinstance(hint, type) and not isinstance(hint, types.GenericAlias) else str(hint)
    plain = re.sub(r"\b(?:[a-z_]\w*\.)+", "", text)
    return re.sub(r"^Optional\[(.*)\]$", r"\1 | None", plain)


class _OptionsMeta(StructMeta):
    """Metaclass of option records: a misspelt field is a `HarnessError`."""

    def __call__(cls: type[R], *args: object, **kwargs: object) -> R:
        try:
            record: R = StructMeta.__call__(cls, *args, **kwargs)
            return record
        except TypeError as error:
            fields = typing.cast("tuple[str, ...]", getattr(cls, "__struct_fields__", ()))
            unknown = next((name for name in kwargs if name not in fields), None)
            if unknown is None:
                raise HarnessError(f"{cls.__name__}: {error}", fix=f"It takes {', '.join(fields)}") from error
            raise HarnessError(f"{cls.__name__} has no field '{unknown}'", fix=nearest(unknown, fields)) from error


class Options(Struct, frozen=True, metaclass=_OptionsMeta):
    """Base class of the records of options that users fill in."""
