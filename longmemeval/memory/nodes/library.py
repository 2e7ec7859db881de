"""Sets of nodes: the shipped ones, or a folder of the user's."""

from collections.abc import Iterable
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from pydantic import ValidationError

from longmemeval.core.files import sha256_text
from longmemeval.core.text_files import UnreadableError, YamlText, decode_text, load_yaml
from longmemeval.errors import HarnessError, nearest
from longmemeval.memory.nodes.schema import FieldType, Filters, NodeRule, NodeType

SHIPPED = ("nodes", "statements")
"""The names of the shipped sets, and of their parts: the four nodes of `typed-nodes`, and statements."""

_ENDINGS = (".yaml", ".yml")
_MOST_NODES = 32


class NodeSet(Struct, frozen=True):
    """The nodes of a memory, in the order of their names."""

    nodes: tuple[NodeType, ...]
    hashes: tuple[tuple[str, str], ...]
    """The name of each node with the hash of its resolved file."""

    @property
    def key(self) -> str:
        """A short identifier of the set: 8 hexadecimal digits."""
        return sha256_text(msgspec.json.encode(self.hashes).decode())[:8]

    def node(self, name: str) -> NodeType:
        """Return a node by its name."""
        return next(node for node in self.nodes if node.name == name)


@lru_cache
def shipped_nodes(name: str = "nodes") -> NodeSet:
    """Return a shipped set: temporal events, attributes, processes of a life and relationships, or `statements`."""
    folder = resources.files("longmemeval.memory.nodes") / "shipped" / name
    files = [file for file in folder.iterdir() if file.name.endswith(_ENDINGS)]
    return _node_set((file.name, file.read_bytes()) for file in files)


def load_nodes(folder: str | None, shipped: str = "nodes") -> NodeSet:
    """Return the nodes of a folder, one YAML file each; None: the shipped set of that name.

    A file with `extends: NAME` inherits every key that it does not set from the shipped node of that name; without any
    other key it is that node.

    Raises:
        HarnessError: no such folder, no YAML in it, two nodes of one name, or an invalid file.
    """
    if folder is None:
        return shipped_nodes(shipped)
    path = Path(folder).expanduser()
    try:
        files = sorted(file for file in path.iterdir() if file.suffix in _ENDINGS and not file.name.startswith("."))
        contents = [(str(file), file.read_bytes()) for file in files]
    except OSError as error:
        raise HarnessError(
            f"The folder of nodes cannot be read: {error.strerror}",
            where=str(error.filename or path),
            fix="Write --set nodes=FOLDER with a folder that holds one YAML file per node",
        ) from error
    return _node_set(contents, where=str(path))


def _node_set(files: Iterable[tuple[str, bytes]], where: str = "") -> NodeSet:
    nodes: dict[str, tuple[str, NodeType]] = {}
    for name, data in sorted(files):
        node = parsed_node(data, name)
        if node.name in nodes:
            raise HarnessError(f"Two files define the node '{node.name}'", where=f"{nodes[node.name][0]}, {name}")
        nodes[node.name] = (name, node)
    if not 0 < len(nodes) <= _MOST_NODES:
        raise HarnessError(
            f"The folder holds {len(nodes) or 'no'} nodes",
            where=where,
            fix=f"Put 1 to {_MOST_NODES} YAML files there, one per node",
        )
    ordered = tuple(node for _, (_, node) in sorted(nodes.items()))
    return NodeSet(ordered, tuple((node.name, _hash(node)) for node in ordered))


def _hash(node: NodeType) -> str:
    return sha256_text(msgspec.json.encode(node.model_dump(mode="json"), order="deterministic").decode())


def parsed_node(data: bytes, where: str) -> NodeType:
    """Return the node that a YAML file describes.

    Args:
        data: the bytes of the file.
        where: the file, for errors.

    Raises:
        HarnessError: not YAML, an unknown or missing key, or keys that do not fit together.
    """
    try:
        text = decode_text(data)
        document = load_yaml(text)
    except UnreadableError as error:
        raise HarnessError(f"The node is not YAML: {error}", where=error.place(where)) from error
    if not isinstance(document, dict):
        raise HarnessError("A node is a mapping of keys to values", where=where, fix="Begin it with `name: …`")
    lines = YamlText(Path(where), text)
    document = _extended({str(key): value for key, value in document.items()}, lines)
    try:
        return NodeType.model_validate(document)
    except ValidationError as error:
        raise _refused(error, lines) from error


def _extended(document: dict[str, Any], lines: YamlText) -> dict[str, Any]:
    parent = document.pop("extends", None)
    if parent is None:
        return document
    known = {node.name: node for name in SHIPPED for node in shipped_nodes(name).nodes}
    if parent not in known:
        raise HarnessError(
            f"Unknown shipped node '{parent}'", where=lines.place("extends"), fix=nearest(str(parent), known)
        )
    return {**known[parent].model_dump(mode="json"), **document}


_KEYS = {
    (): tuple(NodeType.model_fields),
    ("fields", "*"): tuple(FieldType.model_fields),
    ("rules", "*"): tuple(NodeRule.model_fields),
    ("filters",): tuple(Filters.model_fields),
}


def _refused(error: ValidationError, lines: YamlText) -> HarnessError:
    """Return an error for the first problem: the file, the key, and the nearest name if a name is wrong."""
    # Report a misspelled key before the key that is missing because of it.
    problems = error.errors()
    problem = next((problem for problem in problems if problem["type"] == "extra_forbidden"), problems[0])
    place = [str(part) for part in problem["loc"]]
    at = lines.place(*problem["loc"])
    if problem["type"] == "extra_forbidden":
        above = tuple(place[:-1])
        keys = _KEYS.get(above) or _KEYS.get((*above[:-1], "*"), ())
        return HarnessError(f"Unknown key '{place[-1]}'", where=at, fix=nearest(place[-1], keys))
    if problem["type"] == "missing":
        return HarnessError(f"The key '{place[-1]}' is missing", where=at, fix="Add it")
    if problem["type"] == "literal_error":
        valid = str(problem.get("ctx", {}).get("expected", "")).split("'")[1::2]
        what = f"This key does not accept the value {problem['input']!r}"
        return HarnessError(what, where=at, fix=nearest(str(problem["input"]), valid))
    message = problem["msg"].removeprefix("Value error, ")
    what, separator, fix = message.partition(". ")
    return HarnessError(what, where=at, fix=fix if separator else "")
