"""Find the facts in a history, for `facts`: read by rules now, or by a model at `prepare`."""

from datetime import datetime
from typing import Literal

from longmemeval.dataset import Dataset
from longmemeval.errors import HarnessError, nearest
from longmemeval.memory.engram.drawing import mermaid, svg
from longmemeval.memory.engram.engine import Engine, replayed
from longmemeval.memory.engram.fact_memory import prepared_engine
from longmemeval.memory.engram.records import Fact
from longmemeval.pipeline.inspect.recalling import haystack_named
from longmemeval.settings import Folders
from longmemeval.storage.fixture import Fixture, fixture_folder
from longmemeval.storage.messages import haystack_messages


class HistoryFacts:
    """The facts of one history.

    Args:
        identifier: the id of a haystack, or of a question on it.
        prepared: the preparation that has the facts; None: rules read them now.

    Raises:
        HarnessError: the dataset has no such haystack.
        FixtureError: it is not prepared, or without facts.
    """

    def __init__(self, dataset: Dataset, identifier: str, *, prepared: str | None, folders: Folders) -> None:
        haystack = haystack_named(dataset, identifier)
        self.haystack_id = haystack.haystack_id
        if prepared is None:
            self.engine = replayed(haystack_messages(haystack))
        else:
            folder = fixture_folder(folders.prepared_dir, dataset.name, prepared, haystack.haystack_id)
            self.engine = prepared_engine(Fixture.open(folder))

    def about(self, subject: str | None, predicate: str | None) -> Engine:
        """Return the engine that has the facts, among them some of that subject and some of that predicate.

        Raises:
            HarnessError: no fact has that subject or predicate; names the nearest.
        """
        all_facts = self.engine.timeline()
        if subject and all_facts and not self.engine.timeline(subject):
            raise HarnessError(
                f"This history has no facts about '{subject}'",
                fix=nearest(subject, {fact.subject for fact in all_facts}),
            )
        if predicate and all_facts and not self.engine.timeline(None, predicate):
            kinds = {fact.predicate.partition(":")[0] for fact in all_facts}
            raise HarnessError(f"This history has no facts of kind '{predicate}'", fix=nearest(predicate, kinds))
        return self.engine

    def facts(
        self,
        subject: str | None = None,
        predicate: str | None = None,
        *,
        as_of: datetime | None = None,
        believed_at: datetime | None = None,
    ) -> list[Fact]:
        """Return the facts that held at a moment, or else the timeline; see `Engine.facts` and `Engine.timeline`.

        Raises:
            HarnessError: as for `about`.
        """
        engine = self.about(subject, predicate)
        if as_of is None:
            return engine.timeline(subject, predicate, believed_at=believed_at)
        return engine.facts(subject, predicate, as_of=as_of, believed_at=believed_at)

    def drawn(self, facts: list[Fact], form: Literal["svg", "mermaid"], end: datetime | None = None) -> str:
        """Return a drawing of the facts that ends at `end`; None: at the last message."""
        last = max((episode.event_at for episode in self.engine.episodes), default=datetime(1970, 1, 1))
        return (svg if form == "svg" else mermaid)(facts, end or last)
