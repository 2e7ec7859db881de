"""Scores of official rankings by LongMemEval's measures, over its two denominators.

A question whose evidence turns are not labelled in the data has no value. The official code stops at such data; the
values of its measures without gold (recall_all 1, the others 0) are used only for questions with labels.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from longmemeval.benchmarks.longmemeval.benchmark import ORDER
from longmemeval.benchmarks.longmemeval.judge import OFFICIAL_MODEL
from longmemeval.benchmarks.longmemeval.loader import LongMemEvalDataset, Record
from longmemeval.benchmarks.longmemeval.official.measures import (
    DENOMINATORS,
    OFFICIAL_CUTOFFS,
    Denominator,
    OfficialScores,
    evaluate_turn_to_session,
    is_counted,
    official_gold,
)
from longmemeval.dataset import Dataset
from longmemeval.errors import HarnessError
from longmemeval.judges.people import is_imported
from longmemeval.judges.question_types import Labels, OfficialFigures
from longmemeval.measures.notation import (
    Granularity,
    QuestionValues,
    RetrievalResult,
    aggregate,
    ndcg_official,
    recall_all,
    recall_any,
)
from longmemeval.records import Gold

_MEASURES = tuple(kind @ cutoff for cutoff in OFFICIAL_CUTOFFS for kind in (recall_any, recall_all, ndcg_official))
_NAMES = tuple(map(str, _MEASURES))
_DENOMINATORS: tuple[Denominator, ...] = ("user-evidence", "answerable")
_GOLD = {
    "session": "official: sessions with a labelled user turn",
    "turn": "official: labelled user turns",
    "turn2session": "official: labelled user turns, scored as sessions",
}
_Scores = dict[int, OfficialScores]
"""Scores by cutoff."""


def ranking_scores(ranked: Sequence[str]) -> _Scores:
    """Return the result of `evaluate_retrieval` at every cutoff, bit for bit, in one pass over the ranking.

    Args:
        ranked: the ids of the whole corpus, best first.
    """
    gold = official_gold(ranked)
    places = [place for place, identifier in enumerate(ranked) if identifier in gold]
    gains = np.zeros(len(ranked))
    gains[places] = 1.0
    # If an id is repeated, its best rank counts.
    ranks = {ranked[place]: place + 1 for place in reversed(places)}.values()
    first, last = min(ranks, default=len(ranked) + 1), max(ranks, default=0)
    return {
        cutoff: OfficialScores(float(first <= min(cutoff, len(ranked))), float(last <= cutoff), found and found / ideal)
        for cutoff, found, ideal in zip(
            OFFICIAL_CUTOFFS, _dcg(gains), _ideal_dcg(len(places), len(ranked)), strict=True
        )
    }


def _dcg(gains: NDArray[np.float64]) -> list[float]:
    """Return the value of `dcg_official` at every cutoff."""
    if not gains.size:
        return [0.0] * len(OFFICIAL_CUTOFFS)
    top = gains[: OFFICIAL_CUTOFFS[-1]]
    discounted = top[1:] / np.log2(np.arange(2, top.size + 1))
    return [float(top[0] + np.sum(discounted[: cutoff - 1])) for cutoff in OFFICIAL_CUTOFFS]


@lru_cache(maxsize=1 << 10)
def _ideal_dcg(gold_items: int, items: int) -> list[float]:
    return _dcg(np.repeat([1.0, 0.0], [gold_items, items - gold_items]))


def _turn_to_session_scores(ranked: Sequence[str]) -> _Scores:
    places, gold = range(len(ranked)), official_gold(ranked)
    return {cutoff: evaluate_turn_to_session(places, gold, ranked, cutoff) for cutoff in OFFICIAL_CUTOFFS}


_VIEWS: Mapping[Granularity, Mapping[str, Callable[[Sequence[str]], _Scores]]] = {
    "session": {"session": ranking_scores},
    "turn": {"turn": ranking_scores, "turn2session": _turn_to_session_scores},
}
"""The ways of scoring a ranking, by its level."""


def is_labelled(dataset: LongMemEvalDataset, record: Record) -> bool:
    """Return whether the data labels the evidence turns of a question, or states that there are none."""
    labelled = any(turn.has_answer for session in record.haystack_sessions for turn in session)
    return labelled or dataset.carries_labels(record.question_id)


class OfficialScoring:
    """The scores of one retriever's rankings, added question by question.

    Args:
        dataset: the dataset of the questions.
        level: level of the rankings; turns are scored as turns and, by the official rules, also as sessions.
    """

    def __init__(self, dataset: LongMemEvalDataset, level: Granularity) -> None:
        self._dataset = dataset
        self._level: Granularity = level
        self._unlabelled: set[str] = set()
        self._values: dict[tuple[str, Denominator], list[QuestionValues]] = {
            (view, denominator): [] for view in _VIEWS[level] for denominator in _DENOMINATORS
        }

    def add(self, record: Record, ranked: Sequence[str]) -> None:
        """Score one question by all ids of its corpus in ranked order."""
        counted = {denominator: is_counted(record, denominator) for denominator in _DENOMINATORS}
        labelled = is_labelled(self._dataset, record)
        if not labelled:
            self._unlabelled.add(record.question_id)
        for view, scores in _scores(ranked, self._level).items():
            scored = dict(zip(_NAMES, chain.from_iterable(scores.values()), strict=True))
            values: Mapping[str, float | None] = scored if labelled else dict.fromkeys(_NAMES)
            question = QuestionValues(record.question_id, record.question_type, record.question_id, values)
            for denominator in _DENOMINATORS:
                if counted[denominator]:
                    self._values[view, denominator].append(question)

    def results(self, memory: str) -> tuple[RetrievalResult, ...]:
        """Return the means: by `run_retrieval.py`'s denominator, then by that of `print_retrieval_metrics.py`."""
        return tuple(
            self._result(memory, view, denominator, questions)
            for (view, denominator), questions in self._values.items()
        )

    def _result(
        self, memory: str, view: str, denominator: Denominator, questions: Sequence[QuestionValues]
    ) -> RetrievalResult:
        without = tuple(q.question_id for q in questions if q.question_id in self._unlabelled)
        left_out = f"; {len(without):,} without turn labels have no value" if without else ""
        summary = aggregate(questions, _MEASURES, DENOMINATORS[denominator] + left_out, type_order=ORDER)
        return RetrievalResult(
            memory, "official", view, _GOLD[view], summary.denominator, summary.measures, summary.by_type, without
        )


def longmemeval_data(dataset: Dataset) -> LongMemEvalDataset:
    """Return the dataset, whose records the protocol reads.

    Raises:
        HarnessError: the dataset is in another format.
    """
    if not isinstance(dataset, LongMemEvalDataset):
        raise HarnessError(
            f"The official retrieval protocol reads LongMemEval's files; '{dataset.name}' has another format",
            where=str(dataset.path),
            fix="Use --protocol standard",
        )
    return dataset


def scored_again(
    dataset: Dataset, level: Granularity, rankings: Mapping[str, Sequence[str]], memory: str
) -> tuple[RetrievalResult, ...]:
    """Return the results of a finished run.

    Args:
        dataset: the dataset that it ranked.
        level: level of the rankings.
        rankings: all corpus ids, best first, by question id.
        memory: the memory's name.
    """
    data = longmemeval_data(dataset)
    scoring = OfficialScoring(data, level)
    for record in data.records():
        if record.question_id in rankings:
            scoring.add(record, rankings[record.question_id])
    return scoring.results(memory)


def official_metrics(ranked: Sequence[str], level: Granularity) -> dict[str, dict[str, float]]:
    """Return the `metrics` of a line of the official log, under their official names.

    Args:
        ranked: all corpus ids, best first.
        level: level of the ranking; a ranking of sessions has no metrics of turns.
    """
    scores = _scores(ranked, level)
    by_level = {"session": scores.get("turn2session") or scores["session"], "turn": scores.get("turn", {})}
    return {
        name: {
            f"{metric}@{cutoff}": value
            for cutoff, three in at.items()
            for metric, value in zip(("recall_any", "recall_all", "ndcg_any"), three, strict=True)
        }
        for name, at in by_level.items()
    }


def _scores(ranked: Sequence[str], level: Granularity) -> dict[str, _Scores]:
    """Return the scores by view and cutoff. The ranking serves as the corpus: only how often it has an id counts."""
    return {view: evaluate(ranked) for view, evaluate in _VIEWS[level].items()}


# The output of `src/evaluation/print_qa_metrics.py` of the official repository for a judged log.


def official_figures(judge_labels: Labels) -> OfficialFigures | None:
    """Return the script's figures, for comparison with published ones; None for a judge whose log it refuses.

    The script asserts the name of the judge's model. Its figures differ from `compute_metrics` if labels are missing:
    it knows only the questions that were answered and judged, so each missing question leaves the denominator. It
    counts a question as often as it occurs in the log.
    """
    names_the_official = is_imported(judge_labels.judge) and judge_labels.judge.model == OFFICIAL_MODEL
    if not judge_labels.official and not names_the_official:
        return None
    judged = [gold for gold in judge_labels.golds if gold.question_id in judge_labels.labels]
    counted = judge_labels.times or {}

    def mean(group: Iterable[Gold]) -> float | None:
        values = [
            judge_labels.labels[gold.question_id] for gold in group for _ in range(counted.get(gold.question_id, 1))
        ]
        return sum(values) / len(values) if values else None

    by_type = {name: mean(gold for gold in judged if gold.question_type == name) for name in ORDER}
    accuracies = [accuracy for accuracy in by_type.values() if accuracy is not None]
    complete = len(accuracies) == len(ORDER)
    return OfficialFigures(
        by_type={name: _rounded(accuracy) for name, accuracy in by_type.items()},
        task_averaged=_rounded(sum(accuracies) / len(accuracies)) if complete else None,
        overall=_rounded(mean(judged)),
        abstention=_rounded(mean(gold for gold in judged if "_abs" in gold.question_id)),
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
