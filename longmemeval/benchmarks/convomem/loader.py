"""ConvoMem: questions in six categories about up to 300 conversations, published as a folder of large files."""

import hashlib
from collections.abc import Iterator
from functools import cached_property, lru_cache
from os.path import abspath, isdir
from pathlib import Path
from typing import NamedTuple

import msgspec

from longmemeval.benchmarks.convomem.evidence import find_evidence
from longmemeval.benchmarks.convomem.format import Case, read_cases
from longmemeval.benchmarks.convomem.layout import CATEGORIES, Listing, Origin, list_files, origin_of
from longmemeval.benchmarks.faults import problem_of_id, unknown_id
from longmemeval.core.files import sha256_file
from longmemeval.core.text.calendar_names import stand_in_date
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
            raise DataError("The data set has no question: every list of evidence items is empty", where=str(path))

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
