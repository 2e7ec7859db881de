"""The record of a scope's batches: which were added, and which may be there in part."""

import json
from pathlib import Path


class Batches:
    """The batches of one scope.

    Args:
        journal: a file in which each change is recorded at once, for a class whose service keeps what it was given;
            None if the record is saved together with the memory.
    """

    def __init__(self, journal: Path | None) -> None:
        self._journal = journal
        self.added: list[str] = []
        """The batches that were added, in their order."""
        self.unsure: set[str] = set()
        """The batches whose adding began but did not succeed: something of them may be there."""
        for line in journal.read_text().splitlines() if journal and journal.exists() else ():
            try:
                what, batch_id = json.loads(line)
            except ValueError:  # It was being written when the process died.
                continue
            self._note(what, batch_id)

    def dump(self) -> str:
        """Return the record as JSON, to be saved beside the memory."""
        return json.dumps({"added": self.added, "unsure": sorted(self.unsure)})

    def load(self, text: str) -> None:
        """Restore the record from the result of `dump`."""
        saved = json.loads(text)
        if isinstance(saved, list):  # The format of early 0.2.0.
            saved = {"added": saved, "unsure": []}
        self.added, self.unsure = saved["added"], set(saved["unsure"])

    def begin(self, batch_id: str) -> None:
        """Record that a batch is being added."""
        self._write("begun", batch_id)

    def end(self, batch_id: str) -> None:
        """Record that a batch was added."""
        self._write("added", batch_id)

    def fail(self, batch_id: str) -> None:
        """Record that a batch turned out to be missing."""
        self._write("failed", batch_id)

    def clear(self) -> None:
        """Record that the scope is empty."""
        self.added.clear()
        self.unsure.clear()
        if self._journal:
            self._journal.unlink(missing_ok=True)

    def _write(self, what: str, batch_id: str) -> None:
        self._note(what, batch_id)
        if self._journal:
            with self._journal.open("a") as file:
                file.write(json.dumps([what, batch_id]) + "\n")

    def _note(self, what: str, batch_id: str) -> None:
        if what == "added":
            self.unsure.discard(batch_id)
            self.added.append(batch_id)
            return
        self.unsure.add(batch_id)
        if batch_id in self.added:
            self.added.remove(batch_id)
