"""Convert the settings of a memory to fields of a form, and back."""

from collections.abc import Mapping, Sequence
from types import UnionType
from typing import Literal, Union, get_args, get_origin

from msgspec import Struct

from longmemeval.memory.configuration import (
    MEMORIES,
    MemoryConfiguration,
    chosen_parameters,
    definition_of,
    resolve_configuration,
)
from longmemeval.pipeline.inspect.recalling import why_not_again

PREFIX = "set."
"""The prefix of the names of settings in an address: `set.top_k=20`."""
_FIRST = ("top_k", "message_range", "last_messages", "budget")
"""The settings changed most often, in this order; the others follow in their own."""


class Field(Struct, frozen=True):
    """One setting that can be changed."""

    name: str
    value: str
    """The current value; empty if not set, such as no budget."""
    usual: str
    """The value if the address does not set it."""
    kind: Literal["integer", "number", "choice"]
    options: tuple[str, ...]
    """The options of a choice."""
    words: str


def memories_to_try() -> list[str]:
    """Return the memories that can recall here, by name."""
    return [name for name in MEMORIES.built_in if not why_not_again(resolve_configuration(name))]


def configuration_from(
    memory: str, given: Mapping[str, str], like: Sequence[MemoryConfiguration]
) -> tuple[MemoryConfiguration, MemoryConfiguration]:
    """Return the memory that an address describes, and the memory that it starts from.

    Args:
        memory: name of the memory.
        given: settings by name, as text; those that the memory does not have are ignored.
        like: memories of runs; the first of that name gives the values that are not set.

    Raises:
        HarnessError: there is no such memory, or a value is invalid.
    """
    start = next((used for used in like if used.preset == memory and not why_not_again(used)), None)
    start = start or resolve_configuration(memory)
    fields = definition_of(start).parameters.model_fields
    changed = [f"{name}={text}" for name, text in given.items() if name in fields and text]
    unset = [name for name, text in given.items() if name in fields and not text]
    own = chosen_parameters(start)
    unchanged = [f"{name}={_to_yaml(value)}" for name, value in own.items() if name not in unset]
    return resolve_configuration(memory, [*unchanged, *changed]), start


def fields_of(configuration: MemoryConfiguration, start: MemoryConfiguration) -> list[Field]:
    """Return the settings of a memory that are numbers or words to choose from.

    Args:
        configuration: the memory with the current values.
        start: the memory with the usual values.
    """
    fields = []
    for name, declared in definition_of(configuration).parameters.model_fields.items():
        kind, options = _kind(declared.annotation)
        if kind is not None:
            value, usual = configuration.parameters.get(name), start.parameters.get(name)
            words = (declared.description or "").partition("\n")[0]
            fields.append(Field(name, _text(value), _text(usual), kind, options, words))
    places = {name: place for place, name in enumerate(_FIRST)}
    return sorted(fields, key=lambda field: places.get(field.name, len(_FIRST)))


def _kind(annotation: object) -> tuple[Literal["integer", "number", "choice"] | None, tuple[str, ...]]:
    if get_origin(annotation) in (Union, UnionType):
        kinds = [argument for argument in get_args(annotation) if argument is not type(None)]
        return _kind(kinds[0]) if len(kinds) == 1 and get_origin(kinds[0]) is not Literal else (None, ())
    if annotation is int:
        return "integer", ()
    if annotation is float:
        return "number", ()
    if get_origin(annotation) is Literal and all(isinstance(argument, str) for argument in get_args(annotation)):
        return "choice", get_args(annotation)
    return None, ()


def _text(value: object) -> str:
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _to_yaml(value: object) -> str:
    return "null" if value is None else str(list(value)) if isinstance(value, list | tuple) else str(value)
