"""Score rankings of the stored history by the dataset's evidence. Gold is read here, after ranking."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from msgspec import structs

from longmemeval.benchmarks.catalogue import benchmark_of, units_of
from longmemeval.benchmarks.retrieval_protocols import GoldRule, OfficialScoring, RetrievalRules
from longmemeval.core.text.figures import count_of
from longmemeval.dataset import Dataset
from longmemeval.errors import HarnessError
from longmemeval.measures.notation import (
    MEASURES,
    Granularity,
    Measure,
    QuestionValues,
    Ranking,
    RetrievalProtocol,
    RetrievalResult,
    aggregate,
)
from longmemeval.records import Question
from longmemeval.storage.messages import haystack_messages, thread_ids


def chosen_measures(names: Sequence[str], cutoffs: Sequence[int], rules: RetrievalRules) -> tuple[Measure, ...]:
    """Return the measures to compute.

    Args:
        names: such as `recall_any@5` or `mrr`; one without its cutoff, such as `recall_any`, gets all cutoffs. Empty:
            the benchmark's default ones.
        cutoffs: cutoffs for measures named without one. Empty: the benchmark's default ones.
        rules: the rules of the benchmark.

    Raises:
        HarnessError: there is no such measure or cutoff, or no measure uses the cutoffs given.
    """
    bare = [name for name in names if name in MEASURES and MEASURES[name].has_cutoff]
    written = [Measure.parse(name) for name in names if name not in bare]
    if names and cutoffs and not bare:
        raise HarnessError(
            "No measure takes the cutoffs of --k: all are named with their own",
            fix="Leave out --k or the @ of a measure",
        )
    kinds = [MEASURES[name] for name in bare] if names else rules.kinds
    whole = written if names else rules.whole
    at = cutoffs or rules.cutoffs
    measures = tuple(dict.fromkeys([*(kind @ cutoff for cutoff in at for kind in kinds), *whole]))
    for measure in measures:
        if not any(rule.measures(measure) for rule in rules.rules(rules.level)):
            what = f"The measure {str(measure)!r} needs labels that this data does not have: what overrules what"
            raise HarnessError(what, fix="Choose another measure")
    return measures


@dataclass(frozen=True)
class Scoring:
    """The measures and gold rules by which rankings are scored."""

    protocol: RetrievalProtocol
    level: Granularity
    measures: tuple[Measure, ...]
    rules: tuple[GoldRule, ...]
    type_order: tuple[str, ...]


def standard_scoring(dataset: Dataset, level: Granularity, measures: tuple[Measure, ...]) -> Scoring:
    """Return the standard protocol: the rules of the benchmark, and any measures."""
    benchmark = benchmark_of(dataset)
    return Scoring("standard", level, measures, tuple(benchmark.retrieval.rules(level)), benchmark.types.order)


def official_scoring(dataset: Dataset, level: Granularity, protocol: OfficialScoring) -> Scoring:
    """Return the authors' own protocol.

    Raises:
        HarnessError: it does not rank at this level.
    """
    benchmark = benchmark_of(dataset)
    if level not in protocol.measures:
        what = f"The official retrieval protocol of {benchmark.title} ranks no {level}s"
        raise HarnessError(what, fix=f"Give --granularity {' or '.join(protocol.measures)}")
    return Scoring("official", level, protocol.measures[level], tuple(protocol.rules(level)), benchmark.types.order)


@dataclass(frozen=True)
class _Ledger:
    """The values of all questions by one gold rule."""

    rule: GoldRule
    measures: tuple[Measure, ...]
    questions: list[QuestionValues] = field(default_factory=list)

    def result(self, memory: str, scoring: Scoring, *, unknown: bool) -> RetrievalResult:
        """Return the means; there are none if for some question the provenance of the recall is `unknown`."""
        undefined = sum(None in question.values.values() for question in self.questions)
        left_out = f"; {undefined:,} {self.rule.without} have no value" if undefined else ""
        questions = self.questions
        if unknown:
            questions = [structs.replace(question, values=dict.fromkeys(question.values)) for question in questions]
        summary = aggregate(questions, self.measures, self.rule.denominator + left_out, type_order=scoring.type_order)
        return RetrievalResult(
            memory,
            scoring.protocol,
            scoring.level,
            self.rule.name,
            summary.denominator,
            summary.measures,
            summary.by_type,
        )


class RankingScores:
    """The scores of one memory's rankings, question by question, at the level of turns or of sessions.

    A turn is found by its message id, a session by its thread id; of a session that a haystack holds twice, the first
    copy counts.

    Args:
        dataset: holds the gold.
        scoring: the measures and gold rules; a rule that has values for none of the measures is left out.
        history: `history_ids` of the same data and level, shared with others; None: its own.
    """

    def __init__(
        self, dataset: Dataset, scoring: Scoring, history: Callable[[str], Sequence[str]] | None = None
    ) -> None:
        self._dataset = dataset
        self._scoring = scoring
        ledgers = (_Ledger(rule, tuple(filter(rule.measures, scoring.measures))) for rule in scoring.rules)
        self._ledgers = [ledger for ledger in ledgers if ledger.measures]
        self._history = history or history_ids(dataset, scoring.level)
        self._unknown = self._failed = 0
        self.loose_cutoffs = Counter[int]()
        """Cutoff of a measure -> questions whose history has no more items than that."""

    def add(self, question: Question, ranking: Ranking) -> None:
        """Score one question."""
        self._unknown += ranking.unknown
        self._failed += bool(ranking.error)
        gold, history = self._dataset.gold(question.question_id), self._history(question.haystack_id)
        ranked = [item.id for item in ranking.ranked]
        cutoffs = {measure.cutoff for measure in self._scoring.measures if measure.cutoff}
        self.loose_cutoffs.update(cutoff for cutoff in cutoffs if cutoff >= len(history))
        for ledger in self._ledgers:
            values = {str(measure): ledger.rule.score(measure, ranked, gold, history) for measure in ledger.measures}
            unit = units_of(self._dataset, [question])[question.question_id]
            scored = QuestionValues(question.question_id, gold.question_type, unit, values)
            ledger.questions.append(scored)

    def results(self, memory: str) -> tuple[RetrievalResult, ...]:
        """Return the means over all questions that were added."""
        results = (ledger.result(memory, self._scoring, unknown=self._unknown > 0) for ledger in self._ledgers)
        return tuple(structs.replace(result, notes=self._notes(memory)) for result in results)

    @property
    def first_values(self) -> tuple[QuestionValues, ...]:
        """The values that the first result is the mean of; none if it has no mean."""
        return () if self._unknown else tuple(self._ledgers[0].questions)

    def _notes(self, memory: str) -> tuple[str, ...]:
        unit = "messages" if self._scoring.level == "turn" else "sessions"
        notes = []
        if self._unknown:
            notes.append(f"{memory} does not say which {unit} its items are from: its recall is unknown.")
        if self._failed:
            notes.append(f"{memory} failed at {count_of(self._failed, 'question')}, counted as nothing found.")
        return tuple(notes)


def history_ids(dataset: Dataset, level: Granularity) -> Callable[[str], Sequence[str]]:
    """Return a function from a haystack id to the ids of everything that could have been ranked."""

    # Questions on one haystack follow one another.
    @lru_cache(maxsize=1)
    def read(haystack_id: str) -> Sequence[str]:
        haystack = dataset.haystack(haystack_id)
        if level == "session":
            return thread_ids(haystack)
        return [message.message_id for message in haystack_messages(haystack)]

    return read
