"""Which batches of a history are there, and which may be there in part."""

import json
from pathlib import Path


class Batches:
    """The batches of one scope.

    Args:
        journal: where each is written down at once, for a class whose service keeps what it was given; None where what
            was added and what is written of it are saved together.
    """

    def __init__(self, journal: Path | None) -> None:
        self._journal = journal
        self.added: list[str] = []
        """Those that are there, in their order."""
        self.unsure: set[str] = set()
        """Those whose adding was begun and came to no good end: something of them may be there."""
        for line in journal.read_text().splitlines() if journal and journal.exists() else ():
            try:
                what, batch_id = json.loads(line)
            except ValueError:  # It was being written when the process died.
                continue
            self._note(what, batch_id)

    def dump(self) -> str:
        """All of it, to be kept beside what was added."""
        return json.dumps({"added": self.added, "unsure": sorted(self.unsure)})

    def load(self, text: str) -> None:
        """Take up what `dump` gave."""
        kept = json.loads(text)
        if isinstance(kept, list):  # As version 0.2.0 began.
            kept = {"added": kept, "unsure": []}
        self.added, self.unsure = kept["added"], set(kept["unsure"])

    def begin(self, batch_id: str) -> None:
        """It is being added."""
        self._write("begun", batch_id)

    def end(self, batch_id: str) -> None:
        """It is there."""
        self._write("added", batch_id)

    def fail(self, batch_id: str) -> None:
        """It turned out not to be there."""
        self._write("failed", batch_id)

    def clear(self) -> None:
        """Nothing is there."""
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
