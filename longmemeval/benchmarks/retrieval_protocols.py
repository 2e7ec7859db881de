"""How a benchmark has rankings scored, and what its authors' own protocol of retrieval is.

Two kinds of protocol exist. Under an `OfficialScoring` memories rank what is prepared, and the authors' measures score
the rankings. An `OfficialRanking` has a corpus and rankers of its own, straight from the data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from longmemeval.measures.compute import compute
from longmemeval.measures.notation import Measure, MeasureKind, mrr, ndcg, recall_all, recall_any
from longmemeval.records import Gold

if TYPE_CHECKING:
    # What a specification is made of must not cost numpy and pydantic where only a catalogue is listed.
    from pathlib import Path

    from longmemeval.dataset import Dataset
    from longmemeval.embedding.protocol import Embedder
    from longmemeval.measures.rankings import Granularity, Ranked, RetrievalResult
    from longmemeval.memory.configuration import MemoryConfiguration
    from longmemeval.records import Question
    from longmemeval.storage.fixture import Fixture

ScoreOf = Callable[[Measure, Sequence[str], Gold, Sequence[str]], float | None]
"""From a measure, the ranked ids, the gold and the ids of the whole history to a value; None where there is none."""


@dataclass(frozen=True)
class GoldRule:
    """One kind of gold, by which all questions are scored."""

    name: str
    """What counts as right, in words."""
    denominator: str
    """Which questions count, in words."""
    score: ScoreOf
    measures: Callable[[Measure], bool] = lambda measure: True
    """Which measures it has values for."""
    formerly: str = ""
    """What an earlier version called it, where that was something else."""


def evidence(gold: Gold, level: Granularity) -> tuple[str, ...]:
    """The ids that ought to be found."""
    return gold.evidence_turns if level == "turn" else gold.evidence_sessions


def evidence_rule(
    level: Granularity,
    *,
    turns: str = "evidence turns",
    sessions: str = "evidence sessions",
    denominator: str = "abstention included",
    formerly: str = "",
) -> GoldRule:
    """The rule by which what the data labels as evidence ought to be found; a question without any has no value."""

    def score(measure: Measure, ranked: Sequence[str], gold: Gold, history: Sequence[str]) -> float | None:
        return compute(measure, ranked, evidence(gold, level), history)

    return GoldRule(turns if level == "turn" else sessions, denominator, score, formerly=formerly)


@dataclass(frozen=True)
class RetrievalRules:
    """How rankings are scored under the standard protocol."""

    level: Granularity = "session"
    """What is ranked, where the user does not say."""
    kinds: tuple[MeasureKind, ...] = (recall_any, recall_all, ndcg)
    """Computed at each cutoff, where the user names no measure."""
    cutoffs: tuple[int, ...] = (5, 10)
    whole: tuple[Measure, ...] = (mrr,)
    """Measures over the whole ranking."""
    rules: Callable[[Granularity], Sequence[GoldRule]] = lambda level: [evidence_rule(level)]


@dataclass(frozen=True)
class OfficialScoring:
    """A protocol under which memories rank the stored history, and the authors' measures score the rankings."""

    level: Granularity
    """What is ranked, where the user does not say."""
    measures: Mapping[Granularity, tuple[Measure, ...]]
    """Of each level it has."""
    rules: Callable[[Granularity], Sequence[GoldRule]]
    notes: tuple[str, ...] = ()
    """What has to be said under its tables."""


class Fixtures(Protocol):
    """What a preparation holds."""

    def open(self, haystack_id: str) -> Fixture:
        """The fixture of one haystack."""
        ...

    def hashes(self, questions: Sequence[Question]) -> dict[str, dict[str, str]]:
        """Haystack id -> part -> sha256, of what is read for these questions."""
        ...


class RankingRequest(Struct, frozen=True):
    """What an `OfficialRanking` is asked for."""

    dataset: Dataset
    questions: Sequence[Question]
    level: Granularity
    configuration: MemoryConfiguration
    """Whose retriever is meant."""
    embedder: Callable[[], Embedder]
    """Loads the one that was asked for."""
    fixtures: Callable[[MemoryConfiguration], Fixtures]
    """The preparation as a memory reads it."""
    prepared: str
    """Its name."""
    expansion_cache: Path | None = None
    """The expansions, as the authors' own scripts write them."""


class RankedQuestion(Protocol):
    """One question, whose corpus is ranked when it is asked for."""

    @property
    def question_id(self) -> str:
        """Which question."""
        ...

    def items(self) -> Iterator[Ranked]:
        """The whole corpus, best first."""
        ...

    def log_line(self) -> str:
        """What the authors' code writes of it."""
        ...


class OfficialRanker(Protocol):
    """An official protocol, ready to rank by one memory and to score what it ranked."""

    @property
    def settings(self) -> dict[str, Any]:
        """What the run's manifest says of it."""
        ...

    @property
    def fixtures(self) -> dict[str, dict[str, str]]:
        """Haystack id -> part -> sha256, of what it reads."""
        ...

    def questions(self) -> Iterator[RankedQuestion]:
        """The questions it was asked for, in the order of the data."""
        ...

    def add(self, question: RankedQuestion, ranked: Sequence[str]) -> None:
        """Score one question by the ids of its corpus, best first."""
        ...

    def results(self, memory: str) -> tuple[RetrievalResult, ...]:
        """The means over all that were added."""
        ...


class RankedRun(Struct, frozen=True):
    """A run under an official protocol, as far as footnotes need it."""

    settings: Mapping[str, Any]
    questions: int
    results: tuple[RetrievalResult, ...]


@dataclass(frozen=True)
class OfficialRanking:
    """A protocol with a corpus and rankers of its own."""

    level: Granularity
    """What is ranked, where the user does not say."""
    ranker: Callable[[RankingRequest], OfficialRanker]
    """Raises `HarnessError` where the protocol cannot be followed."""
    score: Callable[[Dataset, Granularity, Mapping[str, Sequence[str]], str], tuple[RetrievalResult, ...]]
    """From the data, the level, question id -> ranked corpus ids and the memory's name to the results again."""
    gold_ids: Callable[[Iterable[str]], Iterable[str]]
    """Those of a ranking's corpus ids that are gold."""
    shown_cutoffs: tuple[int, ...] = ()
    """Cutoffs that tables show; none: all."""
    notes: Callable[[Sequence[RankedRun]], list[str]] = lambda runs: []
    """What has to be said under tables of such runs."""
