"""Find, check and apply the edits that a model sends."""

import json
from typing import Any

import msgspec
from msgspec import Struct

from longmemeval.memory.working_memory.document import Document, Entry, iso_day, normalised, one_line, section_by_name
from longmemeval.records import Session

MAX_TEXT = 500
"""Maximum characters of the text of an edit."""

MAX_PASSAGE_LINES = 3
"""Maximum number of entries that a passage may touch."""


class Append(Struct, frozen=True, tag_field="op", tag="append"):
    """Add an entry at the end of a section."""

    section: str
    text: str


class Replace(Struct, frozen=True, tag_field="op", tag="replace"):
    """Replace a passage that occurs once by `text`."""

    passage: str
    text: str


class EditRefused(ValueError):
    """An edit cannot be applied; the message says why."""


def apply_edits(document: str, edits: list[Any], session: Session) -> tuple[str, tuple[str, ...]]:
    """Apply the `edits` that are valid, one after the other.

    Returns:
        The new document, and a note for each edit that was skipped: which one, its text and why.
    """
    draft, notes = Document(document), []
    for number, raw in enumerate(edits, start=1):
        try:
            _apply(draft, msgspec.convert(raw, Append | Replace), session)
        except (EditRefused, msgspec.ValidationError) as error:
            what, why = _excerpt(json.dumps(raw)), _excerpt(str(error))
            notes.append(f"{iso_day(session.date)}: edit {number} skipped: {why}; it was {what}")
    return draft.text, tuple(notes)


def _apply(draft: Document, edit: Append | Replace, session: Session) -> None:
    if isinstance(edit, Append):
        _append(draft, edit, session)
    else:
        _replace(draft, edit, session)


def _append(draft: Document, edit: Append, session: Session) -> None:
    text = _entry_text(edit.text)
    section = section_by_name(draft.headings, edit.section)
    if normalised(text) in {normalised(entry.text) for entry in draft.entries(section)}:
        raise EditRefused("the section already says this")
    draft.append(section, session.date, text)


def _replace(draft: Document, edit: Replace, session: Session) -> None:
    document, passage = draft.text, edit.passage.strip()
    start = _only_occurrence(passage, document)
    stop = start + len(passage)
    first = document.count("\n", 0, start)
    last = first + passage.count("\n")
    touched = _touched_entries(draft, first, last)
    if stop - _line_start(document, stop) <= touched[-1].marker_length:
        raise EditRefused("the passage is only the date of an entry")
    before = document[_line_start(document, start) : start][touched[0].marker_length :]
    after = document[stop:].split("\n", 1)[0]
    draft.replace(first, last, session.date, _entry_text(before + _entry_text(edit.text) + after))


def _only_occurrence(passage: str, document: str) -> int:
    start = document.find(passage)
    if not passage or start < 0:
        raise EditRefused("the passage does not occur in the document")
    if document.find(passage, start + 1) >= 0:
        raise EditRefused("the passage occurs more than once")
    return start


def _touched_entries(draft: Document, first: int, last: int) -> list[Entry]:
    if last - first >= MAX_PASSAGE_LINES:
        raise EditRefused(f"the passage touches more than {MAX_PASSAGE_LINES} lines")
    entries = [entry for line in range(first, last + 1) if (entry := draft.entry_at(line))]
    if len(entries) <= last - first:
        raise EditRefused("the passage is not part of an entry")
    return entries


def _line_start(document: str, offset: int) -> int:
    return document.rfind("\n", 0, offset) + 1


def _entry_text(text: str) -> str:
    flat = one_line(text)
    if not flat:
        raise EditRefused("the text is empty")
    if len(flat) > MAX_TEXT:
        raise EditRefused(f"the entry would have {len(flat)} characters, more than {MAX_TEXT}")
    return flat


def _excerpt(text: str, longest: int = 100) -> str:
    return text if len(text) <= longest else f"{text[:longest]}…"
