"""Decide what a comparison says, as sentences: the verdict on the highest-scoring memory, and what limits it.

Better and worse need p below 0.05 after Holm's adjustment over the family of tests that the table shows; "equivalent"
needs the 95% CI of the paired difference inside the margin. A difference that is not significant is never
called equal. Controls are never the subject where there is a memory.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import count
from math import fsum
from typing import Any

from msgspec import Struct

from longmemeval.core.text.paths import without_places
from longmemeval.judges.template_set import judge_name
from longmemeval.measures.metrics import Metrics
from longmemeval.pipeline.compare.comparison import ComparedRun, Family, Finding, PairResult, RepeatGroup, Verdict
from longmemeval.pipeline.compare.repeats import Pool
from longmemeval.pipeline.compare.sentences import Kind, Sentence
from longmemeval.results.graded.graded_run import GradedRun
from longmemeval.statistics.paired import compare_credits, holm
from longmemeval.statistics.power import ALPHA
from longmemeval.statistics.resampling import share_haystacks, smallest_p

MARGIN = 0.03
"""The default margin: two runs are equivalent if the interval of their difference lies inside it."""
_SAME_TOKENS = 0.05
"""The relative difference below which two mean numbers of tokens count as the same."""
_FINDINGS: dict[str, Finding] = {
    "one-run": "score",
    "better": "better",
    "worse": "worse",
    "equivalent": "as well as",
    "identical": "alike",
    "not-significant": "not shown",
    "excludes-zero": "not shown",
    "too-few": "not shown",
}


class Evidence(Struct, frozen=True, kw_only=True):
    """What a verdict is drawn from."""

    rows: Sequence[ComparedRun]
    """Every configuration, the baseline first."""
    results: Mapping[str, PairResult]
    """Each other row minus the baseline, by the other's id, adjusted within the family."""
    pairs: Sequence[PairResult]
    """All pairs."""
    family: Family
    credits: Mapping[str, Mapping[str, float | None]]
    """Credits of each row by question; None: not evaluated."""
    repeats: Sequence[RepeatGroup] = ()
    margin: float = MARGIN
    not_surviving: Collection[tuple[str, str]] = ()

    @property
    def tests(self) -> int:
        """Number of tests in the family."""
        return len(self.pairs) if self.family == "pairs" else len(self.results)


def is_control(summary: GradedRun) -> bool:
    """Return True if a run is not a memory system, or reads the gold evidence."""
    return summary.control is not None or summary.reads_gold


def score_sentence(metrics: Metrics) -> Sentence:
    """Return the sentence with the score of one run and its interval."""
    overall, judge = metrics.overall, metrics.judge
    values = {
        "a": overall.accuracy,
        "metric": judge.metric,
        "i": overall.interval,
        "n": overall.n,
        "judge": judge_name(judge),
        "official": judge.official,
    }
    return Sentence("one-run", values, {"A": (metrics.run,)}, "verdict")


def verdict_on(evidence: Evidence, names: Mapping[str, str]) -> tuple[Verdict, list[Sentence]]:
    """Return the verdict and its sentences in order: missing labels, the conclusion, what limits it.

    Args:
        names: the name of every run by its id.
    """
    baseline, *others = evidence.rows
    if not others:
        first = [*missing_sentences(baseline.summary), score_sentence(baseline.summary.metrics)]
        more = list(_repeats(evidence, baseline))
        return _verdict(evidence, names, "one-run", baseline, None, first, more), [*first, *more]
    memories = [row for row in others if not is_control(row.summary)]
    candidates = memories or others
    highest = max(_score(row) for row in candidates)
    best = [row for row in candidates if _score(row) == highest]
    run, pair = best[0], evidence.results[best[0].run_id]
    told = not any("budget=" in names[row.run_id] for row in evidence.rows)
    conclusion = _conclusion(evidence, run, pair, len(candidates), told=told)
    code, winner = conclusion.code, None
    if evidence.family == "pairs" and len(memories) > 1:
        conclusion, winner = _of_all_pairs(
            evidence, [row for row in (baseline, *memories) if not is_control(row.summary)]
        )
    missing = [*missing_sentences(run.summary), *missing_sentences(baseline.summary)]
    first = [*missing, *_missing_difference(evidence, run), conclusion]
    more = list(_limits(evidence, run, pair, best, memories, code))
    failed = [one for row in others if row is not run for one in failed_sentence(row.summary, "caution")]
    return _verdict(evidence, names, code, run, winner, first, more), [*first, *more, *failed]


def _verdict(
    evidence: Evidence,
    names: Mapping[str, str],
    code: str,
    run: ComparedRun,
    winner: str | None,
    first: Sequence[Sentence],
    more: Sequence[Sentence],
) -> Verdict:
    single = len(evidence.rows) == 1
    return Verdict(
        code=code,
        finding=_FINDINGS[code],
        run=run.run_id,
        baseline=None if single else evidence.rows[0].run_id,
        winner=winner,
        margin=evidence.margin,
        text=" ".join(sentence.text(names) for sentence in first),
        more=" ".join(sentence.text(names) for sentence in more),
    )


def _score(row: ComparedRun) -> float:
    return row.summary.metrics.overall.accuracy


def _conclusion(evidence: Evidence, run: ComparedRun, pair: PairResult, memories: int, *, told: bool) -> Sentence:
    """Return the sentence on the highest-scoring memory and the baseline.

    Args:
        memories: the number of memories.
        told: say under which token budgets they recalled.
    """
    baseline = evidence.rows[0]
    values: dict[str, Any] = {
        "a": _score(run),
        "b": _score(baseline),
        "d": pair.difference,
        "i": pair.interval,
        "p": pair.p_holm,
        "k": evidence.tests,
        "m": memories,
        "margin": evidence.margin,
        "test": pair.test,
        "t": (run.asked_budget, baseline.asked_budget) if told else (None, None),
    }
    least, tests = smallest_p(pair.units), evidence.tests
    low, high = pair.interval
    if pair.significant:
        code = "better" if pair.difference > 0 else "worse"
    elif least * tests >= ALPHA:
        code = "too-few"
        shared = baseline.summary.metrics.haystacks
        unit = "haystack" if shared and shared == pair.units else "question"
        needed = next(number for number in count(1) if smallest_p(number) * tests < ALPHA)
        values |= {"u": (pair.units, unit), "q": (needed, unit)}
    elif run.changes is not None and run.changes[:2] == (0, 0):
        code = "identical"
    elif -evidence.margin < low and high < evidence.margin:
        code = "equivalent"
    else:
        code = "excludes-zero" if low > 0 or high < 0 else "not-significant"
    return Sentence(code, values, {"A": (run.run_id,), "B": (baseline.run_id,)}, "verdict")


def _of_all_pairs(evidence: Evidence, memories: Sequence[ComparedRun]) -> tuple[Sentence, str | None]:
    """Return the sentence on all pairs, and the memory that is significantly better than every other, if one is."""
    scores = {row.run_id: _score(row) for row in memories}
    best = max(scores, key=scores.__getitem__)
    both_ways = {(result.a, result.b): result for pair in evidence.pairs for result in (pair, pair.turned)}
    ahead = [both_ways[best, other] for other in scores if other != best]
    budgets = {row.asked_budget for row in memories}
    values: dict[str, Any] = {"a": scores[best], "k": len(evidence.pairs), "t": (None, None)}
    if len(budgets) == 1:
        values["t"] = (memories[0].asked_budget,) * 2
    if all(result.is_better for result in ahead):
        nearest = min(ahead, key=lambda result: result.difference)
        values |= {"m": len(ahead), "d": nearest.difference}
        return Sentence("pairs-winner", values, {"A": (best,), "B": (nearest.b,)}, "verdict"), best
    values["s"] = sum(pair.significant for pair in evidence.pairs)
    return Sentence("pairs-no-winner", values, {"A": (best,)}, "verdict"), None


def failed_sentence(summary: GradedRun, kind: Kind = "verdict") -> Iterator[Sentence]:
    """Yield how many questions failed, and the commonest error, if any failed."""
    if told := summary.failures.told:
        yield Sentence("failed-questions", {"told": without_places(told)}, {"A": (summary.run_id,)}, kind)


def missing_sentences(summary: GradedRun) -> Iterator[Sentence]:
    """Yield how many questions failed or were not graded, and the score if all of them were right."""
    yield from failed_sentence(summary)
    overall = summary.metrics.overall
    if overall.not_evaluated:
        high = min(1.0, overall.accuracy + overall.not_evaluated / overall.n)
        values = {"u": overall.not_evaluated, "n": overall.n, "a": overall.accuracy, "high": high}
        yield Sentence("missing-labels", values, {"A": (summary.run_id,)}, "verdict")


def _missing_difference(evidence: Evidence, run: ComparedRun) -> Iterator[Sentence]:
    """Yield the difference on the questions graded for both, where some are not."""
    own, base = evidence.credits[run.run_id], evidence.credits[evidence.rows[0].run_id]
    both = [(value, base[name]) for name, value in own.items() if value is not None and base[name] is not None]
    if both and len(both) < len(own):
        difference = sum(a - (b or 0.0) for a, b in both) / len(both)
        runs = {"A": (run.run_id,), "B": (evidence.rows[0].run_id,)}
        yield Sentence("missing-difference", {"n": len(both), "d": difference}, runs, "verdict")


def _limits(
    evidence: Evidence,
    run: ComparedRun,
    pair: PairResult,
    best: Sequence[ComparedRun],
    memories: Sequence[ComparedRun],
    code: str,
) -> Iterator[Sentence]:
    """Yield what follows the conclusion: its reservations, its power, ties, tokens."""
    baseline = evidence.rows[0]
    runs = {"A": (run.run_id,), "B": (baseline.run_id,)}
    if not memories and is_control(baseline.summary):
        yield Sentence("only-controls", {"a": _score(run), "b": _score(baseline)}, runs, "verdict")
    if (run.run_id, baseline.run_id) in evidence.not_surviving:
        yield Sentence("judge-correction", {"d": pair.difference, "i": pair.interval}, runs, "verdict")
    if pair.approximate:
        repeats = max(len(run.run_ids), len(baseline.run_ids))
        yield Sentence("approximate", {"r": repeats}, runs, "verdict")
    if code in ("not-significant", "excludes-zero") and pair.detectable is not None:
        values = {"n": baseline.summary.metrics.overall.n, "x": pair.detectable, "k": evidence.tests}
        yield Sentence("power", values, kind="verdict")
    if len(best) > 1:
        yield Sentence("tie", {"a": _score(run)}, {"names": tuple(row.run_id for row in best)}, "verdict")
    better = [row.run_id for row in memories if row not in best and evidence.results[row.run_id].is_better]
    if better and not pair.is_better:
        yield Sentence("others-better", {}, {**runs, "names": tuple(better)}, "verdict")
    yield from _repeats(evidence, run)
    if code == "identical" and (fits := _whole_history(run)):
        yield Sentence("whole-history", {"x": fits}, runs, "verdict")
    yield from _tokens(run, baseline)


def _repeats(evidence: Evidence, run: ComparedRun) -> Iterator[Sentence]:
    for group in evidence.repeats:
        if run.run_id == group.run_ids[0]:
            spread = group.spread
            values = {
                "a": spread.mean,
                "r": spread.n,
                "sd": spread.sd or 0.0,
                "low": spread.lowest,
                "high": spread.highest,
                "c": group.flips.flipped,
                "n": group.flips.questions,
            }
            yield Sentence("repeats", values, {"A": (run.run_id,)}, "verdict")


def _whole_history(run: ComparedRun) -> float | None:
    return next((w.share for w in run.summary.warnings if w.code == "history-fits" and w.share), None)


def _tokens(run: ComparedRun, baseline: ComparedRun) -> Iterator[Sentence]:
    """Yield the prompt tokens relative to the baseline's, and what preparing took where it was paid for."""
    own, base = run.summary.mean_prompt_tokens, baseline.summary.mean_prompt_tokens
    runs = {"A": (run.run_id,), "B": (baseline.run_id,)}
    if own and base and abs(own / base - 1) >= _SAME_TOKENS:
        yield Sentence("prompt-tokens", {"share": own / base}, runs, "verdict")
    prepare = run.summary.costs.prepare
    spent = (prepare.prompt_tokens or 0) + (prepare.completion_tokens or 0)
    if spent:
        questions = run.summary.metrics.overall.n
        values = {"y": spent / questions, "from_questions": run.cheaper_from}
        yield Sentence("tokens-prepared", values, runs, "verdict")


# Test every memory of a comparison against its best trivial control.
#
# These tests form a family of their own, apart from the table: k memories against one control, adjusted for k
# comparisons (Holm 1979).

Credits = Mapping[str, float | None]


def floor_sentence(pools: Sequence[Pool], credits: Mapping[str, Credits]) -> Sentence | None:
    """Say which memories are significantly better than the best trivial control, or that none can be.

    Args:
        pools: the configurations, over the same questions, graded by the same judge.
        credits: the credits of each by question, by the id of its first run.

    Returns:
        None if no run is a trivial control, or all runs are controls.
    """
    floors = [pool for pool in pools if pool[0].summary.control == "floor"]
    memories = [pool for pool in pools if pool[0].summary.control is None]
    if not floors or not memories:
        return None
    best = max(floors, key=lambda pool: _total(credits[pool[0].id]))
    base, haystacks = credits[best[0].id], best[0].haystacks
    values: dict[str, Any] = {"c": _total(base) / len(base), "m": len(memories)}
    runs = {"C": (best[0].id,)}
    if room := _out_of_reach(base, haystacks, len(memories)):
        return Sentence("control-out-of-reach", values | room, runs, "caution")
    own = [run.credits for run in best]
    results = [compare_credits([run.credits for run in pool], own, haystacks) for pool in memories]
    adjusted = holm([paired.p for paired in results])
    behind = tuple(
        pool[0].id
        for pool, paired, p in zip(memories, results, adjusted, strict=True)
        if p >= ALPHA or paired.difference <= 0
    )
    if not behind:
        return Sentence("all-better", values, runs)
    if len(behind) == len(memories):
        return Sentence("no-memory-helps", values, runs, "caution")
    return Sentence("memories-not-better", values, {**runs, "names": behind}, "caution")


def _out_of_reach(credits: Credits, haystacks: Mapping[str, str], memories: int) -> dict[str, Any] | None:
    """Return what the control leaves to win and what it would take, if no memory could be significantly better.

    A memory can only win questions that the control does not get right. One that wins all of them has the smallest
    possible p: under McNemar's test and under sign flipping alike, the p of that many signs that all agree.
    """
    shared = share_haystacks(list(haystacks.values()))
    left = {haystacks[name] if shared else name for name, credit in credits.items() if (credit or 0.0) < 1}
    if memories * smallest_p(len(left)) < ALPHA:
        return None
    needed = next(number for number in count(1) if memories * smallest_p(number) < ALPHA)
    return {"room": (len(left), "haystack" if shared else "question"), "q": needed}


def _total(credits: Credits) -> float:
    return fsum(credit or 0.0 for credit in credits.values())
