"""The protocols of memory systems."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from longmemeval.core.arrays import Vector
from longmemeval.llm.registry import ModelAccess
from longmemeval.llm.tokens import CharacterCounter, Counted, TokenCounter
from longmemeval.ranking.history import RankedUnit
from longmemeval.ranking.questions import QuestionAnalysis
from longmemeval.ranking.rerank import Reranker, load_reranker
from longmemeval.records import Gold, Question, Recall
from longmemeval.storage.fixture import Fixture


class MemorySystem(Protocol):
    """Finds, in the prepared history of one haystack, what a model should see to answer one question."""

    async def recall(self, question: Question, fixture: Fixture) -> Recall:
        """Return the recall for `question`; many calls may run at once.

        It runs in the event loop that also reads the model's replies. Work that takes more than a few milliseconds,
        including opening the fixture's parts, must be awaited with
        `longmemeval.core.event_loop.in_thread`.

        Args:
            question: text, date and ids; nothing about the answer.
            fixture: the prepared history; holds at least the parts that the configuration declares.

        Returns:
            Items in the order the reader shows them, each with the messages it came from. `tokens` and
            `milliseconds` are filled in by the run.
        """
        ...


@runtime_checkable
class RankingMemory(Protocol):
    """A memory system that can rank the whole history, rather than only return the best messages."""

    def rank(self, question: Question, fixture: Fixture) -> list[RankedUnit]:
        """Return all units of the history, best first, ties in the history's order; with a budget those that fit it."""
        ...


@runtime_checkable
class ExplainsScores(Protocol):
    """A memory system that can explain the scores of its best messages."""

    def ingredients(self, question: Question, fixture: Fixture) -> Mapping[str, Mapping[str, float]]:
        """Return the weighted ingredients of the score of each message of the best units, by message id and name."""
        ...


@runtime_checkable
class EmbedsQuestions(Protocol):
    """A memory system that can name in advance the texts it needs vectors of, so that they are embedded together."""

    def texts_to_embed(self, question: Question, names: Sequence[str]) -> Sequence[str]:
        """Return the texts to embed for `question`, asked of a history in which people of these `names` speak."""
        ...


@runtime_checkable
class KnowsTokens(Protocol):
    """A memory system whose texts were counted at prepare, so that a run need not count them again."""

    def known_tokens(self, counter: TokenCounter, fixture: Fixture, recall: Recall) -> Sequence[Counted] | None:
        """Return the tokens of each item of `recall` by `counter`; None if they are not known. May take some time."""
        ...


@runtime_checkable
class HasProcesses(Protocol):
    """A memory system that works in processes of its own."""

    def peak_resident_bytes(self) -> int | None:
        """Return the peak memory of these processes since they started; None if it is unknown, or there are none."""
        ...


@dataclass(frozen=True)
class MemoryTools:
    """The tools that a run provides to a memory system."""

    embed_query: Callable[[str], Vector]
    """Function that embeds a text with the embedder the fixtures were made with."""
    gold: Callable[[str], Gold] | None = None
    """Gold records by question id, for the `oracle` preset alone."""
    count_tokens: Callable[[str], int] = CharacterCounter().count
    """Function that counts the tokens of a text with the run's counter; decides what fits a budget."""
    analyse: Callable[[Question], QuestionAnalysis] | None = None
    """Function that returns a chat model's analysis of a question, made before the run; None if no model was called."""
    reranker: Callable[[str], Reranker] = load_reranker
    """Function that loads the reranker of a spec."""
    models: ModelAccess | None = None
    """Access to models for programs that call them themselves; if it names an embedder, that replaces theirs."""
