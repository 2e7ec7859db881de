"""Texts for others, such as reports and exports: without the absolute paths of the user's machine."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar, cast

T = TypeVar("T")

_ROOTS = re.compile(
    "Users|Volumes|data|etc|home|media|mnt|opt|private|root|scratch|srv|storage|tmp|usr|var|work|workspace|[A-Za-z]:"
)
"""Folders at the top of other machines; on this one it is looked up whether a folder exists."""
_NAME = r"[^\s\"'`<>|;:,()\[\]{}/\\]"
_PATH = re.compile(
    r"(?<=['\"`])(?:/(?=[^/])|[A-Za-z]:[\\/])[^'\"`\n]+(?=['\"`])"
    rf"|(?:(?<![\w./~\\])|(?<=file://))/{_NAME}+(?:/{_NAME}*)+"
    rf"|(?<!\w)[A-Za-z]:[\\/](?!/)(?:{_NAME}+[\\/])*{_NAME}*"
)
"""Pattern of absolute paths; one that stands in quotation marks may have blanks."""
_SEPARATOR = re.compile(r"[\\/]")


def without_places(text: str) -> str:
    """Return a text of the harness without absolute paths.

    A path below the working folder, or the home folder, becomes relative to it; of any other the last name is left.
    Addresses stay.
    """
    for folder in (Path.cwd(), Path.home()):
        if len(folder.parts) > 1:
            text = re.sub(rf"(?<![\w./~-]){re.escape(str(folder))}/(?=[^\s/])", "", text)
    return _PATH.sub(_last_name, text)


def document_without_places(value: T, *, kept: frozenset[str] = frozenset(("templates",))) -> T:
    """Return JSON values without absolute paths.

    Args:
        value: the document.
        kept: keys whose values are texts of the user's own, which stay as they are.
    """

    def shown(entry: object) -> object:
        if isinstance(entry, str):
            return without_places(entry)
        if isinstance(entry, Mapping):
            return {key: one if key in kept else shown(one) for key, one in entry.items()}
        return [shown(one) for one in entry] if isinstance(entry, (list, tuple)) else entry

    return cast(T, shown(value))


def _last_name(match: re.Match[str]) -> str:
    names = [name for name in _SEPARATOR.split(match[0]) if name]
    is_one = len(names) > 1 and (_ROOTS.fullmatch(names[0]) or Path("/", names[0]).is_dir())
    return names[-1] if is_one else match[0]
