"""Mapping files: which tools of an MCP server add and search, with what arguments, and where the hits are in a result.

Standard library only: it is read by longmemeval, which refuses a faulty file before anything begins, and by the class
in the environment of the product.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

_HIT = dict.fromkeys(("text", "message_ids", "session_ids", "ref", "score", "date", "speaker", "kind"), str)
_TOOL: dict[str, Any] = {"tool": str, "arguments": dict, "ok": str, "error": str, "empty": dict}
KEYS: dict[str, Any] = {
    "packages": list,
    "server": {"command": list, "url": str, "environment": dict},
    "capabilities": {
        "dates": str,
        "provenance": str,
        "unit": str,
        "signals": list,
        "telemetry": str,
        "max_parallel": int,
        "persist": str,
    },
    "add": {**_TOOL, "ref": str},
    "search": {**_TOOL, "items": str, "hit": _HIT},
    "ready": {**_TOOL, "path": str, "equals": object},
    "list": {**_TOOL, "items": str, "hit": _HIT, "page": int},
    "reset": _TOOL,
}
"""Keys of a mapping file, and what each holds."""
_ENDPOINTS = ("chat_base_url", "chat_model", "embedding_base_url", "embedding_model", "embedding_dimension")
_EVERYWHERE = ("folder", "bin", *_ENDPOINTS)
_ADDED = ("session", "date", "day", "text", "message", "messages", "role", "speaker", "content")
PLACEHOLDERS = {
    "server": _EVERYWHERE,
    "add": (*_EVERYWHERE, *_ADDED),
    "search": (*_EVERYWHERE, "query", "limit", "asked"),
    "ready": _EVERYWHERE,
    "list": (*_EVERYWHERE, "page", "offset"),
    "reset": _EVERYWHERE,
}
"""What may stand in braces, by table."""
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_CHOICES = {
    "dates": ("native", "text", "none"),
    "provenance": ("message", "session", "none"),
    "unit": ("turn", "pair", "session"),
    "telemetry": ("off", "on", "unknown"),
    "persist": ("directory", "none"),
}


class MappingError(ValueError):
    """A mapping file is not what it should be; names the key and the nearest valid one."""


def read_mapping(file: Path) -> dict[str, Any]:
    """The mapping of a file.

    Raises:
        MappingError: it cannot be read, or a key, a value or a placeholder is wrong or missing.
    """
    try:
        mapping = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise MappingError(f"{file.name} cannot be read: {error}") from error
    try:
        _check_keys(mapping, KEYS, "")
        _check_needed(mapping)
        for table, names in PLACEHOLDERS.items():
            _check_placeholders(mapping.get(table, {}), names, table)
    except MappingError as error:
        raise MappingError(f"{file.name}: {error}") from None
    return mapping


def checked(file: Path) -> None:
    """Refuse a faulty file.

    Raises:
        MappingError: as `read_mapping`.
    """
    read_mapping(file)


def _check_keys(given: Mapping[str, Any], keys: Mapping[str, Any], table: str) -> None:
    for key, value in given.items():
        name = f"{table}.{key}" if table else key
        if key not in keys:
            raise MappingError(f"there is no key '{name}'. {did_you_mean(key, keys)}")
        kind = keys[key]
        if isinstance(kind, dict):
            if not isinstance(value, dict):
                raise MappingError(f"'{name}' is a table")
            _check_keys(value, kind, name)
        elif not isinstance(value, kind):
            raise MappingError(f"'{name}' is a {kind.__name__}, not {value!r}")
        elif key in _CHOICES and value not in _CHOICES[key]:
            raise MappingError(f"'{name}' cannot be '{value}'. {did_you_mean(value, _CHOICES[key])}")


def _check_needed(mapping: Mapping[str, Any]) -> None:
    server = mapping.get("server", {})
    if ("command" in server) == ("url" in server):
        raise MappingError("'server.command' or 'server.url' is needed, one of them")
    for table in ("add", "search", *({"ready", "list", "reset"} & mapping.keys())):
        if "tool" not in mapping.get(table, {}):
            raise MappingError(f"'{table}.tool' is needed")
    if "text" not in mapping["search"].get("hit", {}):
        raise MappingError("'search.hit.text' is needed: where the text of a hit is")


def _check_placeholders(value: object, names: Iterable[str], table: str) -> None:
    if isinstance(value, str):
        for name in _PLACEHOLDER.findall(value):
            if name not in names:
                raise MappingError(f"'{table}' has no placeholder '{{{name}}}'. {did_you_mean(name, names)}")
    elif isinstance(value, dict):
        for one in value.values():
            _check_placeholders(one, names, table)
    elif isinstance(value, list):
        for one in value:
            _check_placeholders(one, names, table)


def filled(template: object, values: Mapping[str, object]) -> object:
    """The template with values for its placeholders; one that is all of a text keeps the type of its value."""
    if isinstance(template, str):
        if whole := _PLACEHOLDER.fullmatch(template):
            return values[whole[1]]
        return _PLACEHOLDER.sub(lambda found: str(values[found[1]]), template)
    if isinstance(template, dict):
        return {key: filled(value, values) for key, value in template.items()}
    return [filled(one, values) for one in template] if isinstance(template, list) else template


def at(result: object, path: str, where: str) -> object:
    """What stands at a path such as `results.0.text`; the empty path is the whole.

    Raises:
        MappingError: it leads nowhere.
    """
    for step in path.split(".") if path else ():
        if isinstance(result, Mapping) and step in result:
            result = result[step]
        elif isinstance(result, list) and step.isdecimal() and int(step) < len(result):
            result = result[int(step)]
        else:
            there = list(map(str, result)) if isinstance(result, Mapping) else []
            raise MappingError(f"'{where}' is '{path}', but the result has no '{step}'. {did_you_mean(step, there)}")
    return result


def did_you_mean(name: object, valid: Iterable[str]) -> str:
    """Which valid name was probably meant."""
    names = sorted(valid)
    close = get_close_matches(str(name), names, n=1, cutoff=0.5)
    return f"{f'Did you mean {close[0]!r}? ' if close else ''}Valid: {', '.join(names) or 'none'}"
