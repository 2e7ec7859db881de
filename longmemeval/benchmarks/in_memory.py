"""A dataset held in memory: all that a new benchmark needs besides its records."""

import hashlib
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from longmemeval.benchmarks.data_files import problem_of_id, unknown_id
from longmemeval.core.files import sha256_file
from longmemeval.core.tables.parquet import MAGIC, parquet_rows
from longmemeval.core.text_files import decode_json, reading
from longmemeval.errors import DataError
from longmemeval.records import Gold, Haystack, Question


def read_records(path: Path) -> list[dict[str, Any]]:
    """Return the records of a JSON file that is an array of objects, or the rows of a Parquet file.

    Raises:
        DataError: the file cannot be read, or is something else.
        HarnessError: the file is a Parquet file, and pyarrow is not installed.
    """
    with reading("The dataset file", path, "is not a JSON array of records", kind=DataError):
        data = path.read_bytes()
        return parquet_rows(path) if data.startswith(MAGIC) else decode_json(data, list[dict[str, Any]])


class InMemoryDataset:
    """A `Dataset` over the records of one file.

    Args:
        benchmark: the name under which the benchmark is registered.
        path: the file.
        name: the catalogue name; empty: the stem of the file.
        haystacks: the histories, each with its sessions in order of time.
        questions: questions with their gold; evidence turns are message ids, `session_id:index` with the index from 0.

    Raises:
        DataError: there is no question, an id is repeated or cannot be a file name, or the haystack of a question, or a
            session or turn of its gold, does not exist.
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
        self._ids: dict[str, tuple[frozenset[str], frozenset[str]]] = {}
        self._questions: dict[str, tuple[Question, Gold]] = {}
        for haystack in haystacks:
            self._check_id("haystack", haystack.haystack_id, self._haystacks)
            self._haystacks[haystack.haystack_id] = haystack
            self._ids[haystack.haystack_id] = _ids(haystack)
        for question, gold in questions:
            self._check_id("question", question.question_id, self._questions)
            self._check_gold(question, gold)
            self._questions[question.question_id] = question, gold
        if not self._questions:
            raise DataError("The dataset has no question", where=str(path))

    @property
    def files(self) -> tuple[Path, ...]:
        """The file as the only element."""
        return (self.path,)

    @cached_property
    def sha256(self) -> str:
        """Hash of the file's bytes, 64 hexadecimal digits."""
        return sha256_file(self.path)

    @cached_property
    def content_sha256(self) -> str:
        """Hash of every haystack, question and gold as canonical JSON, one a line."""
        lines = map(msgspec.json.encode, chain(self._haystacks.values(), self._questions.values()))
        return hashlib.sha256(b"".join(line + b"\n" for line in lines)).hexdigest()

    def __len__(self) -> int:
        return len(self._questions)

    def questions(self) -> Iterator[Question]:
        """Return all questions in the order given."""
        return (question for question, _ in self._questions.values())

    def haystacks(self) -> Iterator[Haystack]:
        """Return all haystacks in the order given."""
        return iter(self._haystacks.values())

    def haystack(self, haystack_id: str) -> Haystack:
        """Return one haystack; raises `DataError` if there is none with that id."""
        self._check_known("haystack", haystack_id, self._haystacks)
        return self._haystacks[haystack_id]

    def question_type(self, question_id: str) -> str:
        """Return the type of one question; raises `DataError` if there is none with that id."""
        return self.gold(question_id).question_type

    def gold(self, question_id: str) -> Gold:
        """Return the right answer to one question; raises `DataError` if there is none with that id."""
        self._check_known("question", question_id, self._questions)
        return self._questions[question_id][1]

    def _check_id(self, kind: str, identifier: str, known: Iterable[str]) -> None:
        problem = problem_of_id(identifier) or ("occurs twice" if identifier in known else "")
        # A question id such as `haystack/q1` is never a file name.
        if problem and not (kind == "question" and problem == "holds a path separator"):
            raise self._fault(f"The {kind} id {identifier!r} {problem}", "Make the ids unique, short and plain")

    def _check_known(self, kind: str, identifier: str, known: Iterable[str]) -> None:
        if identifier not in known:
            raise unknown_id(self.path, kind, identifier, known)

    def _check_gold(self, question: Question, gold: Gold) -> None:
        self._check_known("haystack", question.haystack_id, self._haystacks)
        sessions, turns = self._ids[question.haystack_id]
        for session_id in gold.evidence_sessions:
            self._check_known("session", session_id, sessions)
        for turn in gold.evidence_turns:
            self._check_known("turn", turn, turns)
        if gold.question_id != question.question_id:
            raise self._fault(
                f"The gold of question {question.question_id!r} says that it belongs to {gold.question_id!r}", ""
            )

    def _fault(self, what: str, fix: str) -> DataError:
        return DataError(what, where=str(self.path), fix=fix)


def _ids(haystack: Haystack) -> tuple[frozenset[str], frozenset[str]]:
    """Return the ids of the sessions, and of the turns."""
    turns = (f"{session.session_id}:{index}" for session in haystack.sessions for index in range(len(session.turns)))
    return frozenset(session.session_id for session in haystack.sessions), frozenset(turns)
