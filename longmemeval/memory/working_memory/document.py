"""The working-memory document: markdown with `## ` sections that hold dated entries, one line each."""

import difflib
import json
import re
from collections.abc import Sequence
from datetime import date
from importlib import resources
from pathlib import Path
from typing import Any, Protocol

import msgspec
from msgspec import Struct, structs

from longmemeval.errors import HarnessError
from longmemeval.records import Haystack, Session, Usage

_HEADING = re.compile(r"##\s+(?P<name>\S.*)")
_SECTION_END = re.compile(r"##?\s+\S")
_ENTRY = re.compile(r"(?P<marker>- \[(?P<day>\d{4}-\d\d-\d\d)(?:, until (?P<until>\d{4}-\d\d-\d\d))?\] )(?P<text>.*)")
_BREAKS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_LINE_MARKERS = re.compile(r"(?:(?:[-*+>]|#+)(?:\s+|$)|\[\d{4}-\d\d-\d\d[^\]]{0,40}\]\s*)+")
_LONGEST_NAME = 200
_WORDS = re.compile(r"\w+")


class Entry(Struct, frozen=True):
    """One entry line; the days are ISO dates, and `until` is empty while the entry holds."""

    block: int
    """Number of its block in the document; block 0 is everything before the first heading."""
    line: int
    """Index of the line in the block. Block and line do not change while entries are only added or closed."""
    day: str
    until: str
    text: str
    marker_length: int
    """Characters before the text: bullet and dates."""


class Document:
    """A working-memory document that is being edited. Edits add or change entry lines and no other line.

    Adding or closing an entry takes a time that does not depend on the length of the document.

    Args:
        text: markdown with at least one `## ` heading.
    """

    def __init__(self, text: str) -> None:
        # A block is a heading with the lines up to the next heading; no edit adds or removes a heading.
        self._blocks: list[list[str]] = [[]]
        for line in text.split("\n"):
            if _SECTION_END.match(line):
                self._blocks.append([])
            self._blocks[-1].append(line)
        self._sections: list[int] = []
        self.headings: list[str] = []
        """Names of the sections in order."""
        for number, block in enumerate(self._blocks[1:], start=1):
            if match := _HEADING.match(block[0]):
                self._sections.append(number)
                self.headings.append(match["name"].strip())

    @property
    def text(self) -> str:
        """The current markdown."""
        return "\n".join(line for block in self._blocks for line in block)

    def entries(self, section: int | None = None) -> list[Entry]:
        """Return the entries of section number `section` (from 0), or of the whole document, in order."""
        blocks = range(len(self._blocks)) if section is None else [self._sections[section]]
        places = ((block, line) for block in blocks for line in range(len(self._blocks[block])))
        return [entry for block, line in places if (entry := self._entry(block, line))]

    def entry_at(self, line: int) -> Entry | None:
        """Return the entry on line number `line` (from 0) of the document; None if that line is not an entry."""
        return self._entry(*self._place(line))

    def append(self, section: int, day: date, text: str) -> Entry:
        """Add an entry at the end of section number `section` (from 0)."""
        number = self._sections[section]
        block = self._blocks[number]
        end = len(block)
        while end > 1 and not block[end - 1].strip():
            end -= 1
        # An empty line separates a list from a paragraph or a heading before it.
        gap = [] if _ENTRY.fullmatch(block[end - 1]) else [""]
        marker = _marker(iso_day(day))
        block[end:end] = [*gap, marker + text]
        return Entry(number, end + len(gap), iso_day(day), "", text, len(marker))

    def close(self, entry: Entry, day: date) -> Entry:
        """Mark `entry` as true until `day`, keeping its text."""
        marker = _marker(f"{entry.day}, until {iso_day(day)}")
        self._blocks[entry.block][entry.line] = marker + entry.text
        return structs.replace(entry, until=iso_day(day), marker_length=len(marker))

    def replace(self, first: int, last: int, day: date, text: str) -> None:
        """Replace the lines `first` to `last` of the document, all of them entries, by one new entry."""
        block, line = self._place(first)
        self._blocks[block][line : line + last - first + 1] = [_marker(iso_day(day)) + text]

    def _entry(self, block: int, line: int) -> Entry | None:
        match = _ENTRY.fullmatch(self._blocks[block][line])
        if match is None:
            return None
        return Entry(block, line, match["day"], match["until"] or "", match["text"], len(match["marker"]))

    def _place(self, line: int) -> tuple[int, int]:
        """Return the block, and the line in the block, of line number `line` of the document."""
        for number, block in enumerate(self._blocks):
            if line < len(block):
                return number, line
            line -= len(block)
        raise IndexError("the document has no such line")


def iso_day(day: date) -> str:
    """Return `day`, or the day of a `datetime`, as entries show it: `2023-05-20`."""
    return f"{day:%Y-%m-%d}"


def _marker(days: str) -> str:
    return f"- [{days}] "


def one_line(text: str) -> str:
    """Return `text` as the text of an entry: one line, without bullet, heading or date in front."""
    flat = " ".join(_BREAKS.sub(" ", text).split())
    markers = _LINE_MARKERS.match(flat)
    return flat[markers.end() :] if markers else flat


def normalised(text: str) -> str:
    """Return the words of `text` in lower case: the same for entries that use the same words."""
    return " ".join(_WORDS.findall(text.casefold())) or text


def section_by_keywords(headings: Sequence[str], keywords: Sequence[str]) -> int:
    """Return the index of the first heading with a word that begins with a keyword (in their order), else the last."""
    for keyword in keywords:
        for index, heading in enumerate(headings):
            if any(word.startswith(keyword) for word in normalised(heading).split()):
                return index
    return len(headings) - 1


def section_by_name(headings: Sequence[str], name: str) -> int:
    """Return the index of the heading called `name`, else of the most similar one, else the last."""
    folded = [normalised(heading) for heading in headings]
    close = difflib.get_close_matches(normalised(name[:_LONGEST_NAME]), folded, n=1, cutoff=0.5)
    return folded.index(close[0]) if close else len(folded) - 1


def load_template(path: Path | None) -> str:
    """Return the template in the file `path`, or the shipped one for None; lines end in a line feed.

    Raises:
        HarnessError: the file cannot be read, is not UTF-8, is empty or has no `## ` section.
    """
    if path is None:
        return resources.files(__package__).joinpath("template.md").read_text(encoding="utf-8")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise HarnessError(
            f"The working-memory template cannot be read: {error.strerror}",
            where=str(path),
            fix="Give the path of a markdown file",
        ) from error
    except UnicodeDecodeError as error:
        raise HarnessError(
            f"The working-memory template is not UTF-8: {error.reason} at byte {error.start}",
            where=str(path),
            fix="Save it as UTF-8",
        ) from error
    return _checked_template(text, where=str(path))


def starting_document(template: str | None) -> str:
    """Return the document before the first session: `template` with normalised line ends, or the shipped one for None.

    Raises:
        HarnessError: `template` is empty or has no `## ` section.
    """
    return load_template(None) if template is None else _checked_template(template.replace("\r\n", "\n"))


def _checked_template(text: str, *, where: str = "") -> str:
    if not text.strip():
        raise HarnessError(
            "The working-memory template is empty", where=where, fix="Write at least one `## Section` heading into it"
        )
    if not Document(text).headings:
        raise HarnessError(
            "The working-memory template has no section",
            where=where,
            fix="Begin each section with a `## Section` heading; entries are added below them",
        )
    return text


# Find, check and apply the edits that a model sends.

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


# Build the working-memory document of a haystack.


class WorkingMemoryUpdate(Struct, frozen=True):
    """A document after an update, the cost of the update, and notes on what could not be done."""

    document: str
    usage: Usage = Usage()
    notes: tuple[str, ...] = ()


class WorkingMemoryUpdater(Protocol):
    """Adds what sessions say about the user to a document."""

    @property
    def recipe(self) -> dict[str, Any]:
        """Everything that can change the document: name, version, hashes of template and prompts, model, parameters."""
        ...

    def update(self, document: str, *sessions: Session) -> WorkingMemoryUpdate:
        """Add `sessions` to `document` one after the other, with the same result as in several calls.

        Args:
            document: markdown as returned by an earlier update; empty to begin with the updater's template.
            sessions: oldest first, and no older than those already in the document.

        Returns:
            The document (empty for no document and no sessions), the sum of all usage, and all notes in order.

        Raises:
            ModelError: a model call failed permanently.
            FatalModelError: no model call can succeed.
        """
        ...


def build_working_memory(haystack: Haystack, updater: WorkingMemoryUpdater) -> WorkingMemoryUpdate:
    """Add all sessions of `haystack` to one document, oldest first."""
    return updater.update("", *sorted(haystack.sessions, key=lambda session: session.date))
