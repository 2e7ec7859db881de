"""Give the answer of `retrieval` in one sentence: which memory finds the evidence best, if that is shown.

The best memory that reads no gold is compared with every other, question by question, and must beat all of them. The
p values are multiplied by the number of all pairs (Bonferroni), as the best was chosen by its figures.
"""

from collections.abc import Sequence
from math import comb

from longmemeval.core.text.figures import bounds, count_of, listed, percent, signed
from longmemeval.measures.notation import Mean, Measure
from longmemeval.pipeline.retrieval.ranking_run import RetrievalRun
from longmemeval.statistics.paired import Paired, compare_pairs
from longmemeval.statistics.power import ALPHA


def retrieval_sentence(runs: Sequence[RetrievalRun]) -> str:
    """Return the result of the first table, by its first measure.

    Args:
        runs: one per memory, at least one.
    """
    measure = Measure.parse(next(iter(runs[0].results[0].measures)))
    known = [run for run in runs if _mean(run, measure).mean is not None]
    if not known:
        return (
            f"Recall of {listed([_name(run) for run in runs], 3)} is unknown: no message or session ids were returned."
        )
    order = sorted(known, key=lambda run: _rank(run, measure), reverse=True)
    rivals = [run for run in order if not run.settings.reads_gold] or order
    best, *others = rivals
    on = f" on {count_of(_mean(best, measure).n, 'question')}"
    if not others:
        return f"{_name(best)}: {measure} {_with_interval(best, measure)}{on}."
    second = others[0]
    pairs = [_pair(best, other, str(measure)) for other in others]
    pair = pairs[0]
    if pair is None:
        figures = f"{_with_interval(best, measure)}; {_name(second)}: {_with_interval(second, measure)}"
        return f"{_name(best)} has the highest {measure}: {figures}{on}; the difference was not tested."
    shown = all(compared is not None and compared.p * comb(len(rivals), 2) < ALPHA for compared in pairs)
    if not others[1:]:
        both = f"No significant difference between {_name(best)} and {_name(second)}"
        claim = f"{_name(best)} is significantly better than {_name(second)}" if shown else both
    elif shown:
        claim = f"{_name(best)} is significantly better than each of the {len(others)} other memories"
    else:
        claim = f"No memory is significantly better than all others; {_name(best)} has the highest {measure}"
    low, high = map(signed, pair.interval)
    figures = " vs. ".join(f"{percent(_mean(run, measure).mean)} ({_name(run)})" for run in (best, second))
    return f"{claim}: {measure} {figures}{on}; 95% CI of the difference [{low}, {high}] points."


def _name(run: RetrievalRun) -> str:
    return run.settings.memory_name


def _mean(run: RetrievalRun, measure: Measure) -> Mean:
    return run.results[0].measures[str(measure)]


def _rank(run: RetrievalRun, measure: Measure) -> float:
    mean = _mean(run, measure).mean or 0.0
    return -mean if measure.kind.lower_is_better else mean


def _with_interval(run: RetrievalRun, measure: Measure) -> str:
    found = _mean(run, measure)
    interval = f", 95% CI {bounds(found.interval)}" if found.interval else ""
    return f"{percent(found.mean)}{interval}"


def _pair(a: RetrievalRun, b: RetrievalRun, measure: str) -> Paired | None:
    """Compare two memories on the questions that have a value; None if there are none."""
    first, second = (_values(run, measure) for run in (a, b))
    common = first.keys() & second.keys()
    if not common:
        return None
    units = {entry.question_id: entry.haystack_id for entry in a.values}
    ours, theirs = ({question_id: values[question_id] for question_id in common} for values in (first, second))
    return compare_pairs(ours, theirs, units)


def _values(run: RetrievalRun, measure: str) -> dict[str, float]:
    return {entry.question_id: value for entry in run.values if (value := entry.values[measure]) is not None}
