"""Options, declared once as fields of a class, for the command line, sweep files and Python.

`limit: Annotated[int | None, Flag(WHAT, "N")] = None` is an option `--limit N` in the panel "What" of `--help`. The
text below the field is its help, up to the first empty line; the rest of the text is for Python alone.
"""

import ast
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from functools import cache
from typing import Annotated, Any, cast, get_args, get_origin, get_type_hints

from msgspec import NODEFAULT, Struct

TOP = "."
"""The place of settings of a run that are in no group (`Recorded`)."""
WHAT, MODEL, LIMITS, OUTPUT, ADVANCED = "What", "Model", "Limits", "Output", "Advanced"
"""The panels of `--help`, in the order in which they are shown."""


class Flag(Struct, frozen=True):
    """The form in which the command line shows a field of a class or a parameter of a verb."""

    panel: str = ADVANCED
    metavar: str | None = None
    help: str = ""
    """Description of its effect; empty: the text below the field."""
    name: str = ""
    """Long and short names, such as `--dataset -d`; empty: the field's name."""
    minimum: float | None = None
    """Smallest valid value, whichever way it is given."""
    maximum: float | None = None
    read: Any = None
    """Type of the value as typed, if it differs from that of the field."""
    made: Callable[[Any], object] | None = None
    """Converts a typed value to the value of the field; an absent value stays absent."""
    shown: bool = True
    """True if the help shows the default."""
    hidden: bool = False
    argument: bool = False
    """True if it is positional, without a name."""


class Recorded(Struct, frozen=True):
    """The form in which the settings of a run record a field; without it: in the class's own place, if not default."""

    place: str | None = ""
    """The group of settings, such as `model`, or `TOP`; empty: the class's own; None: not recorded."""
    always: bool = False
    """True if the default is recorded too."""
    words: str = ""
    """Plain words for it where runs are compared; empty: the field's name."""


class Group(Struct, frozen=True):
    """Mark of a field or parameter whose own fields are options: all of them, or those named."""

    only: tuple[str, ...] = ()


class Option(Struct, frozen=True):
    """One option of a class."""

    field: str
    type: Any
    """Type of the field."""
    default: Any
    flag: Flag
    help: str

    @property
    def names(self) -> list[str]:
        """Names on the command line, the long name first."""
        return self.flag.name.split() or [f"--{self.field.replace('_', '-')}"]

    @property
    def key(self) -> str:
        """The long name as an identifier."""
        return self.names[0].removeprefix("--").replace("-", "_")

    @property
    def yaml_name(self) -> str:
        """The name in a file: that of the field, without the unit."""
        return self.field.removesuffix("_s")

    @property
    def is_inverted(self) -> bool:
        """True if giving it switches something off."""
        return self.default is True

    @property
    def is_list(self) -> bool:
        """True if it can be given several times."""
        return get_origin(self.type) is tuple

    def value(self, typed: object) -> object:
        """Return the value of the field for a typed value."""
        if self.is_inverted:
            return not typed
        if self.is_list:
            return tuple(cast("Iterable[object]", typed or ()))
        return self.flag.made(typed) if self.flag.made and typed is not None else typed

    def words(self, value: object) -> list[str]:
        """Return the command-line arguments that set this value; none if it is the default."""
        if value == self.default:
            return []
        if isinstance(value, bool):
            return [self.names[0]]
        values = cast("Iterable[object]", value) if self.is_list else [value]
        return [word for item in values for word in (self.names[0], str(item))]


def is_settings(hint: object) -> bool:
    """Return whether a type is a class whose fields may be options."""
    return isinstance(hint, type) and (issubclass(hint, Struct) or hasattr(hint, "model_fields") or is_dataclass(hint))


def options_of(group: type, only: Collection[str] = ()) -> list[Option]:
    """Return the options of a class of settings, without those of its groups.

    Args:
        group: a msgspec Struct, a dataclass or a pydantic model.
        only: the fields to return; empty: all fields that are options.
    """
    return [option for option in _options(group) if not only or option.field in only]


@cache
def _options(group: type) -> list[Option]:
    defaults, texts = _defaults(group), _texts(group)
    options = []
    for field, (hint, marks) in _annotations(group).items():
        flag = next((mark for mark in marks if isinstance(mark, Flag)), None)
        if flag:
            description = flag.help or " ".join(texts.get(field, "").partition("\n\n")[0].split())
            options.append(Option(field, hint, defaults.get(field, NODEFAULT), flag, description))
    return options


def groups_of(group: type) -> Iterator[tuple[str, type, tuple[str, ...]]]:
    """Yield field, class and chosen options of the groups in a class of settings."""
    for field, (hint, marks) in _annotations(group).items():
        for mark in marks:
            if isinstance(mark, Group):
                yield field, hint, mark.only


def words_of(settings: object, only: Collection[str] = ()) -> list[str]:
    """Return the command-line arguments for these settings, defaults omitted."""
    group: type = type(settings)
    return words_for(group, {option.field: getattr(settings, option.field) for option in _options(group)}, only)


def words_for(group: type, values: Mapping[str, Any], only: Collection[str] = ()) -> list[str]:
    """Return the command-line arguments that set these fields of a class, defaults omitted."""
    chosen = [option for option in options_of(group, only) if option.field in values]
    return [word for option in chosen for word in option.words(values[option.field])]


def recorded(options: object, place: str) -> dict[str, dict[str, Any]]:
    """Return what the settings of a run record of options: the values by field, for each place (see `Recorded`).

    Args:
        options: an instance of a class of settings.
        place: the class's own place.
    """
    group, found = type(options), {place: dict[str, Any]()}
    defaults = _defaults(group)
    for field, mark in records_of(group).items():
        value = getattr(options, field)
        if mark.place is not None and (mark.always or value != defaults.get(field, NODEFAULT)):
            found.setdefault(mark.place or place, {})[field] = value
    return found


def from_record(group: type, settings: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Return the values of a class of settings that the settings of a run hold, by field: `recorded` in reverse."""
    found = dict[str, Any]()
    for field, mark in records_of(group).items():
        values = (settings if mark.place == TOP else settings.get(mark.place or place)) or {}
        if mark.place is not None and values.get(field) not in (None, ""):
            found[field] = values[field]
    return found


def words_of_records(group: type, place: str) -> dict[str, str]:
    """Return the plain words of the options of a class that have some, by dotted name in the settings of a run."""
    marks = {field: mark for field, mark in records_of(group).items() if mark.words}
    return {
        field if mark.place == TOP else f"{mark.place or place}.{field}": mark.words for field, mark in marks.items()
    }


def records_of(group: type) -> dict[str, Recorded]:
    """Return how each option of a class is recorded."""
    return {
        field: next((mark for mark in marks if isinstance(mark, Recorded)), Recorded())
        for field, (_, marks) in _annotations(group).items()
    }


@cache
def _annotations(group: type) -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """Return the type and the marks of each field that has marks."""
    hints = get_type_hints(group, include_extras=True)
    return {
        field: (get_args(hint)[0], get_args(hint)[1:]) for field, hint in hints.items() if get_origin(hint) is Annotated
    }


def _defaults(group: type) -> dict[str, Any]:
    """Return the defaults of a class; fields without a default are absent."""
    if issubclass(group, Struct):
        names = group.__struct_fields__
        values = group.__struct_defaults__
        return dict(zip(names[len(names) - len(values) :], values, strict=True))
    fields: Mapping[str, Any] = vars(group)["__dataclass_fields__" if is_dataclass(group) else "__pydantic_fields__"]
    return {name: field.default for name, field in fields.items()}


def _texts(group: type) -> dict[str, str]:
    """Return the texts below the fields of a class and of its base classes."""
    texts: dict[str, str] = {}
    for base in reversed(group.__mro__):
        texts |= _texts_of_module(base.__module__).get(base.__name__, {})
    return texts


@cache
def _texts_of_module(name: str) -> dict[str, dict[str, str]]:
    """Return the texts below the fields of the classes in one of our modules."""
    module = sys.modules.get(name)
    read = getattr(getattr(module, "__loader__", None), "get_source", None)
    if not name.startswith("longmemeval.") or read is None:
        return {}
    tree = ast.parse(read(name) or "")
    return {node.name: dict(_described(node)) for node in tree.body if isinstance(node, ast.ClassDef)}


def _described(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for field, text in zip(node.body, node.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
        ):
            yield field.target.id, str(text.value.value)
