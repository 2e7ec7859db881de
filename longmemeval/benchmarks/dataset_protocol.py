"""What a data set offers to the rest of the harness."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal, Protocol

from longmemeval.records import Gold, Haystack, Question

Benchmark = Literal["longmemeval", "locomo", "convomem"]
"""Whose protocol and judges a data set belongs to."""


class Dataset(Protocol):
    """One benchmark file. `len()` counts its questions, of which several may be asked about one haystack."""

    @property
    def name(self) -> str:
        """The catalogue name, or the stem of the file for a path."""
        ...

    @property
    def benchmark(self) -> Benchmark:
        """Whose protocol and judges it belongs to."""
        ...

    @property
    def path(self) -> Path:
        """The file."""
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

    def gold(self, question_id: str) -> Gold:
        """The right answer to one question and where it stands.

        Raises:
            DataError: there is no such question, or its record is not as the format demands.
        """
        ...
