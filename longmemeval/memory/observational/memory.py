"""The memory system `observational`: the log of observations, then the messages that it does not cover yet."""

from collections.abc import Sequence
from datetime import date, datetime
from itertools import groupby
from typing import Any, Literal

from pydantic import Field

from longmemeval.core.arrays import Vector
from longmemeval.core.event_loop import in_thread
from longmemeval.memory.definition import MemoryDefinition
from longmemeval.memory.items import message_item
from longmemeval.memory.observational.log import Observation, shown_log, union
from longmemeval.memory.observational.part import LogSettings, ObservationsPart, ObservationVectors, Scope
from longmemeval.memory.parameters import Parameters
from longmemeval.memory.protocol import MemoryTools
from longmemeval.ranking.dense import DenseIndex
from longmemeval.ranking.fusion import fuse, order
from longmemeval.ranking.history import HistoryView
from longmemeval.ranking.lexical import LexicalIndex, LexicalParameters
from longmemeval.records import Question, Recall, RecalledItem
from longmemeval.storage.fixture import Fixture
from longmemeval.storage.memory_store import entry_store
from longmemeval.storage.messages import question_thread_id
from longmemeval.storage.messages_part import MESSAGES
from longmemeval.storage.parts import Part


class ObservationalParameters(Parameters):
    """Parameters of `observational`; tokens are estimated as a quarter of the characters."""

    message_tokens: int = Field(30_000, ge=1)
    """Tokens of unobserved messages from which the observer writes them into the log."""
    reflect_tokens: int = Field(40_000, ge=100)
    """Tokens of the log from which the reflector condenses it."""
    previous_tokens: int = Field(2_000, ge=0)
    """Tokens of the end of the log that the observer sees."""
    scope: Scope = "resource"
    """One log for all threads of the resource, or one for each, of which the question's own is recalled."""
    retriever: Literal["none", "hybrid"] = "none"
    """`none`: the whole log; `hybrid`: its best observations by words and vectors."""
    top_k: int = Field(50, ge=1)
    """Observations that `hybrid` recalls."""

    @property
    def log(self) -> ObservationsPart:
        """The part with the log."""
        names = LogSettings.__struct_fields__
        return ObservationsPart(LogSettings(**{name: getattr(self, name) for name in names}))


def observational_parts(parameters: ObservationalParameters) -> tuple[Part[Any], ...]:
    """Return messages and log, and the vectors of the log if it is searched."""
    log = parameters.log
    return (MESSAGES, log, *((ObservationVectors(log),) if parameters.retriever == "hybrid" else ()))


class ObservationalMemory:
    """Recalls the log, day by day, and the messages not observed yet.

    Args:
        parameters: the log, and which part of it is recalled.
        tools: from the run.
    """

    def __init__(self, parameters: ObservationalParameters, tools: MemoryTools) -> None:
        self._parameters, self._tools, self._log = parameters, tools, parameters.log

    def texts_to_embed(self, question: Question, names: Sequence[str]) -> Sequence[str]:
        """Return the question, if the log is searched."""
        return [question.text] if self._parameters.retriever == "hybrid" else []

    async def recall(self, question: Question, fixture: Fixture) -> Recall:
        """Return the observations of each day as an item, oldest first, then the unobserved messages."""
        return await in_thread(self._recall, question, fixture)

    def _recall(self, question: Question, fixture: Fixture) -> Recall:
        log, store, notes = fixture.part(self._log), fixture.memory, tuple[str, ...]()
        observations = [*log.observations]
        unobserved = [store.message(message_id) for message_id in log.unobserved]
        if self._parameters.scope == "thread":
            own = question_thread_id(question.question_id)
            observations = [one for one in observations if own in one.thread_ids]
            unobserved = [message for message in unobserved if message.thread_id == own]
            notes = () if observations or unobserved else (_EMPTY,)
        elif self._parameters.retriever == "hybrid":
            places = fixture.cached(("observations", self._log.name), lambda: self._index(fixture)).best(
                question.text, self._tools.embed_query(question.text), self._parameters.top_k
            )
            observations = [log.observations[place] for place in sorted(places)]
        items = [
            _day_item(day, list(group), question.date)
            for day, group in groupby(sorted(observations, key=lambda one: one.day), key=lambda one: one.day)
        ]
        return Recall((*items, *map(message_item, unobserved)), notes=notes, forgotten_ids=log.forgotten)

    def _index(self, fixture: Fixture) -> "_Index":
        items, vectors = fixture.part(ObservationVectors(self._log)).rows()
        observations = fixture.part(self._log).observations
        history = HistoryView(entry_store([(one.thread_ids[0], datetime.min, one.text) for one in observations]))
        return _Index(LexicalIndex(history, _WORDS), DenseIndex(history, items, vectors, ()))


_EMPTY = "the log is empty: scope is the question's own thread, which is empty"
_WORDS = LexicalParameters(window=(), session=0.0)


class _Index:
    """The observations of one fixture, ranked by words and vectors.

    Args:
        words: their words.
        vectors: their vectors.
    """

    def __init__(self, words: LexicalIndex, vectors: DenseIndex) -> None:
        self._words, self._vectors = words, vectors

    def best(self, text: str, vector: Vector, count: int) -> list[int]:
        """Return the places of the best observations."""
        scores = fuse([(1.0, self._words.scores(text)), (1.0, self._vectors.scores(vector))], "scores")
        return [int(place) for place in order(scores)[:count]]


def _day_item(day: date, observations: Sequence[Observation], asked: datetime) -> RecalledItem:
    return RecalledItem(
        kind="working-memory",
        text=shown_log(observations).replace(f"# {day}", f"## {day} ({_ago((asked.date() - day).days)})", 1),
        date=datetime(day.year, day.month, day.day),
        message_ids=union(one.message_ids for one in observations),
        thread_ids=union(one.thread_ids for one in observations),
    )


def _ago(days: int) -> str:
    """Return the time between a day and the question's, in words."""
    if days < 0:
        return "after the question"
    if days < 2:
        return ("today", "yesterday")[days]
    if days < 14:
        return f"{days} days ago"
    return f"{days // 7} weeks ago" if days < 60 else f"{days // 30} months ago"


OBSERVATIONAL = MemoryDefinition(
    "a dated log of observations that a chat model keeps and condenses, and the messages not yet observed",
    ObservationalParameters,
    observational_parts,
    ObservationalMemory,
)
