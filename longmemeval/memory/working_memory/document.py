"""The working-memory document: markdown with `## ` sections that hold dated entries, one line each."""

import difflib
import re
from collections.abc import Sequence
from datetime import date
from importlib import resources
from pathlib import Path

from msgspec import Struct, structs

from longmemeval.errors import HarnessError

_HEADING = re.compile(r"##\s+(?P<name>\S.*)")
_SECTION_END = re.compile(r"##?\s+\S")
_ENTRY = re.compile(r"(?P<marker>- \[(?P<day>\d{4}-\d\d-\d\d)(?:, until (?P<until>\d{4}-\d\d-\d\d))?\] )(?P<text>.*)")
_BREAKS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_LINE_MARKERS = re.compile(r"(?:(?:[-*+>]|#+)(?:\s+|$)|\[\d{4}-\d\d-\d\d[^\]]{0,40}\]\s*)+")
_LONGEST_NAME = 200
_WORDS = re.compile(r"\w+")


class Entry(Struct, frozen=True):
    """One entry line; the days are ISO dates, `until` is empty while the entry holds."""

    block: int
    """Number of the document's block it stands in: 0 is what comes before the first heading."""
    line: int
    """Index of the line in the block. Neither changes while entries are only added or closed."""
    day: str
    until: str
    text: str
    marker_length: int
    """Characters before the text: bullet and dates."""


class Document:
    """A working-memory document that is being edited. Edits add or change entry lines and no other line.

    Adding and closing an entry take a time that does not depend on the length of the document.

    Args:
        text: markdown with at least one `## ` heading.
    """

    def __init__(self, text: str) -> None:
        # A block is a heading with the lines up to the next; no edit makes or removes a heading.
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
        """The markdown as it is."""
        return "\n".join(line for block in self._blocks for line in block)

    def entries(self, section: int | None = None) -> list[Entry]:
        """The entries of section number `section` (from 0), or of the whole document, in order."""
        blocks = range(len(self._blocks)) if section is None else [self._sections[section]]
        places = ((block, line) for block in blocks for line in range(len(self._blocks[block])))
        return [entry for block, line in places if (entry := self._entry(block, line))]

    def entry_at(self, line: int) -> Entry | None:
        """The entry on line number `line` (from 0) of the document; None when something else stands there."""
        return self._entry(*self._place(line))

    def append(self, section: int, day: date, text: str) -> Entry:
        """Add an entry at the end of section number `section` (from 0)."""
        number = self._sections[section]
        block = self._blocks[number]
        end = len(block)
        while end > 1 and not block[end - 1].strip():
            end -= 1
        # A list that follows a paragraph or a heading is set off by an empty line.
        gap = [] if _ENTRY.fullmatch(block[end - 1]) else [""]
        marker = _marker(iso_day(day))
        block[end:end] = [*gap, marker + text]
        return Entry(number, end + len(gap), iso_day(day), "", text, len(marker))

    def close(self, entry: Entry, day: date) -> Entry:
        """Mark `entry` as true until `day`; its text stays."""
        marker = _marker(f"{entry.day}, until {iso_day(day)}")
        self._blocks[entry.block][entry.line] = marker + entry.text
        return structs.replace(entry, until=iso_day(day), marker_length=len(marker))

    def replace(self, first: int, last: int, day: date, text: str) -> None:
        """Put one new entry in the place of the lines `first` to `last` of the document, all of them entries."""
        block, line = self._place(first)
        self._blocks[block][line : line + last - first + 1] = [_marker(iso_day(day)) + text]

    def _entry(self, block: int, line: int) -> Entry | None:
        match = _ENTRY.fullmatch(self._blocks[block][line])
        if match is None:
            return None
        return Entry(block, line, match["day"], match["until"] or "", match["text"], len(match["marker"]))

    def _place(self, line: int) -> tuple[int, int]:
        """Block, and line in the block, of line number `line` of the document."""
        for number, block in enumerate(self._blocks):
            if line < len(block):
                return number, line
            line -= len(block)
        raise IndexError("the document has no such line")


def iso_day(day: date) -> str:
    """`day`, or the day of a `datetime`, as entries show it: `2023-05-20`."""
    return f"{day:%Y-%m-%d}"


def _marker(days: str) -> str:
    return f"- [{days}] "


def one_line(text: str) -> str:
    """`text` as the text of an entry: one line, without bullet, heading or date in front."""
    flat = " ".join(_BREAKS.sub(" ", text).split())
    markers = _LINE_MARKERS.match(flat)
    return flat[markers.end() :] if markers else flat


def normalised(text: str) -> str:
    """`text` reduced to its words in lower case: equal for entries that say the same in the same words."""
    return " ".join(_WORDS.findall(text.casefold())) or text


def section_by_keywords(headings: Sequence[str], keywords: Sequence[str]) -> int:
    """Index of the first heading with a word that begins with a keyword, earlier keywords first; else the last."""
    for keyword in keywords:
        for index, heading in enumerate(headings):
            if any(word.startswith(keyword) for word in normalised(heading).split()):
                return index
    return len(headings) - 1


def section_by_name(headings: Sequence[str], name: str) -> int:
    """Index of the heading called `name`, else of the one spelt most alike, else the last."""
    folded = [normalised(heading) for heading in headings]
    close = difflib.get_close_matches(normalised(name[:_LONGEST_NAME]), folded, n=1, cutoff=0.5)
    return folded.index(close[0]) if close else len(folded) - 1


def load_template(path: Path | None) -> str:
    """The template in the file `path`, or the shipped one for None; lines end in a line feed.

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
    """The document before the first session: `template` with line feeds as line ends, or the shipped one for None.

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
