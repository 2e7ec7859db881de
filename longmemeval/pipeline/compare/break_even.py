"""Find how many questions per history make a memory, including its preparation, cheaper than the full history."""

from collections.abc import Sequence
from math import floor
from typing import Literal, NamedTuple

from longmemeval.results.graded.graded_run import Cost, Evaluation
from longmemeval.results.graded.judge_checks import is_full_history
from longmemeval.results.settings import AnswerSettings


class _Rates(NamedTuple):
    """Unit costs in US dollars."""

    history: float
    """The cost of preparing one history."""
    question: float
    """The cost of analysing and answering one question."""


def break_even(run: Evaluation, runs: Sequence[Evaluation]) -> int | Literal["never"] | None:
    """Return the number of questions on one history from which a run's memory costs less than the full history.

    If preparing a history costs `p` and answering a question costs `m`, against `P` and `M` for the full history, this
    is the smallest `q` for which `p + q * m < P + q * M`. Judging is left out: it costs the same for both.

    Args:
        runs: all compared runs; one of them should use the full history with the same model and reading.

    Returns:
        "never" if a question costs no less than with the full history. None if that is unknown: there is no such run,
        nothing was paid for, a price is missing, or the cache answered calls, which hides what they cost.
    """
    settings = run.manifest.settings
    full = next(
        (other for other in runs if is_full_history(other.manifest.settings) and _same_reader(other, run)), None
    )
    if full is None or full is run or run.summary.reads_gold or not isinstance(settings, AnswerSettings):
        return None
    mine, its = _rates(run), _rates(full)
    if mine is None or its is None or not its.question:
        return None
    if mine.question >= its.question:
        return "never"
    return max(1, floor((mine.history - its.history) / (its.question - mine.question)) + 1)


def _same_reader(run: Evaluation, other: Evaluation) -> bool:
    a, b = run.manifest.settings, other.manifest.settings
    if not isinstance(a, AnswerSettings) or not isinstance(b, AnswerSettings):
        return False
    return (a.model, a.reading, a.batch) == (b.model, b.reading, b.batch)


def _rates(run: Evaluation) -> _Rates | None:
    costs, histories, questions = run.summary.costs, len(run.manifest.fixtures), run.summary.metrics.overall.n
    prepare, answering = _known(costs.prepare), [_known(costs.question_analysis), _known(costs.answers)]
    if prepare is None or None in answering or not histories or not questions:
        return None
    return _Rates(prepare / histories, sum(usd for usd in answering if usd is not None) / questions)


def _known(cost: Cost) -> float | None:
    return None if cost.cached_calls else cost.usd
