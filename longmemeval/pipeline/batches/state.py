"""Record batches before and after each step, so that any process can continue them."""

from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
from msgspec import Struct, structs

from longmemeval.core.files import sha256_bytes, write_atomic
from longmemeval.core.journal import Journal, read_journal
from longmemeval.errors import HarnessError
from longmemeval.llm.protocol import ChatReply

FOLDER = "batches"
"""The name of the folder, in the folder of a run."""
_STEPS = "steps.jsonl"


class Batch(Struct, frozen=True, omit_defaults=True):
    """A line of `steps.jsonl`: the fields that one step added; folded together, all that is known of a batch."""

    name: str
    """Our own name; also in the provider's metadata, and the account's name of its reservation."""
    ids: tuple[str, ...] = ()
    """The ids of its requests; written before anything is sent."""
    expected_usd: float | None = None
    """The most the batch may cost, in US dollars; None: unknown."""
    file: str = ""
    """The provider's id of the requests."""
    id: str = ""
    """The provider's id of the batch."""
    ended: str = ""
    """The end of the batch: completed, expired, cancelled or failed. Its replies are in `<name>.replies.jsonl`."""
    replies_sha256: str = ""
    counts: dict[str, int] = {}
    """Counts of replies, refused requests, those without either, and lines that fit no request."""


class Result(Struct, frozen=True, omit_defaults=True):
    """A line of a file of replies."""

    id: str
    reply: ChatReply | None = None
    status: int = 0
    """The HTTP status of a request without a reply; 0: it was not tried."""
    said: dict[str, Any] = {}
    """The provider's error on a request without a reply."""


def folded(steps: Iterable[Batch]) -> dict[str, Batch]:
    """Merge the steps of each batch, by name, in the order in which the batches were planned."""
    known: dict[str, Batch] = {}
    for step in steps:
        changed = {name: value for name, value in structs.asdict(step).items() if value or name == "name"}
        known[step.name] = structs.replace(known.get(step.name, step), **changed)
    return known


class BatchStore:
    """The stored batches of one stage of a run, in a folder of their own. One process at a time writes to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.batches: dict[str, Batch] = {}

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            self._journal = opened.enter_context(Journal(self.folder / _STEPS, Batch))
            self.batches = folded(self._journal.records())
            self._opened = opened.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.close()

    def write(self, step: Batch) -> Batch:
        """Append a step and return all that is now known of the batch."""
        self._journal.append(step)
        self.batches[step.name] = folded([*filter(None, [self.batches.get(step.name)]), step])[step.name]
        return self.batches[step.name]

    def requests_file(self, name: str) -> Path:
        """Return the path of a batch's requests, which exists until the provider has them."""
        return self.folder / f"{name}.requests.jsonl"

    def write_requests(self, name: str, lines: Iterable[bytes]) -> None:
        """Write the file to be uploaded."""
        _written(self.requests_file(name), b"".join(lines))

    def write_replies(self, name: str, results: Iterable[Result]) -> str:
        """Write the results of a batch and return the sha256 of the file."""
        data = b"".join(msgspec.json.encode(result) + b"\n" for result in results)
        _written(self._replies_file(name), data)
        return sha256_bytes(data)

    def replies(self, batch: Batch) -> list[Result] | None:
        """Return the results of a batch; None if the file differs from what was written and must be fetched again."""
        path = self._replies_file(batch.name)
        data = path.read_bytes() if path.exists() else b""
        if sha256_bytes(data) != batch.replies_sha256:
            return None
        return [msgspec.json.decode(line, type=Result) for line in data.splitlines()]

    def _replies_file(self, name: str) -> Path:
        return self.folder / f"{name}.replies.jsonl"


def _written(path: Path, data: bytes) -> None:
    try:
        write_atomic(path, data)
    except OSError as error:
        raise HarnessError(
            f"The batch cannot be written: {error.strerror}",
            where=str(path),
            fix="Fix this and rerun the command; finished work is kept",
        ) from error


def batches_in(folder: Path) -> list[Batch]:
    """Return the recorded batches of one stage; none if there is no such folder."""
    return list(folded(read_journal(folder / _STEPS, Batch)).values())


def batch_totals(folder: Path) -> dict[str, int]:
    """Count the batches of a stage and the outcomes of their requests."""
    batches = batches_in(folder)
    sums = sum((Counter(batch.counts) for batch in batches), Counter[str]())
    return {"batches": len(batches), "requests": sum(len(batch.ids) for batch in batches), **sums}
