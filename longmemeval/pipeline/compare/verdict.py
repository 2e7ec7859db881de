"""Sum up a comparison in one short sentence that says no more than the paired statistics support.

Better and worse need p below 0.05 after Holm's adjustment over all pairs; "as well as" needs the 95 % interval of the
paired difference inside the margin. Controls are never winners.
"""

from collections.abc import Collection, Mapping, Sequence

from longmemeval.core.text.figures import count_of, in_percent, listed, percent, points, signed
from longmemeval.judges.official_status import judge_name
from longmemeval.measures.metrics import Metrics
from longmemeval.pipeline.compare.comparison import Finding, PairResult, RepeatGroup, Verdict
from longmemeval.results.graded.graded_run import RunSummary
from longmemeval.statistics.power import ALPHA
from longmemeval.statistics.resampling import smallest_p

MARGIN = 0.03
"""The default margin: two runs do as well as each other if the interval of their difference lies inside it."""
_SHARES = {50: "half", 33: "a third", 25: "a quarter", 20: "a fifth", 10: "a tenth"}
"""Words for some rounded percentages."""
_AS_MANY = 0.05
"""The relative difference below which two mean numbers of tokens count as the same."""


def score_sentence(metrics: Metrics, name: str = "") -> str:
    """Return one sentence with the score of a run and its interval.

    Args:
        name: display name of the run; empty: its id.
    """
    overall, judge = metrics.overall, metrics.judge
    low, high = map(in_percent, overall.interval)
    missing = f" ({overall.not_evaluated:,} not evaluated)" if overall.not_evaluated else ""
    unofficial = "" if judge.official else ", not the official judge"
    return (
        f"{name or metrics.run}: {percent(overall.accuracy)} {judge.metric} (95 % interval {low} to {high}) on "
        f"{count_of(overall.n, 'question')}{missing}, by {judge_name(judge)}{unofficial}."
    )


def verdict_of(
    summaries: Sequence[RunSummary],
    pairs: Sequence[PairResult],
    repeats: Sequence[RepeatGroup] = (),
    *,
    margin: float = MARGIN,
    not_surviving: Collection[tuple[str, str]] = (),
    called: Mapping[str, str] = {},
) -> Verdict:
    """Return the verdict on runs.

    Args:
        summaries: summaries of the runs; the first is the baseline.
        pairs: every run paired with every later one.
        repeats: runs of one configuration, which do not compete with each other.
        margin: a fraction between 0 and 1.
        not_surviving: ids of pairs whose difference is no longer shown once corrected for the judge's errors.
        called: run id -> display name, for runs whose name in the sentence is not their id.
    """
    baseline, *others = summaries
    if not others:
        text = score_sentence(baseline.metrics, called.get(baseline.run_id, ""))
        return Verdict(text, "score", baseline.run_id, None, None, margin)
    against = {pair.b: pair.turned for pair in pairs if pair.a == baseline.run_id}
    systems = [summary for summary in others if not is_control(summary)]

    def rank(summary: RunSummary) -> tuple[bool, float]:
        return against[summary.run_id].is_better, summary.metrics.overall.accuracy

    run = max(systems or others, key=rank)
    pair = against[run.run_id]
    finding = _finding(pair, baseline.metrics, margin)
    winner = _winner([*systems, *([] if is_control(baseline) else [baseline])], baseline, pairs, repeats)
    name, base = (called.get(summary.run_id, summary.run_id) for summary in (run, baseline))
    wins = winner if len(systems) > 1 else None
    subject = name if wins is None else "it" if wins == run.run_id else f"the best of the others, {name},"
    scores = f"{in_percent(run.metrics.overall.accuracy)} against {percent(baseline.metrics.overall.accuracy)}"
    text = _sentence(subject, base, pair, finding, scores, _can_show(pair, baseline.metrics, len(pairs)), margin)
    limits = _limits(run, pair, () if winner else systems, pairs, called, not_surviving) if pair.significant else ""
    tokens = _tokens(run, baseline)
    if tokens and not limits:
        name_or_it = name if finding in ("not shown", "alike") or wins == baseline.run_id else "it"
        text += f"; {name_or_it} {tokens}"
    more = [_best_of(name, systems, others, winner)] if len(systems) > 1 else []
    if finding == "not shown" and _at_best(pair, baseline.metrics, len(pairs)):
        more.append(f"That limit is for two runs alone; among {len(pairs)} pairs it is higher.")
    if tokens and limits:
        more.append(f"{name} {tokens}.")
    text = f"{called.get(wins, wins)} wins: {text}{limits}." if wins else f"{text}{limits}."
    return Verdict(text, finding, run.run_id, baseline.run_id, winner, margin, " ".join(more))


def _best_of(name: str, systems: Sequence[RunSummary], others: Sequence[RunSummary], winner: str | None) -> str:
    """Return a sentence on how many runs the named one is the best of, and on whether there is a winner."""
    apart = "" if len(systems) == len(others) else ", controls apart"
    none = "" if winner else "; there is no winner"
    return f"{name} is the best of the {len(systems)} other runs{apart}{none}."


def is_control(summary: RunSummary) -> bool:
    """Return True if a run is not a memory system, or reads the gold evidence."""
    return summary.control is not None or summary.reads_gold


def _finding(pair: PairResult, metrics: Metrics, margin: float) -> Finding:
    low, high = pair.interval
    if pair.significant:
        return "better" if pair.difference > 0 else "worse"
    if smallest_p(metrics.independent_units) >= ALPHA:
        return "not shown"
    if pair.detectable is None:
        return "alike"
    return "as well as" if -margin < low and high < margin else "not shown"


def _winner(
    systems: Sequence[RunSummary], baseline: RunSummary, pairs: Sequence[PairResult], repeats: Sequence[RepeatGroup]
) -> str | None:
    better = {(result.a, result.b) for pair in pairs for result in (pair, pair.turned) if result.is_better}
    ids = {summary.run_id for summary in systems}
    for run_id in ids:
        same = next((set(group.run_ids) for group in repeats if run_id in group.run_ids), {run_id})
        if all((run_id, other) in better for other in (ids | {baseline.run_id}) - same):
            return run_id
    return None


def _beats(run: RunSummary, other: RunSummary, pairs: Sequence[PairResult]) -> bool:
    ids = (run.run_id, other.run_id)
    return any(result.is_better for pair in pairs for result in (pair, pair.turned) if (result.a, result.b) == ids)


def _sentence(
    name: str, base: str, pair: PairResult, finding: Finding, scores: str, can_show: str, margin: float
) -> str:
    low, high = map(signed, pair.interval)
    if finding == "not shown":
        return f"No difference between {name} and {base} is shown ({scores}; {can_show})"
    if finding == "alike":
        return f"{name} and {base} score alike on every question ({scores.rpartition(' against ')[2]})"
    if finding == "as well as":
        inside = f"95 % interval of the difference {low} to {high}, inside a margin of {points(margin)}"
        return f"{name} does as well as {base} ({scores}; {inside})"
    by = points(abs(pair.difference))
    return f"{name} is {finding} than {base} by {by} ({scores}; 95 % interval {low} to {high})"


def _limits(
    run: RunSummary,
    pair: PairResult,
    systems: Sequence[RunSummary],
    pairs: Sequence[PairResult],
    called: Mapping[str, str],
    not_surviving: Collection[tuple[str, str]],
) -> str:
    """Return the reservations about a difference that is shown; usually empty."""
    text = ""
    if (pair.b, pair.a) in not_surviving:
        text = "; corrected for the judge's errors, that difference is not shown"
    rivals = [summary.run_id for summary in systems if summary is not run and not _beats(run, summary, pairs)]
    if rivals and pair.is_better:
        text += f", but not shown to be better than {listed([called.get(run_id, run_id) for run_id in rivals], 2)}"
    return text


def _at_best(pair: PairResult, metrics: Metrics, pairs: int) -> bool:
    """Return True if the questions can show a difference, and a smaller one if only two runs are compared."""
    return pairs > 1 and pair.detectable is not None and smallest_p(metrics.independent_units) * pairs < ALPHA


def _can_show(pair: PairResult, metrics: Metrics, pairs: int) -> str:
    """Return how large a difference the questions can show."""
    number = count_of(metrics.haystacks, "haystack") if metrics.haystacks else count_of(metrics.overall.n, "question")
    least = smallest_p(metrics.independent_units)
    if least >= ALPHA or pair.detectable is None:
        return f"{number} can show none, however large"
    if least * pairs >= ALPHA:
        return f"{number} can show none among {pairs} pairs, however large"
    return f"with {number} a difference of {points(pair.detectable)} or more would show"


def _tokens(run: RunSummary, baseline: RunSummary) -> str:
    """Return the run's tokens relative to the baseline's; empty if about the same or unknown."""
    if not run.mean_prompt_tokens or not baseline.mean_prompt_tokens:
        return ""
    share = run.mean_prompt_tokens / baseline.mean_prompt_tokens
    if abs(share - 1) < _AS_MANY:
        return ""
    hundredths = round(share * 100)
    if share > 1:
        words = f"{share:.1f} times"
    else:
        words = _SHARES.get(hundredths, f"{hundredths} %" if hundredths else "less than 1 %") + " of"
    return f"uses {words} the tokens"
