"""The interface of a dataset to the rest of the harness."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from longmemeval.records import Gold, Haystack, Question


class Dataset(Protocol):
    """The data of one benchmark. `len()` counts its questions, of which several may share a haystack."""

    @property
    def name(self) -> str:
        """Catalogue name, or for a path the stem of the file."""
        ...

    @property
    def benchmark(self) -> str:
        """Name of its benchmark (`benchmarks/spec.py`)."""
        ...

    @property
    def path(self) -> Path:
        """Path of the file, or of the folder of files."""
        ...

    @property
    def files(self) -> Sequence[Path]:
        """Files that were read."""
        ...

    @property
    def sha256(self) -> str:
        """Hash of the file's bytes, 64 hexadecimal digits."""
        ...

    @property
    def content_sha256(self) -> str:
        """Hash of the content, independent of key order, white space and escapes; 64 hexadecimal digits."""
        ...

    def __len__(self) -> int: ...

    def questions(self) -> Iterator[Question]:
        """Iterate over all questions in file order, without the cost of their haystacks."""
        ...

    def haystacks(self) -> Iterator[Haystack]:
        """Iterate over all haystacks in file order, each once and with one in memory at a time.

        Raises:
            DataError: a record does not match the format.
        """
        ...

    def haystack(self, haystack_id: str) -> Haystack:
        """Return one haystack.

        Raises:
            DataError: no haystack has that id, or its record does not match the format.
        """
        ...

    def question_type(self, question_id: str) -> str:
        """Return the type of one question, for samples stratified by it.

        It reveals nothing else of the gold.

        Raises:
            DataError: there is no such question.
        """
        ...

    def gold(self, question_id: str) -> Gold:
        """Return the right answer to one question and its evidence.

        Raises:
            DataError: there is no such question, or its record does not match the format.
        """
        ...
