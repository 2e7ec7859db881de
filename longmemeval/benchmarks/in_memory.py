"""A data set that is small enough to be held whole: what a benchmark of one's own needs besides its records."""

import hashlib
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from longmemeval.benchmarks.faults import problem_of_id
from longmemeval.core.files import sha256_file
from longmemeval.core.text_files import UnreadableError, decode_json
from longmemeval.errors import DataError, nearest
from longmemeval.records import Gold, Haystack, Question


def read_records(path: Path) -> list[dict[str, Any]]:
    """The records of a JSON file that is an array of objects.

    Raises:
        DataError: it cannot be read, or is something else.
    """
    try:
        return decode_json(path.read_bytes(), list[dict[str, Any]])
    except OSError as error:
        raise DataError(f"The data set file cannot be read: {error.strerror}", where=str(path)) from error
    except UnreadableError as error:
        raise DataError(f"The data set file is not a JSON array of records: {error}", where=str(path)) from error


class InMemoryDataset:
    """A `Dataset` over records that somebody has made of one file.

    Args:
        benchmark: the name that the benchmark is registered under.
        path: the file.
        name: the catalogue name; empty: the stem of the file.
        haystacks: the histories, each with its sessions in time order.
        questions: each with its gold; evidence turns are message ids, `session_id:index` with the index from 0.

    Raises:
        DataError: there is no question, an id comes twice or could not be a file's name, or a question is about a
            haystack, or its gold about sessions and turns, that are not there.
    """

    def __init__(
        self,
        benchmark: str,
        path: Path,
        name: str,
        haystacks: Iterable[Haystack],
        questions: Iterable[tuple[Question, Gold]],
    ) -> None:
        self.benchmark, self.path, self.name = benchmark, path, name or path.stem
        self._haystacks: dict[str, Haystack] = {}
        self._asked: dict[str, tuple[Question, Gold]] = {}
        for haystack in haystacks:
            self._check_id("haystack", haystack.haystack_id, self._haystacks)
            self._haystacks[haystack.haystack_id] = haystack
        for question, gold in questions:
            self._check_id("question", question.question_id, self._asked)
            self._check_gold(question, gold)
            self._asked[question.question_id] = question, gold
        if not self._asked:
            raise DataError("The data set has no question", where=str(path))

    @property
    def files(self) -> tuple[Path, ...]:
        """The one file."""
        return (self.path,)

    @cached_property
    def sha256(self) -> str:
        """Hash of the file's bytes, 64 hexadecimal digits."""
        return sha256_file(self.path)

    @cached_property
    def content_sha256(self) -> str:
        """Hash of every haystack, question and gold as canonical JSON, one a line."""
        lines = map(msgspec.json.encode, chain(self._haystacks.values(), self._asked.values()))
        return hashlib.sha256(b"".join(line + b"\n" for line in lines)).hexdigest()

    def __len__(self) -> int:
        return len(self._asked)

    def questions(self) -> Iterator[Question]:
        """All questions in the order given."""
        return (question for question, _ in self._asked.values())

    def haystacks(self) -> Iterator[Haystack]:
        """All haystacks in the order given."""
        return iter(self._haystacks.values())

    def haystack(self, haystack_id: str) -> Haystack:
        """One haystack; raises `DataError` when there is none of that id."""
        self._check_known("haystack", haystack_id, self._haystacks)
        return self._haystacks[haystack_id]

    def question_type(self, question_id: str) -> str:
        """The type of one question; raises `DataError` when there is none of that id."""
        return self.gold(question_id).question_type

    def gold(self, question_id: str) -> Gold:
        """The right answer to one question; raises `DataError` when there is none of that id."""
        self._check_known("question", question_id, self._asked)
        return self._asked[question_id][1]

    def _check_id(self, kind: str, identifier: str, known: Iterable[str]) -> None:
        problem = problem_of_id(identifier) or ("comes twice" if identifier in known else "")
        # A question may be named after its haystack, `haystack/q1`: no file has its name.
        if problem and not (kind == "question" and problem == "holds a path separator"):
            raise self._fault(f"The {kind} id {identifier!r} {problem}", "Make the ids unique, short and plain")

    def _check_known(self, kind: str, identifier: str, known: Iterable[str]) -> None:
        if identifier not in known:
            raise self._fault(f"There is no {kind} {identifier!r}", nearest(identifier, known))

    def _check_gold(self, question: Question, gold: Gold) -> None:
        sessions = {session.session_id: len(session.turns) for session in self.haystack(question.haystack_id).sessions}
        for session_id in gold.evidence_sessions:
            self._check_known("session", session_id, sessions)
        turns = {f"{name}:{index}" for name, length in sessions.items() for index in range(length)}
        for turn in gold.evidence_turns:
            self._check_known("turn", turn, turns)
        if gold.question_id != question.question_id:
            raise self._fault(f"The gold of question {question.question_id!r} says it is of {gold.question_id!r}", "")

    def _fault(self, what: str, fix: str) -> DataError:
        return DataError(what, where=str(self.path), fix=fix)
