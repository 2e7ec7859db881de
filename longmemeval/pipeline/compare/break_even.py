"""From how many questions on one history a memory, its preparing included, is cheaper than the full history."""

from collections.abc import Sequence
from math import floor
from typing import Literal, NamedTuple

from longmemeval.results.graded.controls import is_full_history
from longmemeval.results.graded.costs import Cost
from longmemeval.results.graded.graded_run import Evaluation
from longmemeval.results.settings import AnswerSettings


class _Rates(NamedTuple):
    """US dollars."""

    history: float
    """Preparing one history."""
    question: float
    """Analysing and answering one question."""


def break_even(run: Evaluation, runs: Sequence[Evaluation]) -> int | Literal["never"] | None:
    """Return the number of questions on one history from which a run's memory costs less than the full history.

    With a history prepared for `p` and a question answered for `m`, against `P` and `M` of the full history, it is the
    smallest `q` for which `p + q * m < P + q * M`. Judging is left out: it costs the same for both.

    Args:
        run: the run.
        runs: all runs compared, among them one of the full history by the same model and reading.

    Returns:
        "never" if its questions cost no less; None where that is not known: there is no such run, nothing was paid
        for, a price is missing, or calls were answered by the cache, which hides what they cost.
    """
    settings = run.manifest.settings
    full = next((one for one in runs if is_full_history(one.manifest.settings) and _same_reader(one, run)), None)
    if full is None or full is run or run.summary.reads_gold or not isinstance(settings, AnswerSettings):
        return None
    mine, its = _rates(run), _rates(full)
    if mine is None or its is None or not its.question:
        return None
    if mine.question >= its.question:
        return "never"
    return max(1, floor((mine.history - its.history) / (its.question - mine.question)) + 1)


def _same_reader(one: Evaluation, other: Evaluation) -> bool:
    a, b = one.manifest.settings, other.manifest.settings
    if not isinstance(a, AnswerSettings) or not isinstance(b, AnswerSettings):
        return False
    return (a.model, a.reading, a.batch) == (b.model, b.reading, b.batch)


def _rates(run: Evaluation) -> _Rates | None:
    costs, histories, questions = run.summary.costs, len(run.manifest.fixtures), run.summary.metrics.overall.n
    prepare, asked = _known(costs.prepare), [_known(costs.question_analysis), _known(costs.answers)]
    if prepare is None or None in asked or not histories or not questions:
        return None
    return _Rates(prepare / histories, sum(usd for usd in asked if usd is not None) / questions)


def _known(cost: Cost) -> float | None:
    return None if cost.cached_calls else cost.usd
