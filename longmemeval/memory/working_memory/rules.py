"""The offline updater: rules read the user's own statements. No model, no cost, deterministic."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import Any

from msgspec import Struct

from longmemeval.core.files import sha256_text
from longmemeval.memory.working_memory.document import (
    Document,
    Entry,
    WorkingMemoryUpdate,
    WorkingMemoryUpdater,
    iso_day,
    normalised,
    one_line,
    section_by_keywords,
    starting_document,
)
from longmemeval.memory.working_memory.statements import (
    MAX_MESSAGE,
    RULES,
    Rule,
    clause,
    is_claimed,
    is_role_play,
    shortened,
    statements,
)
from longmemeval.records import Session

VERSION = 2
"""Increase with every change of what is read or written; the table of rules is hashed as well."""


def rules_updater(template: str | None = None) -> WorkingMemoryUpdater:
    """Return the updater that needs no model. It reads only the turns of the user, sentence by sentence.

    Args:
        template: the initial document; None for the shipped one. An entry goes to the section whose heading has a word
            of its kind ("Home", "Where I live", …), else to the last section.

    Raises:
        HarnessError: the template is empty or has no `## ` section.
    """
    return _RulesUpdater(starting_document(template))


@dataclass(frozen=True)
class _RulesUpdater:
    template: str

    @property
    def recipe(self) -> dict[str, Any]:
        table = "\n".join(f"{rule.keywords} {rule.pattern} {rule.keep} {rule.topic}" for rule in RULES)
        return {
            "updater": "rules",
            "version": VERSION,
            "template_sha256": sha256_text(self.template),
            "rules_sha256": sha256_text(table),
        }

    def update(self, document: str, *sessions: Session) -> WorkingMemoryUpdate:
        if not sessions:
            return WorkingMemoryUpdate(document)
        draft = _Draft(document or self.template)
        notes = [note for session in sessions for note in draft.read(session)]
        return WorkingMemoryUpdate(draft.document.text, notes=tuple(notes))


class _Statement(Struct, frozen=True):
    text: str
    value: str


class _Draft:
    """A document to which sessions are being added. Adding a statement never scans the whole document."""

    def __init__(self, document: str) -> None:
        self.document = Document(document)
        self._sections = {rule.keywords: section_by_keywords(self.document.headings, rule.keywords) for rule in RULES}
        self._topics: dict[int, list[Rule]] = defaultdict(list)
        for rule in RULES:
            if rule.topic:
                self._topics[self._sections[rule.keywords]].append(rule)
        self._date, self._day = date.min, ""
        self._until: dict[str, str] = {}
        """The end day by normalised text; empty while the statement holds. A repeated text overwrites it."""
        self._last: dict[str, dict[int, Entry]] = defaultdict(dict)
        """The last of several equal entries, by normalised text and block."""
        self._touched: set[str] = set()
        """Normalised texts that were added or closed in this session."""
        self._held: dict[str, dict[str, list[Entry]]] = defaultdict(lambda: defaultdict(list))
        """The entries that hold, by topic and value; may include some closed since for another topic."""
        self._closed: set[tuple[int, int]] = set()
        """Block and line of the entries that were closed."""
        for section in range(len(self.document.headings)):
            for entry in self.document.entries(section):
                self._hold(section, entry)
        for entry in self.document.entries():
            self._note(entry)

    def read(self, session: Session) -> Iterator[str]:
        """Add the user's statements in `session`; yield notes on messages that were not read."""
        self._begin(session.date)
        for turn in session.turns:
            if turn.role != "user":
                continue
            if is_role_play(turn.content):
                break
            if len(turn.content) > MAX_MESSAGE:
                yield (
                    f"{self._day}: a message of {len(turn.content)} characters was taken for pasted text "
                    f"and not read into working memory (limit {MAX_MESSAGE})"
                )
                continue
            if turn.speaker:
                self._take(f"My name is {turn.speaker}")
            for sentence in statements(turn.content):
                self._take(sentence)

    def _begin(self, day: date) -> None:
        # After each session, document order decides among equal entries, as if the document were read again.
        for text in self._touched:
            self._until[text] = self._last[text][max(self._last[text])].until
        self._touched.clear()
        self._date, self._day = day, iso_day(day)

    def _take(self, sentence: str) -> None:
        """Add an entry for each kind of statement in `sentence`, at most one for each kind of section."""
        served = set[tuple[str, ...]]()
        for rule in RULES:
            if rule.keywords in served or (statement := _read(rule, sentence)) is None:
                continue
            served.add(rule.keywords)
            if not self._is_known(statement.text):
                self._add(rule, statement)

    def _is_known(self, text: str) -> bool:
        until = self._until.get(normalised(text))
        return until is not None and (until == "" or until >= self._day)

    def _add(self, rule: Rule, statement: _Statement) -> None:
        section = self._sections[rule.keywords]
        if rule.topic:
            self._close_older(rule.topic, statement)
        entry = self.document.append(section, self._date, statement.text)
        self._note(entry)
        self._hold(section, entry)

    def _close_older(self, topic: str, newer: _Statement) -> None:
        held = self._held[topic]
        for value in [value for value in held if not _same(value, newer.value)]:
            for entry in held.pop(value):
                if (entry.block, entry.line) not in self._closed:
                    self._closed.add((entry.block, entry.line))
                    self._note(self.document.close(entry, self._date))

    def _note(self, entry: Entry) -> None:
        text, last = normalised(entry.text), self._last
        self._until[text] = entry.until
        self._touched.add(text)
        if entry.block not in last[text] or last[text][entry.block].line <= entry.line:
            last[text][entry.block] = entry

    def _hold(self, section: int, entry: Entry) -> None:
        for rule in () if entry.until else self._topics[section]:
            statement = _read(rule, entry.text)
            if statement is not None and statement.text == entry.text:
                self._held[rule.topic][statement.value.casefold()].append(entry)


def _read(rule: Rule, sentence: str) -> _Statement | None:
    found = rule.find(sentence)
    if found is None or not is_claimed(sentence, found.start):
        return None
    cut = clause if rule.keep == "clause" else shortened
    return _Statement(one_line(cut(sentence, found.start, found.end)), found.value)


def _same(value: str, other: str) -> bool:
    """Tell whether one value repeats the other, more or less exactly ("Boston", "Boston Massachusetts")."""
    return value.casefold() in other.casefold() or other.casefold() in value.casefold()
