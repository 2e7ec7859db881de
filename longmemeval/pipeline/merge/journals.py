"""Merge the journals of several runs in the order of the questions; lines stay as they were, byte for byte."""

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec
from msgspec import Struct

from longmemeval.core.files import sha256_bytes, write_atomic


class _Line(Struct):
    """The id that a line is about."""

    question_id: str = ""
    haystack_id: str = ""


def merge_lines(files: Sequence[Path], merged: Path, order: Mapping[str, int], *, others: bool = True) -> str:
    """Write the lines of several journals; those of one question stay in the order in which they were written.

    Only offsets are in memory, not lines: prompts may be larger than all else together.

    Args:
        files: journals; missing ones have no lines.
        merged: the file to write.
        order: the position of each question id, or of each haystack id if lines have no question.
        others: True to keep lines about ids without a position, at the end.

    Returns:
        The sha256 of the merged file; empty if none of `files` exists.
    """
    existing = [path for path in files if path.exists()]
    if not existing:
        return ""
    digest = hashlib.sha256()
    decoder = msgspec.json.Decoder(_Line)
    with ExitStack() as stack:
        handles = [stack.enter_context(path.open("rb")) for path in existing]
        places = []
        for number, handle in enumerate(handles):
            start = 0
            for line in handle:
                if line.endswith(b"\n"):
                    about = decoder.decode(line)
                    key = about.question_id or about.haystack_id
                    if others or key in order:
                        places.append((order.get(key, len(order)), number, start, len(line)))
                start += len(line)
        merged.parent.mkdir(parents=True, exist_ok=True)
        written = stack.enter_context(merged.open("wb"))
        for _, number, start, length in sorted(places):
            handles[number].seek(start)
            line = handles[number].read(length)
            digest.update(line)
            written.write(line)
    return digest.hexdigest()


def merge_accounts(files: Sequence[Path], merged: Path) -> str:
    """Concatenate accounts: the sum of all is what they say was spent in total.

    Each account begins with a session, so whatever the one before left unfinished counts as spent.

    Returns:
        As for `merge_lines`.
    """
    contents = [path.read_bytes() for path in files if path.exists()]
    if not contents:
        return ""
    data = b"".join(content if content.endswith(b"\n") else content + b"\n" for content in contents)
    write_atomic(merged, data)
    return sha256_bytes(data)
