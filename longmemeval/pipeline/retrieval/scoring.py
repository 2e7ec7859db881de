"""Scoring rankings of the stored history by the evidence that the data set names. Gold is read here, after ranking."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from longmemeval.benchmarks.dataset_protocol import Dataset
from longmemeval.benchmarks.locomo.format import dia_id_of
from longmemeval.benchmarks.locomo.loader import LocomoDataset
from longmemeval.errors import HarnessError
from longmemeval.evaluation.measures.aggregate import QuestionValues, aggregate
from longmemeval.evaluation.measures.compute import compute
from longmemeval.evaluation.measures.locomo import LOCOMO_TYPES, locomo_recall, locomo_recall_strict
from longmemeval.evaluation.measures.notation import MEASURES, Measure, mrr, ndcg, recall, recall_all, recall_any
from longmemeval.evaluation.measures.official import DENOMINATORS, Granularity
from longmemeval.evaluation.metrics import OFFICIAL_TYPES
from longmemeval.pipeline.runs.rankings import Ranking, RetrievalResult
from longmemeval.records import Gold, Question
from longmemeval.storage.messages import haystack_messages, thread_ids


def is_locomo(dataset: Dataset) -> bool:
    """Whether the data set is scored by LoCoMo's rules."""
    return isinstance(dataset, LocomoDataset)


def chosen_measures(names: Sequence[str], cutoffs: Sequence[int], *, locomo: bool) -> tuple[Measure, ...]:
    """The measures to compute.

    Args:
        names: such as `recall_any@5` or `mrr`; one without its cutoff, such as `recall_any`, gets all cutoffs. None:
            `recall` for LoCoMo; else `recall_any`, `recall_all`, `ndcg` and `mrr`.
        cutoffs: for measures that are named without. None: 5, 10, 25 and 50 for LoCoMo, as published; else 5 and 10.
        locomo: which defaults.

    Raises:
        HarnessError: there is no such measure or cutoff, or cutoffs are given that no measure takes.
    """
    bare = [name for name in names if name in MEASURES and MEASURES[name].has_cutoff]
    written = [Measure.parse(name) for name in names if name not in bare]
    if names and cutoffs and not bare:
        raise HarnessError(
            "No measure takes the cutoffs of --k: all are named with their own",
            fix="Leave out --k or the @ of a measure",
        )
    kinds = [MEASURES[name] for name in bare]
    if not names:
        kinds = [recall] if locomo else [recall_any, recall_all, ndcg]
        written = [] if locomo else [mrr]
    at = cutoffs or ((5, 10, 25, 50) if locomo else (5, 10))
    return tuple(dict.fromkeys([*(kind @ cutoff for cutoff in at for kind in kinds), *written]))


@dataclass(frozen=True)
class _Ledger:
    """The values of all questions by one kind of gold."""

    gold_rule: str
    denominator: str
    measures: tuple[Measure, ...]
    value: Callable[[Measure, Sequence[str], Gold, Sequence[str]], float | None]
    """From a measure, the ranked ids, the gold record and the ids of the whole history."""
    questions: list[QuestionValues] = field(default_factory=list)

    def result(self, memory: str, level: Granularity, type_order: Sequence[str]) -> RetrievalResult:
        undefined = sum(None in question.values.values() for question in self.questions)
        left_out = f"; {undefined:,} without evidence have no value" if undefined else ""
        summary = aggregate(self.questions, self.measures, self.denominator + left_out, type_order=type_order)
        return RetrievalResult(
            memory, "standard", level, self.gold_rule, summary.denominator, summary.measures, summary.by_type
        )


class StandardScoring:
    """Scores one memory's rankings question by question, at the level of turns or of sessions.

    A turn is found by its message id, a session by its thread id; of a session that a haystack holds twice, the first
    copy counts. A question without evidence has no value. LoCoMo is scored twice: by its official recall (raw evidence
    strings; without any: 0), and strictly (repaired evidence).

    Args:
        dataset: where the gold is.
        level: of the rankings.
        measures: what to compute.
        history: `history_ids` of the same data and level, shared with others; None: its own.
    """

    def __init__(
        self,
        dataset: Dataset,
        level: Granularity,
        measures: tuple[Measure, ...],
        history: Callable[[str], Sequence[str]] | None = None,
    ) -> None:
        self._dataset = dataset
        self._level: Granularity = level
        self._type_order = LOCOMO_TYPES if is_locomo(dataset) else OFFICIAL_TYPES
        self._ledgers = self._locomo(measures) if is_locomo(dataset) else [self._longmemeval(measures)]
        self._history = history or history_ids(dataset, level)

    def add(self, question: Question, ranking: Ranking) -> None:
        """Score one question."""
        gold, history = self._dataset.gold(question.question_id), self._history(question.haystack_id)
        ranked = [item.id for item in ranking.ranked]
        for ledger in self._ledgers:
            values = {str(measure): ledger.value(measure, ranked, gold, history) for measure in ledger.measures}
            scored = QuestionValues(question.question_id, gold.question_type, question.haystack_id, values)
            ledger.questions.append(scored)

    def results(self, memory: str) -> tuple[RetrievalResult, ...]:
        """The means over all questions that were added."""
        return tuple(ledger.result(memory, self._level, self._type_order) for ledger in self._ledgers)

    def _longmemeval(self, measures: tuple[Measure, ...]) -> _Ledger:
        gold_rule = "evidence turns (any role)" if self._level == "turn" else "answer_session_ids"
        return _Ledger(gold_rule, DENOMINATORS["all"], measures, self._plain)

    def _locomo(self, measures: tuple[Measure, ...]) -> list[_Ledger]:
        """The official recall first, if a recall is asked for; then everything strictly."""
        recalls = tuple(measure for measure in measures if measure.name == "recall")
        official = _Ledger(
            "locomo official", "all categories, those without evidence counted as 0", recalls, self._official
        )
        strict = _Ledger("locomo strict (repaired evidence)", "all categories", measures, self._strict)
        return [official, strict] if recalls else [strict]

    def _plain(self, measure: Measure, ranked: Sequence[str], gold: Gold, history: Sequence[str]) -> float | None:
        return compute(measure, ranked, evidence(gold, self._level), history)

    def _strict(self, measure: Measure, ranked: Sequence[str], gold: Gold, history: Sequence[str]) -> float | None:
        if measure.name == "recall":
            return locomo_recall_strict(evidence(gold, self._level), ranked[: measure.cutoff])
        return self._plain(measure, ranked, gold, history)

    def _official(self, measure: Measure, ranked: Sequence[str], gold: Gold, history: Sequence[str]) -> float | None:
        name = dia_id_of if self._level == "turn" else _summary_id_of
        return locomo_recall(gold.evidence_raw, [name(identifier) for identifier in ranked[: measure.cutoff]])


def history_ids(dataset: Dataset, level: Granularity) -> Callable[[str], Sequence[str]]:
    """From a haystack id to the ids of everything that could have been ranked."""

    # Questions on one haystack follow one another.
    @lru_cache(maxsize=1)
    def read(haystack_id: str) -> Sequence[str]:
        haystack = dataset.haystack(haystack_id)
        if level == "session":
            return thread_ids(haystack)
        return [message.message_id for message in haystack_messages(haystack)]

    return read


def evidence(gold: Gold, level: Granularity) -> tuple[str, ...]:
    """The ids that ought to be found."""
    return gold.evidence_turns if level == "turn" else gold.evidence_sessions


def _summary_id_of(thread_id: str) -> str:
    """LoCoMo's id of a session: `session_3` → `S3`."""
    return "S" + thread_id.removeprefix("session_")
