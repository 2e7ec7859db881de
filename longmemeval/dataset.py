"""What a data set offers to the rest of the harness."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from longmemeval.records import Gold, Haystack, Question


class Dataset(Protocol):
    """The data of one benchmark. `len()` counts its questions, of which several may be asked about one haystack."""

    @property
    def name(self) -> str:
        """The catalogue name, or the stem of the file for a path."""
        ...

    @property
    def benchmark(self) -> str:
        """The name of its benchmark (`benchmarks/spec.py`)."""
        ...

    @property
    def path(self) -> Path:
        """The file, or the folder of files."""
        ...

    @property
    def files(self) -> Sequence[Path]:
        """The files that were read."""
        ...

    @property
    def sha256(self) -> str:
        """Hash of the file's bytes, 64 hexadecimal digits."""
        ...

    @property
    def content_sha256(self) -> str:
        """Hash of what the file says: independent of key order, white space and escapes; 64 hexadecimal digits."""
        ...

    def __len__(self) -> int: ...

    def questions(self) -> Iterator[Question]:
        """All questions in file order, without the cost of their haystacks."""
        ...

    def haystacks(self) -> Iterator[Haystack]:
        """All haystacks in file order, each once and one in memory at a time.

        Raises:
            DataError: a record is not as the format demands.
        """
        ...

    def haystack(self, haystack_id: str) -> Haystack:
        """One haystack.

        Raises:
            DataError: there is none of that id, or its record is not as the format demands.
        """
        ...

    def question_type(self, question_id: str) -> str:
        """The type of one question, for samples that are stratified by it; nothing else of the gold.

        Raises:
            DataError: there is no such question.
        """
        ...

    def gold(self, question_id: str) -> Gold:
        """The right answer to one question and where it is.

        Raises:
            DataError: there is no such question, or its record is not as the format demands.
        """
        ...
