"""ConvoMem: questions in six categories about up to 300 conversations, published as a folder of large files."""

import hashlib
import unicodedata
from collections.abc import Iterator
from functools import cached_property, lru_cache
from os.path import abspath, isdir
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from longmemeval.benchmarks.convomem.format import (
    CATEGORIES,
    Case,
    Item,
    Listing,
    Origin,
    digest,
    list_files,
    origin_of,
    read_cases,
)
from longmemeval.benchmarks.data_files import problem_of_id, unknown_id
from longmemeval.core.files import sha256_file
from longmemeval.core.text.quantities import stand_in_date
from longmemeval.errors import DataError
from longmemeval.records import Gold, Haystack, Question, Session

_OPEN_FILES = 8
"""Number of files that stay mapped and split: the folder has more files than a process may hold open."""


class _Entry(NamedTuple):
    """The data about a haystack that is held in memory."""

    path: Path
    origin: Origin
    number: int
    """Number of the haystack in its file, from 0."""
    sessions: int
    questions: tuple[str, ...]


class ConvoMemDataset:
    """A `Dataset` over one file of ConvoMem, or over a folder of them.

    A test case is a haystack with many questions; each item of an evidence file has its own haystack. The id of a
    haystack is `<category>-<n>e-<file stem>-<index>`, that of a question `<haystack id>/q<index>`, with indexes from 0.
    Category and evidence count come from the folders `<category>/<n>_evidence/`, at any depth; without the second, a
    question's count is the number of its evidence messages.

    **The data has no dates.** Conversation i of a haystack gets the stand-in day 2000-01-01 + i days, at midnight; the
    question is asked on the day after the last. Only their order is meaningful.

    Opening splits every file once and stores the questions; conversations are decoded and validated on demand, one
    haystack at a time.

    Args:
        path: a file or a folder.
        name: the catalogue name; empty: the stem of the file, or the folder's name.

    Raises:
        DataError: a file cannot be read, is invalid, or is in no category; or there is no question.
    """

    benchmark = "convomem"

    def __init__(self, path: Path, name: str = "") -> None:
        self.path = path
        # Not `path.is_dir()`, which raises an error for a name that is too long.
        is_folder = isdir(path)
        self.name = name or (Path(abspath(path)).name if is_folder else path.stem)
        self._listing = list_files(path) if is_folder else Listing(((path, origin_of(path)),), ())
        self._cases = lru_cache(maxsize=_OPEN_FILES)(read_cases)
        self._entries: dict[str, _Entry] = {}
        for file, origin in self._listing.files:
            self._add(file, origin)
        if not len(self):
            raise DataError("The dataset has no question: every list of evidence items is empty", where=str(path))

    def _add(self, path: Path, origin: Origin) -> None:
        """Register the haystacks of one file."""
        for index, case in enumerate(self._cases(path)):
            haystack_id = f"{origin.prefix}-{index}"
            if problem := problem_of_id(haystack_id):
                what = f"The haystack id made from the file's name {problem}"
                raise DataError(what, where=str(path), fix="Rename the file: ids become file names")
            if earlier := self._entries.get(haystack_id):
                what = f"The same haystack id, {haystack_id!r}, comes from {earlier.path}"
                raise DataError(what, where=str(path), fix="Load one of the two files, or rename it")
            questions = tuple(item.question for _, item in case.items)
            self._entries[haystack_id] = _Entry(path, origin, index, len(case.conversations), questions)

    @property
    def files(self) -> tuple[Path, ...]:
        """The files, in the order of their paths."""
        return tuple(path for path, _ in self._listing.files)

    @property
    def passed_over(self) -> tuple[Path, ...]:
        """JSON files of the folder that are not read because they are in no category."""
        return self._listing.passed_over

    @cached_property
    def sha256(self) -> str:
        """Hash of a file's bytes, or of the relative names and hashes of a folder's files; 64 hexadecimal digits."""
        if not self.path.is_dir():
            return sha256_file(self.path)
        lines = (f"{sha256_file(file)}  {file.relative_to(self.path).as_posix()}\n" for file in self.files)
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    @cached_property
    def content_sha256(self) -> str:
        """Hash of every haystack, question and gold as canonical JSON, one a line; validates all files."""
        digest = hashlib.sha256()
        for haystack in self.haystacks():
            digest.update(msgspec.json.encode(haystack) + b"\n")
            for question in self._questions(haystack.haystack_id):
                digest.update(msgspec.json.encode((question, self.gold(question.question_id))) + b"\n")
        return digest.hexdigest()

    def __len__(self) -> int:
        return sum(len(entry.questions) for entry in self._entries.values())

    def questions(self) -> Iterator[Question]:
        """Yield all questions in the order of the files."""
        for haystack_id in self._entries:
            yield from self._questions(haystack_id)

    def haystacks(self) -> Iterator[Haystack]:
        """Yield all haystacks in the order of the files, one in memory at a time; `DataError` at an invalid one."""
        for haystack_id in self._entries:
            yield self.haystack(haystack_id)

    def haystack(self, haystack_id: str) -> Haystack:
        """Return one haystack, sessions in file order, each on its stand-in day."""
        if haystack_id not in self._entries:
            raise unknown_id(self.path, "haystack", haystack_id, self._entries)
        case = self._case(self._entries[haystack_id])
        for where, item in case.items:
            _own_sessions(case, where, item)  # As `gold` would, so that `prepare` refuses what grading does.
        sessions = (
            Session(session_id, *stand_in_date(index), turns)
            for index, (session_id, turns) in enumerate(zip(case.session_ids, case.sessions(), strict=True))
        )
        return Haystack(haystack_id, tuple(sessions))

    def question_type(self, question_id: str) -> str:
        """Return one of the types in `CATEGORIES`."""
        return CATEGORIES[self._find(question_id)[0].origin.category]

    def gold(self, question_id: str) -> Gold:
        """Return the gold of `question_id`: the right answer, or the rubric that grades it, and the evidence."""
        entry, index = self._find(question_id)
        case = self._case(entry)
        _, item = case.items[index]
        evidence = find_evidence(case, index)
        texts = tuple(message.text for message in item.message_evidences)
        return Gold(
            question_id=question_id,
            question_type=CATEGORIES[entry.origin.category],
            answer=item.answer,
            evidence_sessions=tuple(case.session_ids[session] for session in evidence.sessions),
            evidence_turns=tuple(f"{case.session_ids[session]}:{turn}" for session, turn in evidence.turns),
            abstention=entry.origin.category == "abstention_evidence",
            evidence_texts=texts,
            facets={"evidence": entry.origin.evidence or len(texts), "context size": case.context_size},
        )

    def cases(self) -> Iterator[Case]:
        """Yield all haystacks as in the files."""
        for entry in self._entries.values():
            yield self._case(entry)

    def _questions(self, haystack_id: str) -> Iterator[Question]:
        entry = self._entries[haystack_id]
        date = stand_in_date(entry.sessions)
        for index, text in enumerate(entry.questions):
            yield Question(f"{haystack_id}/q{index}", text, *date, haystack_id)

    def _case(self, entry: _Entry) -> Case:
        return self._cases(entry.path)[entry.number]

    def _find(self, question_id: str) -> tuple[_Entry, int]:
        """Return the haystack of a question, and the question's index there."""
        haystack_id = question_id.rpartition("/")[0]
        if haystack_id not in self._entries:
            raise unknown_id(self.path, "question", question_id, (f"{known}/q0" for known in self._entries))
        ids = [question.question_id for question in self._questions(haystack_id)]
        if question_id not in ids:
            raise unknown_id(self.path, "question", question_id, ids)
        return self._entries[haystack_id], ids.index(question_id)


_PLAIN = str.maketrans("\u2018\u2019\u201c\u201d\u2013\u2014", "''\"\"--")
"""Curly quotation marks and long dashes, which NFKC leaves."""


class Evidence(NamedTuple):
    """The evidence of one question."""

    sessions: tuple[int, ...]
    """Indexes in the haystack of the question's own conversations."""
    turns: tuple[tuple[int, int], ...]
    """Indexes of the conversation and of the turn in it, for every turn that contains an evidence text."""
    exact: int
    """Number of evidence texts that a turn contains word for word."""
    normalised: int
    """Number of evidence texts that a turn contains except for white space, Unicode forms, quotes and dashes."""


def find_evidence(case: Case, number: int) -> Evidence:
    """Find the evidence of item `number`, counted from 0, in its haystack.

    Every conversation of an item contains some of its evidence. The other conversations of a test case, including the
    evidence of its other items, are the haystack around it. A text that no turn contains, such as one spread over
    several turns, is in neither count.

    Raises:
        DataError: a conversation is invalid, or belongs to the item but is not in the haystack.
    """
    where, item = case.items[number]
    sessions = _own_sessions(case, where, item)
    texts = [(index, place, turn.content) for index in sessions for place, turn in enumerate(case.session(index))]
    plain = [(index, place, _normalised(words)) for index, place, words in texts]
    turns: set[tuple[int, int]] = set()
    exact = normalised = 0
    for message in item.message_evidences:
        if hits := _saying(message.text, texts):
            exact += 1
        elif hits := _saying(_normalised(message.text), plain):
            normalised += 1
        turns |= hits
    return Evidence(sessions, tuple(sorted(turns)), exact, normalised)


def _saying(text: str, texts: list[tuple[int, int, str]]) -> set[tuple[int, int]]:
    return {(index, place) for index, place, words in texts if words == text}


def _normalised(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).translate(_PLAIN).split())


def _own_sessions(case: Case, where: str, item: Item) -> tuple[int, ...]:
    """Return the indexes of the item's conversations: by id if it is unique, else by content."""
    if not case.shared:
        return tuple(range(len(case.conversations)))
    found: set[int] = set()
    for number, raw in enumerate(item.conversations):
        field = f"{where}.conversations[{number}]"
        own = case.id_of(field, raw)
        same = [index for index, other in enumerate(case.conversation_ids) if own is not None and other == own]
        if len(same) != 1:
            content = digest(case.turns_of(field, raw))
            same = [index for index, other in enumerate(case.digests) if other == content]
        if not same:
            label = f" {own!r}" if own else ""
            what = f"The conversation{label} of the item is not among those of its test case"
            raise case.place.fault(field, what, "Its id, or what is said in it, must be that of one of `conversations`")
        found.update(same)
    return tuple(sorted(found))


class ConvoMemQuirks(Struct):
    """Counts of each oddity in a dataset of ConvoMem's format."""

    files: int = 0
    json_files_in_no_category: int = 0
    """Files of the folder that are not read."""
    haystacks_of_evidence_alone: int = 0
    """Items of evidence files, whose haystack has no other conversations."""
    haystacks_of_another_size: int = 0
    """Test cases with more or fewer conversations than their context size says."""
    conversations_without_id_of_their_own: int = 0
    """Conversations without an id, or with the id of another one of the same haystack; they are numbered."""
    evidence_texts: int = 0
    evidence_texts_found_after_normalising: int = 0
    """Texts that match a turn except for white space, Unicode forms, quotation marks and dashes."""
    unmatched_evidence_texts: int = 0
    """Texts that no turn of the item's conversations contains: `evidence_turns` lacks them."""
    questions_without_evidence_turn: int = 0
    repeated_questions: int = 0
    """Questions with the text and the answer of an earlier one of the same haystack."""


def convomem_quirks(dataset: ConvoMemDataset) -> ConvoMemQuirks:
    """Count the oddities, a haystack at a time; raises `DataError` at the first invalid one."""
    quirks = ConvoMemQuirks(files=len(dataset.files), json_files_in_no_category=len(dataset.passed_over))
    for case in dataset.cases():
        _count_haystack(quirks, case)
        for number in range(len(case.items)):
            _count_evidence(quirks, case, number)
    return quirks


def _count_haystack(quirks: ConvoMemQuirks, case: Case) -> None:
    quirks.haystacks_of_evidence_alone += not case.shared
    quirks.haystacks_of_another_size += case.context_size != len(case.conversations)
    named = zip(case.session_ids, case.conversation_ids, strict=True)
    quirks.conversations_without_id_of_their_own += sum(session_id != own for session_id, own in named)
    questions = [(item.question, item.answer) for _, item in case.items]
    quirks.repeated_questions += len(questions) - len(set(questions))


def _count_evidence(quirks: ConvoMemQuirks, case: Case, number: int) -> None:
    evidence = find_evidence(case, number)
    texts = len(case.items[number][1].message_evidences)
    quirks.evidence_texts += texts
    quirks.evidence_texts_found_after_normalising += evidence.normalised
    quirks.unmatched_evidence_texts += texts - evidence.exact - evidence.normalised
    quirks.questions_without_evidence_turn += not evidence.turns
