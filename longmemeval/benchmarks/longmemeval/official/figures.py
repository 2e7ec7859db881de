"""The output of `src/evaluation/print_qa_metrics.py` of the official repository for a judged log."""

from collections.abc import Iterable

from longmemeval.benchmarks.longmemeval.benchmark import ORDER
from longmemeval.benchmarks.longmemeval.judge import OFFICIAL_MODEL
from longmemeval.judges.people import is_imported
from longmemeval.judges.question_types import Labels, OfficialFigures
from longmemeval.records import Gold


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
