"""Compare graded runs side by side, question by question, with significance tests."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import combinations

import msgspec
from msgspec import Struct, structs

from longmemeval.core.files import sha256_bytes
from longmemeval.core.on_demand import without_collector
from longmemeval.core.text.figures import signed, signed_bounds
from longmemeval.errors import HarnessError
from longmemeval.llm.controls import CONTROL_MODELS
from longmemeval.memory.products.known import product_deviations
from longmemeval.pipeline.compare.break_even import break_even
from longmemeval.pipeline.compare.comparable import (
    check_comparable,
    on_common_questions,
    setting_differences,
    what_differs,
)
from longmemeval.pipeline.compare.comparison import (
    INSIDE_THE_NOISE,
    Comparison,
    Discordant,
    Note,
    PairResult,
    QuestionRow,
    RepeatGroup,
    RunFigures,
)
from longmemeval.pipeline.compare.detectable import detectable_difference, planned_difference
from longmemeval.pipeline.compare.digest import digest_of
from longmemeval.pipeline.compare.flips import flips_of, pool_repeats
from longmemeval.pipeline.compare.floor import floor_note
from longmemeval.pipeline.compare.tokens import budget_of, with_token_warnings
from longmemeval.pipeline.compare.verdict import MARGIN, verdict_of
from longmemeval.results.graded.graded_run import Evaluation
from longmemeval.results.graded.losses import Losses, StoredSessions, losses
from longmemeval.results.index import settings_sha256
from longmemeval.results.scores.remembered import Remembered
from longmemeval.results.settings import AnswerSettings
from longmemeval.settings import Folders
from longmemeval.statistics.misclassification import NotCorrectable, corrected_difference
from longmemeval.statistics.paired import Paired, compare_scores, holm, scores_in
from longmemeval.statistics.power import ALPHA, independent_units
from longmemeval.statistics.resampling import smallest_p
from longmemeval.statistics.spread import repeat_spread

_THREADS = 2


@without_collector()
def compare_runs(
    graded: Sequence[Evaluation],
    folders: Folders,
    *,
    seed: int = 0,
    common: bool = False,
    margin: float = MARGIN,
    remembered: Remembered | None = None,
) -> Comparison:
    """Compare runs that have been loaded.

    Args:
        graded: one or more runs, in the order of display.
        folders: their fixtures, if they still exist, show which sessions were stored.
        seed: seed of the resampling.
        common: compare on the questions that all runs share.
        margin: margin of the verdict, a fraction (see `verdict_of`).
        remembered: cache of pairs computed from the same credits; None: compute all of them.

    Raises:
        HarnessError: there is no run, or the runs differ in data, questions, judge or metric.
    """
    if not graded:
        raise HarnessError("There is nothing to compare", fix="Name at least one graded run")
    left_out: list[str] = []
    if common:
        graded, left_out = on_common_questions(graded)
    check_comparable(graded)
    graded = with_token_warnings(graded)
    credits = [run.credits for run in graded]
    asked = graded[0].asked
    pairs, repeats = _pairs(graded, credits, seed, remembered or Remembered()), tuple(_repeats(graded))
    stored = StoredSessions(folders)
    lost = [losses(run, stored) for run in graded]
    corrected, first = list(_corrected(graded, pairs)), graded[0].manifest.run_id
    answering = [run for run in graded if run.summary.model not in CONTROL_MODELS]
    differing = setting_differences(answering)
    lost_pairs = tuple(item.pair for item in corrected if item.survives is False)
    verdict = verdict_of([run.summary for run in graded], pairs, repeats, margin=margin, not_surviving=lost_pairs)
    subject = next(place for place, run in enumerate(graded) if run.manifest.run_id == verdict.run)
    notes = (
        *(Note(text, caution=True) for text in left_out),
        *(Note(item.text, caution=item.survives is False and item.pair[0] == first) for item in corrected),
        *filter(None, [floor_note(graded, seed)]),
        *what_differs(answering),
        *(Note(text) for text in differing.values()),
        *_not_known(stored),
        *_too_few(len(pairs), graded[0].haystacks),
    )
    return Comparison(
        dataset=graded[0].manifest.dataset["name"],
        common=bool(left_out),
        runs=tuple(_figures(run, run_losses, pairs, graded) for run, run_losses in zip(graded, lost, strict=True)),
        pairs=tuple(pairs),
        questions=tuple(
            _row(question_id, asked.question_type(question_id), credits, lost) for question_id in asked.questions
        ),
        repeats=repeats,
        detectable=_detectable(graded[0], pairs),
        warnings=tuple(note.text for note in notes),
        verdict=verdict,
        digest=digest_of(graded[subject], lost[subject], [*graded[:subject], *graded[subject + 1 :]]),
        cautions=tuple(note.text for note in notes if note.caution),
        differing=differing,
        not_surviving=lost_pairs,
        evaluations=tuple(graded),
    )


def _detectable(first: Evaluation, pairs: Sequence[PairResult]) -> float | None:
    """Return the difference that every pair can show; for a single run, a planning figure (`Comparison.detectable`)."""
    if not pairs:
        return planned_difference(first.haystacks, labels=first.metrics.judge.metric == "accuracy")
    return max((pair.detectable for pair in pairs if pair.detectable is not None), default=None)


def _pairs(
    graded: Sequence[Evaluation], credits: Sequence[Mapping[str, float | None]], seed: int, remembered: Remembered
) -> list[PairResult]:
    """Return the pairs, from the cache if they were computed from the same credits before."""

    def cache_key() -> tuple[str, ...]:
        inputs = [run.id for run in graded], credits, graded[0].haystacks, graded[0].metrics.judge.metric, seed
        return "pairs", sha256_bytes(msgspec.json.encode(inputs))

    return remembered.of(list[PairResult], cache_key, partial(pairs_of, graded, seed))


def pairs_of(graded: Sequence[Evaluation], seed: int = 0) -> list[PairResult]:
    """Compare every run with every later run; adjust the p values for the number of pairs."""
    haystacks = graded[0].haystacks
    questions = sorted(graded[0].asked.questions)
    clusters = tuple(haystacks.get(question_id, question_id) for question_id in questions)
    scores = [scores_in(run.credits, questions) for run in graded]
    ids = [run.manifest.run_id for run in graded]
    places = list(combinations(range(len(graded)), 2))

    def compare(pair: tuple[int, int]) -> Paired:
        # Compare in the order of the ids and turn the result round after: the resampling must not depend on the order
        # in which the runs were given.
        a, b = sorted(pair, key=ids.__getitem__)
        paired = compare_scores(scores[a], scores[b], clusters, seed=seed)
        return paired if a == pair[0] else _turned(paired)

    # Most of the work is done by numpy, which releases the interpreter lock.
    with ThreadPoolExecutor(_THREADS) as pool:
        results = list(pool.map(compare, places))
    adjusted = holm([paired.p for paired in results])
    labels = graded[0].metrics.judge.metric == "accuracy"
    return [
        structs.replace(
            _pair(ids[first], ids[second], paired, p_holm, labels=labels),
            detectable=detectable_difference(scores[first] - scores[second], clusters, labels=labels),
        )
        for (first, second), paired, p_holm in zip(places, results, adjusted, strict=True)
    ]


def _too_few(pairs: int, haystacks: Mapping[str, str]) -> Iterator[Note]:
    """Yield a note if there are too few questions, or haystacks they share, for any difference to be significant."""
    units = independent_units(list(haystacks.values()))
    if pairs and smallest_p(units) * pairs >= ALPHA:
        what = "haystacks" if units < len(haystacks) else "question" if units == 1 else "questions"
        yield Note(
            f"With {units} {what} p is never below {smallest_p(units):.2g}: adjusted for {pairs:,} "
            f"{'pair' if pairs == 1 else 'pairs'}, no difference can reach significance. Compare fewer runs at a time, "
            f"or on more {what.removesuffix('s')}s.",
            caution=True,
        )


class _Corrected(Struct, frozen=True):
    """A significant difference, corrected for the judge's errors."""

    pair: tuple[str, str]
    text: str
    survives: bool | None
    """True if the corrected difference still excludes zero; None if it cannot be corrected."""


def _corrected(graded: Sequence[Evaluation], pairs: Sequence[PairResult]) -> Iterator[_Corrected]:
    """Yield each significant difference, corrected for the judge's errors."""
    stored = graded[0].check_of(graded[0].metrics.judge)
    rates = stored.rates if stored else None
    scores = {run.manifest.run_id: run.metrics.overall for run in graded}
    reasons = {run.manifest.run_id: check.reason for run in graded if (check := run.summary.judge_check)}
    for pair in pairs if rates else ():
        if pair.significant and rates:
            a, b = scores[pair.a], scores[pair.b]
            evaluated = (b.not_evaluated - a.not_evaluated) / a.n
            estimate = corrected_difference(pair.difference, pair.interval, rates, evaluated=evaluated)
            # Rates that do not hold for a run cannot correct its difference from another.
            odd = next((name for name in (pair.a, pair.b) if reasons.get(name)), None)
            survives = None
            if isinstance(estimate, NotCorrectable):
                finding = f"not possible, {estimate.reason}"
            elif odd:
                finding = f"not possible, as for {odd} {reasons[odd]}"
            else:
                low, high = estimate.interval
                survives = low > 0 or high < 0
                outcome = "the difference survives" if survives else "the difference does NOT survive"
                finding = f"{signed(estimate.value)} points {signed_bounds(estimate.interval)}, {outcome}"
            yield _Corrected(
                (pair.a, pair.b), f"{pair.a} - {pair.b}, corrected for the judge's errors: {finding}.", survives
            )


def _turned(paired: Paired) -> Paired:
    """Return the same comparison with the two runs swapped."""
    low, high = paired.interval
    return structs.replace(
        paired,
        difference=0.0 - paired.difference,
        interval=(0.0 - high, 0.0 - low),
        a_only=paired.b_only,
        b_only=paired.a_only,
    )


def _pair(a: str, b: str, paired: Paired, p_holm: float, *, labels: bool) -> PairResult:
    discordant = None
    if labels and paired.mcnemar_p is not None:
        discordant = Discordant(paired.a_only, paired.b_only, paired.mcnemar_p)
    result = PairResult(
        a=a,
        b=b,
        difference=paired.difference,
        interval=paired.interval,
        mcnemar=discordant,
        p=paired.p,
        test=paired.test,
        p_holm=p_holm,
        significant=p_holm < ALPHA,
        verdict=INSIDE_THE_NOISE,
    )
    return structs.replace(result, verdict=result.verdict_on(a, b)) if result.significant else result


def _figures(run: Evaluation, lost: Losses, pairs: Sequence[PairResult], runs: Sequence[Evaluation]) -> RunFigures:
    run_id, settings = run.manifest.run_id, run.manifest.settings
    memory = settings.memory
    # Pairs with the first run come before all others.
    to_first = next((pair for pair in pairs if pair.b == run_id), None)
    return RunFigures(
        summary=run.summary,
        reading=settings.reading.shown if isinstance(settings, AnswerSettings) else "",
        settings_sha256=settings_sha256(run.manifest),
        evidence_recall=lost.evidence_recall,
        provenance=lost.provenance,
        lost=lost.counts,
        budget=budget_of(run),
        cheaper_from=break_even(run, runs),
        deviations=() if memory is None else product_deviations(memory.preset, memory.parameters),
        marks="" if to_first is None or not to_first.significant else "▼" if to_first.difference > 0 else "▲",
    )


def _row(
    question_id: str, question_type: str, credits: Sequence[Mapping[str, float | None]], lost: Sequence[Losses]
) -> QuestionRow:
    return QuestionRow(
        question_id=question_id,
        question_type=question_type,
        credits=tuple(by_question[question_id] for by_question in credits),
        stages=tuple(run_losses.stages[question_id] for run_losses in lost),
    )


def _repeats(graded: Sequence[Evaluation]) -> Iterator[RepeatGroup]:
    for alike in pool_repeats(graded):
        if len(alike) > 1:
            yield RepeatGroup(
                name=f"{alike[0].summary.memory}, {alike[0].summary.model}",
                run_ids=tuple(run.manifest.run_id for run in alike),
                spread=repeat_spread([run.metrics.overall.accuracy for run in alike]),
                flips=flips_of(alike),
            )


def _not_known(stored: StoredSessions) -> Iterator[Note]:
    if stored.unknown:
        yield Note(
            f"The fixtures of {', '.join(stored.unknown)} are missing or were made from other data since: whether "
            "evidence was stored is unknown, so none is reported as not stored."
        )
