"""Reading hand-written text, JSON and YAML, in UTF-8, with or without a byte-order mark, not nested too deeply."""

from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from mmap import mmap
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec
from msgspec import Struct

from longmemeval.errors import HarnessError

if TYPE_CHECKING:
    import yaml

T = TypeVar("T")

YAML_ENDINGS = (".yaml", ".yml")
_TOO_DEEP = "it is nested too deeply"


class UnreadableError(ValueError):
    """Error for an invalid text; its message is the reason, in one line without a full stop.

    Args:
        line: the line of the fault, from 1; 0 if it is not known.
    """

    def __init__(self, reason: str, line: int = 0) -> None:
        super().__init__(reason)
        self.line = line

    def place(self, where: str | Path) -> str:
        """Return the place of the fault in the file `where`: the file, and the line if it is known."""
        return f"{where}, line {self.line}" if self.line else str(where)


def read_text(path: Path) -> str:
    """Return the text of a file.

    Raises:
        OSError: it cannot be read.
        UnreadableError: it is not UTF-8.
    """
    return decode_text(path.read_bytes())


@contextmanager
def reading(
    what: str, path: Path, wrong: str = "cannot be read", *, kind: type[HarnessError] = HarnessError, fix: str = ""
) -> Iterator[None]:
    """Turn a failure to read a file into an error that names the file.

    Args:
        what: name of the file in errors, such as "The template".
        path: the file.
        wrong: predicate for an invalid text, such as "is not YAML".
        kind: class of the error.
        fix: advice for an invalid text.

    Raises:
        HarnessError: the file cannot be read, or is invalid (`UnreadableError`).
    """
    try:
        yield
    except OSError as error:
        raise kind(f"{what} cannot be read: {error.strerror}", where=str(path)) from error
    except UnreadableError as error:
        raise kind(f"{what} {wrong}: {error}", where=error.place(path), fix=fix) from error


def decode_text(data: bytes) -> str:
    """Decode `data` as text, without the byte-order mark that some editors write.

    Raises:
        UnreadableError: it is not UTF-8.
    """
    try:
        return bytes(without_mark(data)).decode()
    except UnicodeDecodeError as error:
        raise UnreadableError(f"it is not UTF-8: {error.reason} at byte {error.start}") from error


def without_mark(data: bytes | mmap) -> memoryview:
    """Return `data` without the byte-order mark of UTF-8; nothing is copied.

    Raises:
        UnreadableError: the mark is that of UTF-16, or half of the first character is a zero.
    """
    view = memoryview(data)
    start = bytes(view[:3])
    if start.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) or b"\0" in start[:2]:
        raise UnreadableError("it is UTF-16: save it as UTF-8")
    return view[3:] if start == BOM_UTF8 else view


def decode_json(data: bytes | str, kind: type[T]) -> T:
    """Decode JSON.

    Args:
        data: the JSON, with or without a byte-order mark.
        kind: type that the value must have.

    Raises:
        UnreadableError: it is not JSON, has another type, or is nested too deeply.
    """
    try:
        text = data.removeprefix("\ufeff") if isinstance(data, str) else without_mark(data)
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnreadableError(str(error)) from error
    except RecursionError:
        raise UnreadableError(_TOO_DEEP) from None


class _Format(Struct):
    format: int = 1


def decode_format(data: bytes, kind: type[T], known: int, what: str, where: str) -> T:
    """Decode one of our own files, which states its `format`.

    Args:
        data: JSON of the file.
        kind: type that the value must have.
        known: the newest format that this version reads.
        what: name of the file in errors, such as "The run".
        where: the file.

    Raises:
        HarnessError: the format is newer.
        UnreadableError: see `decode_json`; or there is no such format.
    """
    number = decode_json(data, _Format).format
    if number > known:
        problem = f"{what} has format {number}, but this version only understands up to {known}"
        raise HarnessError(problem, where=where, fix="Upgrade longmemeval")
    if number < 1:
        raise UnreadableError(f"unknown format {number}")
    return decode_json(data, kind)


def load_yaml(text: str) -> object:
    """Parse YAML of at most 100 levels.

    The parser in C, ten times as fast, reads it where PyYAML has one. What it refuses, the one in Python refuses again:
    its messages say more.

    Raises:
        UnreadableError: it is not YAML, contains an impossible value (a 13th month), or is nested too deeply.
    """
    # Imported here, so that reading JSON does not load it.
    import yaml

    fast = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        if not (too_deep := _is_too_deep(text, fast)):
            return yaml.load(text, fast)
    except (yaml.YAMLError, ValueError):
        too_deep = False
    if too_deep:
        raise UnreadableError(_TOO_DEEP)
    try:
        return yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        raise _unreadable(error) from error
    except (yaml.YAMLError, ValueError) as error:
        raise UnreadableError(" ".join(str(error).split())) from error


def _unreadable(error: "yaml.MarkedYAMLError") -> UnreadableError:
    mark, begins = error.problem_mark or error.context_mark, error.context_mark
    context = f", {error.context}" if error.context else ""
    if begins and mark and begins.line != mark.line:
        context += f" that begins in line {begins.line + 1}"
    return UnreadableError(f"{error.problem or error}{context}", mark.line + 1 if mark else 0)


def _is_too_deep(text: str, loader: "type[yaml.SafeLoader | yaml.CSafeLoader]") -> bool:
    """Return whether lists and mappings have more than 100 levels: the parser in C crashes on many of them."""
    import yaml

    begins, ends = yaml.CollectionStartEvent, yaml.CollectionEndEvent
    steps = (isinstance(event, begins) - isinstance(event, ends) for event in yaml.parse(text, loader))
    return any(level > 100 for level in accumulate(steps))


# Lines of the values in a YAML file.

Location = Sequence[int | str]
"""Keys and indices that lead to a value."""


class YamlText:
    """A YAML file, to find the line of a value.

    Args:
        path: the file.
        text: its text; None: the file is read. Where it is no YAML, places have no line.
    """

    def __init__(self, path: Path, text: str | None = None) -> None:
        self.path = path
        self.root = _root_of(path, text)

    def place(self, *location: int | str) -> str:
        """Return file, line and field path of a value; for a missing one, the line of the value that should hold it."""
        at = f", line {self._lines(location)[-1]}" if self.root and location else ""
        return f"{self.path}{at}" + (f": {field_path(location)}" if location else "")

    def has(self, *location: int | str) -> bool:
        """Return whether the file has such a value."""
        return len(self._lines(location)) > len(location)

    def without_kinds(self, location: Location) -> Location:
        """Return a location without the names of types that pydantic adds where a value may be of several."""
        import yaml

        node, found = self.root, list[int | str]()
        for step in location:
            if isinstance(step, str) and node is not None and not isinstance(node, yaml.MappingNode):
                continue
            found.append(step)
            child = _child(node, step) if node else None
            node = child[1] if child else None
        return tuple(found)

    def _lines(self, location: Location) -> list[int]:
        """Return the line of the root and of each step to a value, as far as they exist."""
        node = self.root
        lines = [node.start_mark.line + 1] if node else []
        for step in location:
            child = _child(node, step) if node else None
            if child is None:
                break
            lines.append(child[0])
            node = child[1]
        return lines


def _root_of(path: Path, text: str | None) -> "yaml.Node | None":
    import yaml

    if path.suffix not in YAML_ENDINGS:
        return None
    try:
        return yaml.compose(read_text(path) if text is None else text, Loader=yaml.SafeLoader)
    except (OSError, ValueError, yaml.YAMLError):
        return None


def field_path(location: Location) -> str:
    """Return a field's path, such as `memories[0].grid.top_k`."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in location)
    return "".join(steps).removeprefix(".")


def _child(node: "yaml.Node", step: int | str) -> "tuple[int, yaml.Node] | None":
    """Return the line of a key or item and the value there; None if there is no such value."""
    import yaml

    if isinstance(node, yaml.MappingNode):
        return next(((key.start_mark.line + 1, value) for key, value in node.value if key.value == step), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        item: yaml.Node = node.value[step]
        return item.start_mark.line + 1, item
    return None
