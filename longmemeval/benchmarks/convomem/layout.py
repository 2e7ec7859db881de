"""Paths of ConvoMem's files: the folders state what the files do not, the category and the evidence count.

The layout is that of the published data set, `<category>/<n>_evidence/<file>.json`. The field `category` inside an item
is the theme of its scenario, such as "Professional Life", and does not matter for grading.
"""

import os
import re
from pathlib import Path
from typing import NamedTuple

from longmemeval.errors import DataError, nearest

CATEGORIES = {
    "user_evidence": "user-facts",
    "assistant_facts_evidence": "assistant-facts",
    "changing_evidence": "changing-facts",
    "abstention_evidence": "abstention",
    "preference_evidence": "preferences",
    "implicit_connection_evidence": "implicit-connections",
}
"""Question type by name of the folder."""

_LAYOUT = "Lay the files out as <category>/<n>_evidence/*.json"
_EVIDENCE_FOLDER = re.compile(r"([1-9]\d{0,3})_evidence", re.ASCII)


class Origin(NamedTuple):
    """Facts about a file that the names of its folders state."""

    category: str
    """Folder of the category."""
    evidence: int | None
    """Number of evidence messages per question; None if no folder states it."""
    prefix: str
    """Prefix of the ids of the file's haystacks: `<category>-<n>e-<folders below and file stem>`."""


class Listing(NamedTuple):
    """The JSON files below a folder, in the order of their paths."""

    files: tuple[tuple[Path, Origin], ...]
    passed_over: tuple[Path, ...]
    """Files that are in no category."""


def origin_of(path: Path) -> Origin:
    """Return the facts in the folder names of `path`.

    Raises:
        DataError: no folder is a category.
    """
    origin = _origin(path)
    if origin is None:
        raise _without_category(path)
    return origin


def list_files(folder: Path) -> Listing:
    """Return the files of ConvoMem below `folder`, except hidden ones.

    Raises:
        DataError: there is no file, or one is in a folder `<n>_evidence` of no known category.
    """
    files, passed_over = [], []
    for path in sorted(folder.rglob("*.json")):
        if any(part.startswith(".") for part in path.relative_to(folder).parts):
            continue
        if origin := _origin(path):
            files.append((path, origin))
        elif any(map(_EVIDENCE_FOLDER.fullmatch, _folders(path))):
            raise _without_category(path)
        else:
            passed_over.append(path)
    if not files:
        what = "The folder holds no file of ConvoMem"
        raise DataError(what, where=str(folder), fix=f"{_LAYOUT}. {nearest('', CATEGORIES)}")
    return Listing(tuple(files), tuple(passed_over))


def claims_folder(folder: Path) -> bool:
    """Return whether a JSON file is below the folder in the layout of ConvoMem."""
    below = (_folders(path) for path in folder.rglob("*.json"))
    return any(name in CATEGORIES or _EVIDENCE_FOLDER.fullmatch(name) for names in below for name in names)


def _folders(path: Path) -> tuple[str, ...]:
    # Links are not resolved: the files of a download cache are links to files with other names.
    return Path(os.path.abspath(path)).parent.parts


def _origin(path: Path) -> Origin | None:
    folders = _folders(path)
    levels = [level for level, name in enumerate(folders) if name in CATEGORIES]
    if not levels:
        return None
    category, below = folders[levels[-1]], folders[levels[-1] + 1 :]
    counts = [int(match[1]) for name in below if (match := _EVIDENCE_FOLDER.fullmatch(name))]
    rest = [name for name in below if not _EVIDENCE_FOLDER.fullmatch(name)]
    named = [category, *(f"{count}e" for count in counts[:1]), *rest, path.name.removesuffix(".json")]
    return Origin(category, counts[0] if counts else None, "-".join(named))


def _without_category(path: Path) -> DataError:
    """Return the error for a path without a category.

    It suggests a name for the folder above `<n>_evidence`, else for the innermost folder, as the likeliest category.
    """
    meant = next((name for name in reversed(_folders(path)) if not _EVIDENCE_FOLDER.fullmatch(name)), "")
    what = "No folder of the path names the category of the file's questions"
    return DataError(what, where=str(path), fix=f"{_LAYOUT}. {nearest(meant, CATEGORIES)}")
