"""The scoring of a benchmark's rankings, and its authors' own retrieval protocol, if any.

There are two kinds of protocol. Under an `OfficialScoring`, memories rank the prepared history, and the authors'
measures score the rankings. An `OfficialRanking` has its own corpus and rankers, straight from the data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from longmemeval.measures.changes import ChangingGold, compute_change
from longmemeval.measures.compute import compute
from longmemeval.measures.notation import (
    Granularity,
    Measure,
    MeasureKind,
    Ranked,
    RetrievalResult,
    mrr,
    ndcg,
    recall_all,
    recall_any,
)
from longmemeval.records import Gold, Question

if TYPE_CHECKING:
    # A specification must not load numpy and pydantic just to list a catalogue.
    from pathlib import Path

    from longmemeval.dataset import Dataset
    from longmemeval.embedding.protocol import Embedder
    from longmemeval.memory.configuration import MemoryConfiguration
    from longmemeval.storage.fixture import Fixture

ScoreOf = Callable[[Measure, Sequence[str], Gold, Sequence[str]], float | None]
"""Function from a measure, the ranked ids, the gold and the ids of the whole history to a value, or None."""


@dataclass(frozen=True)
class GoldRule:
    """A kind of gold by which all questions are scored."""

    name: str
    """Description of what counts as right."""
    denominator: str
    """Description of the questions that count."""
    score: ScoreOf
    measures: Callable[[Measure], bool] = lambda measure: not measure.kind.of_changes
    """Returns whether the rule has values for a measure."""
    without: str = "without evidence"
    """Description of the questions in the denominator for which some measure has no value."""


def evidence(gold: Gold, level: Granularity) -> tuple[str, ...]:
    """Return the ids that should be found."""
    return gold.evidence_turns if level == "turn" else gold.evidence_sessions


def evidence_rule(
    level: Granularity,
    *,
    turns: str = "evidence turns",
    sessions: str = "evidence sessions",
    denominator: str = "abstention included",
) -> GoldRule:
    """Return the rule that the labelled evidence should be found; a question without evidence has no value."""

    def score(measure: Measure, ranked: Sequence[str], gold: Gold, history: Sequence[str]) -> float | None:
        return compute(measure, ranked, evidence(gold, level), history)

    return GoldRule(turns if level == "turn" else sessions, denominator, score)


def change_rule(name: str, *, without: str) -> GoldRule:
    """Return the rule that the current messages of a `ChangingGold` should be found; it takes every measure.

    Args:
        name: description of what counts as right.
        without: description of the questions for which some measure has no value.
    """

    def score(measure: Measure, ranked: Sequence[str], gold: Gold, history: Sequence[str]) -> float | None:
        if measure.kind.of_changes:
            return compute_change(measure, ranked, gold)
        if isinstance(gold, ChangingGold) and not gold.consistent:
            return None
        return compute(measure, ranked, gold.evidence_turns, history)

    return GoldRule(name, "all questions", score, measures=lambda measure: True, without=without)


@dataclass(frozen=True)
class RetrievalRules:
    """The scoring of rankings under the standard protocol."""

    level: Granularity = "session"
    """Level of the rankings, unless the user names one."""
    kinds: tuple[MeasureKind, ...] = (recall_any, recall_all, ndcg)
    """Measures at each cutoff, unless the user names some."""
    cutoffs: tuple[int, ...] = (5, 10)
    whole: tuple[Measure, ...] = (mrr,)
    """Measures over the whole ranking."""
    rules: Callable[[Granularity], Sequence[GoldRule]] = lambda level: [evidence_rule(level)]


@dataclass(frozen=True)
class OfficialScoring:
    """A protocol under which memories rank the stored history, and the authors' measures score the rankings."""

    level: Granularity
    """Level of the rankings, unless the user names one."""
    measures: Mapping[Granularity, tuple[Measure, ...]]
    """Measures by supported level."""
    rules: Callable[[Granularity], Sequence[GoldRule]]
    notes: tuple[str, ...] = ()
    """Notes to print under its tables."""


class Fixtures(Protocol):
    """The fixtures of a preparation."""

    def open(self, haystack_id: str) -> Fixture:
        """Return the fixture of one haystack."""
        ...

    def hashes(self, questions: Sequence[Question]) -> dict[str, dict[str, str]]:
        """Return the sha256 of the parts read for these questions, by haystack id and part."""
        ...


class RankingRequest(Struct, frozen=True):
    """The task of an `OfficialRanking`."""

    dataset: Dataset
    questions: Sequence[Question]
    level: Granularity
    configuration: MemoryConfiguration
    """Configuration with the retriever."""
    embedder: Callable[[], Embedder]
    """Function that loads the selected embedder."""
    fixtures: Callable[[MemoryConfiguration], Fixtures]
    """Function that opens the preparation as a memory reads it."""
    prepared: str
    """Name of the preparation."""
    expansion_cache: Path | None = None
    """File of expansions, as the authors' own scripts write it."""


class RankedQuestion(Protocol):
    """One question, whose corpus is ranked on demand."""

    @property
    def question_id(self) -> str:
        """Id of the question."""
        ...

    def items(self) -> Iterator[Ranked]:
        """Return the whole corpus, best first."""
        ...

    def log_line(self) -> str:
        """Return the line that the authors' code writes for the question."""
        ...


class OfficialRanker(Protocol):
    """An official protocol, ready to rank with one memory and to score its rankings."""

    @property
    def settings(self) -> dict[str, Any]:
        """Settings for the run's manifest."""
        ...

    @property
    def fixtures(self) -> dict[str, dict[str, str]]:
        """Hashes (sha256) of the parts that it reads, by haystack id and part."""
        ...

    def questions(self) -> Iterator[RankedQuestion]:
        """Return the requested questions, in the order of the data."""
        ...

    def add(self, question: RankedQuestion, ranked: Sequence[str]) -> None:
        """Score one question by the ids of its corpus, best first."""
        ...

    def results(self, memory: str) -> tuple[RetrievalResult, ...]:
        """Return the means over all scored questions."""
        ...


class RankedRun(Struct, frozen=True):
    """Facts about a run under an official protocol that footnotes need."""

    settings: Mapping[str, Any]
    questions: int
    results: tuple[RetrievalResult, ...]


@dataclass(frozen=True)
class OfficialRanking:
    """A protocol with its own corpus and rankers."""

    level: Granularity
    """Level of the rankings, unless the user names one."""
    ranker: Callable[[RankingRequest], OfficialRanker]
    """Makes the ranker; raises `HarnessError` if the protocol cannot be followed."""
    score: Callable[[Dataset, Granularity, Mapping[str, Sequence[str]], str], tuple[RetrievalResult, ...]]
    """Recomputes the results from the data, the level, question id -> ranked corpus ids, and the memory's name."""
    gold_ids: Callable[[Iterable[str]], Iterable[str]]
    """Returns the gold ids among a ranking's corpus ids."""
    shown_cutoffs: tuple[int, ...] = ()
    """Cutoffs shown in tables; empty: all."""
    notes: Callable[[Sequence[RankedRun]], list[str]] = lambda runs: []
    """Returns notes to print under tables of such runs."""
