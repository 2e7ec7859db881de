"""`compare`: graded runs side by side, question by question, with what chance alone could do."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from math import fsum, sqrt

from msgspec import structs

from longmemeval.errors import HarnessError
from longmemeval.evaluation.metrics import credit
from longmemeval.evaluation.statistics.paired import Paired, compare_pairs, holm
from longmemeval.evaluation.statistics.power import (
    ALPHA,
    DISCORDANT,
    assumed_design_effect,
    can_show_nothing,
    design_effect,
    independent_units,
    minimum_detectable_difference,
)
from longmemeval.evaluation.statistics.resampling import smallest_p
from longmemeval.evaluation.statistics.spread import repeat_spread
from longmemeval.llm.controls import CONTROL_MODELS
from longmemeval.pipeline.compare.comparable import check_comparable, on_common_questions, what_differs
from longmemeval.pipeline.compare.comparison import (
    Comparison,
    Discordant,
    PairResult,
    QuestionRow,
    RepeatGroup,
    RunFigures,
)
from longmemeval.pipeline.compare.floor import floor_note
from longmemeval.pipeline.compare.graded_run import GradedRun, load_graded
from longmemeval.pipeline.compare.losses import Losses, StoredSessions, losses
from longmemeval.pipeline.runs.index import settings_sha256
from longmemeval.pipeline.runs.settings import AnswerSettings
from longmemeval.settings import Folders, folders

Credits = Mapping[str, float | None]


def compare(
    run_ids: Sequence[str],
    *,
    judge: str | None = None,
    common: bool = False,
    dataset: str | None = None,
    seed: int = 0,
    where: Folders | None = None,
) -> Comparison:
    """Compare graded runs over the same questions.

    Args:
        run_ids: one or more, in the order they are to be shown; the first is what marks refer to.
        judge: id of the judge, a beginning of it or its model; None: the official judge's scores where there are some,
            else the newest.
        common: compare on the questions all runs share where they answered different ones.
        dataset: where the data is now, if it has moved.
        seed: of the resampling.
        where: the folders; None: from the environment.

    Raises:
        HarnessError: no such run, it is not graded, or the runs are of different data, questions, judges or metrics.
    """
    where = where or folders()
    return compare_runs(load_graded(run_ids, where, judge=judge, dataset=dataset), where, seed=seed, common=common)


def compare_runs(graded: Sequence[GradedRun], where: Folders, *, seed: int = 0, common: bool = False) -> Comparison:
    """Compare runs that have been loaded.

    Args:
        graded: one or more, in the order they are to be shown.
        where: the folders; fixtures that are still there tell what was stored.
        seed: of the resampling.
        common: compare on the questions all runs share.

    Raises:
        HarnessError: there is no run, or they are of different data, questions, judges or metrics.
    """
    if not graded:
        raise HarnessError("There is nothing to compare", fix="Name at least one graded run")
    notes: list[str] = []
    if common:
        graded, notes = on_common_questions(graded)
    check_comparable(graded)
    credits = [credits_of(run) for run in graded]
    asked = graded[0].asked
    pairs = pairs_of(graded, seed)
    stored = StoredSessions(where)
    lost = [losses(run, stored) for run in graded]
    haystacks = haystacks_of(graded[0])
    return Comparison(
        dataset=graded[0].manifest.dataset["name"],
        common=bool(notes),
        runs=tuple(_figures(run, one, pairs) for run, one in zip(graded, lost, strict=True)),
        pairs=tuple(pairs),
        questions=tuple(_row(one, asked.question_type(one), credits, lost) for one in asked.questions),
        repeats=tuple(_repeats(graded)),
        detectable=_detectable(credits, haystacks, labels=graded[0].metrics.judge.metric == "accuracy"),
        warnings=(
            *notes,
            *_surviving(graded[0], pairs),
            *filter(None, [floor_note([run.summary for run in graded], pairs)]),
            *what_differs([run for run in graded if run.summary.model not in CONTROL_MODELS]),
            *_not_known(stored),
            *_too_few(len(pairs), haystacks),
        ),
    )


def credits_of(run: GradedRun) -> dict[str, float | None]:
    """What every question of a run earned; None: not evaluated, counts as 0."""
    return {question_id: credit(run.judgements.get(question_id)) for question_id in run.asked.questions}


def pairs_of(graded: Sequence[GradedRun], seed: int = 0) -> list[PairResult]:
    """Every run with every later one, p values adjusted for their number."""
    credits = [credits_of(run) for run in graded]
    haystacks = haystacks_of(graded[0])
    ids = [run.manifest.run_id for run in graded]
    metric = graded[0].metrics.judge.metric
    places = list(combinations(range(len(graded)), 2))
    found = []
    for first, second in places:
        # Always in the order of the ids, and turned round after: chance must not depend on the order given.
        a, b = sorted((first, second), key=ids.__getitem__)
        paired = compare_pairs(credits[a], credits[b], haystacks, seed=seed)
        found.append(paired if a == first else _turned(paired))
    adjusted = holm([paired.p for paired in found])
    return [
        _pair(ids[first], ids[second], paired, p_holm, labels=metric == "accuracy")
        for (first, second), paired, p_holm in zip(places, found, adjusted, strict=True)
    ]


def haystacks_of(run: GradedRun) -> dict[str, str]:
    """Question id to haystack id."""
    return {question_id: question.haystack_id for question_id, question in run.asked.questions.items()}


def _too_few(pairs: int, haystacks: Mapping[str, str]) -> Iterator[str]:
    """Where the questions, or the haystacks they share, are so few that no difference could be called one."""
    units = independent_units(list(haystacks.values()))
    if pairs and smallest_p(units) * pairs >= ALPHA:
        what = "haystacks" if units < len(haystacks) else "question" if units == 1 else "questions"
        yield (
            f"With {units} {what} p is never below {smallest_p(units):.2g}: adjusted for {pairs:,} "
            f"{'pair' if pairs == 1 else 'pairs'}, no difference can reach significance. Compare fewer runs at a time, "
            f"or on more {what.removesuffix('s')}s."
        )


def _surviving(run: GradedRun, pairs: Sequence[PairResult]) -> Iterator[str]:
    """Whether differences beyond the noise are so too when they are corrected for what the judge gets wrong."""
    check = run.check_of(run.metrics.judge)
    for pair in pairs if check else ():
        if pair.significant and check:
            corrected = check.corrected_difference(pair.difference, pair.interval)
            told = f"{pair.a} - {pair.b}, corrected for the judge's errors"
            if corrected is None:
                yield f"{told}: not identifiable, the judge does not tell right answers from wrong ones."
                continue
            low, high = (f"{bound * 100:+.1f}" for bound in corrected.interval)
            survives = "the difference survives" if low[0] == high[0] else "the difference does NOT survive"
            yield f"{told}: {corrected.value * 100:+.1f} points [{low}, {high}], {survives}."


def _turned(paired: Paired) -> Paired:
    """The same comparison as seen from `b`."""
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
        verdict="",
    )
    return structs.replace(result, verdict=result.verdict_on(a, b))


def _figures(run: GradedRun, lost: Losses, pairs: Sequence[PairResult]) -> RunFigures:
    run_id, settings = run.manifest.run_id, run.manifest.settings
    # Pairs with the first run come before all others.
    to_first = next((pair for pair in pairs if pair.b == run_id), None)
    return RunFigures(
        summary=run.summary,
        reading=settings.reading.shown if isinstance(settings, AnswerSettings) else "",
        settings_sha256=settings_sha256(run.manifest),
        evidence_recall=lost.evidence_recall,
        provenance=lost.provenance,
        lost=lost.counts,
        marks="" if to_first is None or not to_first.significant else "▼" if to_first.difference > 0 else "▲",
    )


def _row(question_id: str, question_type: str, credits: Sequence[Credits], lost: Sequence[Losses]) -> QuestionRow:
    return QuestionRow(
        question_id=question_id,
        question_type=question_type,
        credits=tuple(one[question_id] for one in credits),
        stages=tuple(one.stages[question_id] for one in lost),
    )


def _repeats(graded: Sequence[GradedRun]) -> Iterator[RepeatGroup]:
    """Runs that differ in nothing but the number of the repeat."""
    groups: dict[str, list[GradedRun]] = {}
    for run in graded:
        groups.setdefault(settings_sha256(run.manifest), []).append(run)
    for alike in groups.values():
        if len({run.manifest.settings.plain.get("repeat") for run in alike}) > 1:
            yield RepeatGroup(
                name=f"{alike[0].summary.memory}, {alike[0].summary.model}",
                run_ids=tuple(run.manifest.run_id for run in alike),
                spread=repeat_spread([run.metrics.overall.accuracy for run in alike]),
            )


def _detectable(credits: Sequence[Credits], haystacks: Mapping[str, str], *, labels: bool) -> float | None:
    """The smallest difference the questions can show; None where they can show none.

    For labels, McNemar's: runs cannot differ by more than the share of questions they part on. Mean scores can differ
    by more than their mean squared difference, so for them it is the same normal approximation without that bound.
    """
    clusters = list(haystacks.values())
    if can_show_nothing(clusters):
        return None
    n, squared = len(clusters), _discordant(credits)
    if len(credits) > 1:
        differences = [[(a[one] or 0.0) - (b[one] or 0.0) for one in haystacks] for a, b in combinations(credits, 2)]
        effect = design_effect(differences, clusters)
    else:
        effect = assumed_design_effect(clusters)
    units = independent_units(clusters)
    shared = units if units < n else None
    if labels:
        return minimum_detectable_difference(n, discordant=squared, design_effect=effect, haystacks=shared)
    return minimum_detectable_difference(n, discordant=1.0, design_effect=effect, haystacks=shared) * sqrt(squared)


def _discordant(credits: Sequence[Credits]) -> float:
    """Mean squared difference of two runs' credits, over questions and pairs: for labels, the share they part on."""
    runs = len(credits)
    if runs < 2 or not credits[0]:
        return DISCORDANT
    total = 0.0
    for question_id in credits[0]:
        values = [one[question_id] or 0.0 for one in credits]
        # All pairs at once: sum of (x - y)² over pairs = runs · sum of x² - (sum of x)².
        total += runs * fsum(value * value for value in values) - fsum(values) ** 2
    return max(0.0, total) / (runs * (runs - 1) / 2) / len(credits[0])


def _not_known(stored: StoredSessions) -> Iterator[str]:
    if stored.unknown:
        yield (
            f"The fixtures of {', '.join(stored.unknown)} are gone or made from other data now: whether evidence was "
            "stored is not known, so none is called not stored."
        )
