"""Compare graded runs side by side, question by question, with significance tests."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import msgspec
from msgspec import Struct

from longmemeval.core.files import sha256_bytes
from longmemeval.core.on_demand import without_collector
from longmemeval.errors import HarnessError
from longmemeval.llm.offline import CONTROL_MODELS
from longmemeval.memory.products.known import product_deviations
from longmemeval.pipeline.compare.audited import audit_sentences, audits_of, compared_audit
from longmemeval.pipeline.compare.baseline import break_even
from longmemeval.pipeline.compare.bridge import bridge_sentence
from longmemeval.pipeline.compare.comparable import (
    check_comparable,
    on_common_questions,
    setting_differences,
    what_differs,
)
from longmemeval.pipeline.compare.comparison import (
    ComparedRun,
    Comparison,
    Families,
    Family,
    PairResult,
    QuestionRow,
    RepeatGroup,
    asked_budget_of,
    budget_of,
    digest_of,
    families_of,
    with_token_warnings,
)
from longmemeval.pipeline.compare.naming import grids_of
from longmemeval.pipeline.compare.repeats import (
    Pool,
    credits_of,
    flips_of,
    names_of,
    pool_repeats,
    pooled_summary,
    setup_of,
)
from longmemeval.pipeline.compare.sentences import SCORE_WARNINGS, Sentence
from longmemeval.pipeline.compare.verdict import MARGIN, Evidence, floor_sentence, is_control, verdict_on
from longmemeval.results.graded.graded_run import Evaluation
from longmemeval.results.graded.losses import Losses, StoredSessions, losses
from longmemeval.results.index import settings_sha256
from longmemeval.results.scores.stored import ScoreCache
from longmemeval.results.settings import AnswerSettings
from longmemeval.settings import Folders
from longmemeval.statistics.intervals import repeat_spread
from longmemeval.statistics.misclassification import NotCorrectable, corrected_difference
from longmemeval.statistics.power import planned_difference


@without_collector()
def compare_runs(
    graded: Sequence[Evaluation],
    folders: Folders,
    *,
    common: bool = False,
    margin: float = MARGIN,
    family: Family = "baseline",
    audits: Sequence[str] | None = (),
    remembered: ScoreCache | None = None,
) -> Comparison:
    """Compare runs that have been loaded; repeats of one configuration are pooled into one row first.

    Args:
        graded: one or more runs, in the order of display: the first is the baseline.
        folders: their fixtures, if they still exist, show which sessions were stored.
        common: compare on the questions that all runs share.
        margin: margin of the verdict, a fraction (see `verdict_on`).
        family: the tests that verdict and marks belong to: each row with the baseline, or all pairs.
        audits: audits of the labels (`audit_of`); None: all that are shipped, in notes. Scores above the ceiling of a
            shipped one are told in any case.
        remembered: cache of pairs computed from the same credits; None: compute all of them.

    Raises:
        HarnessError: there is no run, or the runs differ in data, questions, judge or metric.
    """
    if not graded:
        raise HarnessError("No runs to compare", fix="Name at least one graded run")
    left_out: list[Sentence] = []
    if common:
        graded, left_out = on_common_questions(graded)
    check_comparable(graded, bridge_sentence)
    names = names_of(pool_repeats(graded))
    graded = with_token_warnings(graded, names)
    pools = pool_repeats(graded)
    stored = StoredSessions(folders)
    lost = {run.id: losses(run, stored) for run in graded}
    credits = {pool[0].id: credits_of(pool) for pool in pools}
    families = _families(pools, credits, remembered or ScoreCache())
    results = families.of_baseline(family)
    rows = _rows(pools, lost, credits, results, graded)
    corrected = list(_corrected(pools, families, family))
    evidence = Evidence(
        rows=rows,
        results=results,
        pairs=families.pairs,
        family=family,
        credits=credits,
        repeats=tuple(_repeats(pools, names)),
        margin=margin,
        not_surviving=tuple(item.pair for item in corrected if item.survives is False),
    )
    asked = graded[0].asked
    known, shown = audits_of(audits or None, asked, folders), None if audits == () else family
    audited = tuple(compared_audit(audit, pools, rows, credits, shown) for audit in known)
    answering = [run for run in graded if run.summary.model not in CONTROL_MODELS]
    differing = setting_differences(answering, names)
    others = [
        *left_out,
        *audit_sentences(audited, rows, results, [*asked.questions], kind="caution" if audits else "note"),
        *_warnings(rows),
        *(item.sentence for item in corrected),
        *filter(None, [floor_sentence(pools, credits)]),
        *what_differs(answering),
        *(Sentence("setting-differs", {"text": setting.text}) for setting in differing.values()),
        *_not_known(stored),
    ]
    unnamed = {words: setting.text for words, setting in differing.items() if not setting.in_names}
    made = _compared(graded, pools, lost, families, evidence, names, others, unnamed, common=bool(left_out))
    return msgspec.structs.replace(made, audits=audited) if shown else made


def _compared(
    graded: Sequence[Evaluation],
    pools: Sequence[Pool],
    lost: Mapping[str, Losses],
    families: Families,
    evidence: Evidence,
    names: dict[str, str],
    others: Sequence[Sentence],
    differing: dict[str, str],
    *,
    common: bool,
) -> Comparison:
    """Return the comparison, with its verdict."""
    verdict, conclusions = verdict_on(evidence, names)
    # The verdict says that there are too few questions for any difference: no need to say it again of the scores.
    said = {"few-questions"} if verdict.code == "too-few" else set()
    others = [sentence for sentence in others if sentence.code not in said]
    subject = next(run for run in graded if run.id == verdict.run)
    single = {row.run_id: row for row in evidence.rows if len(row.run_ids) == 1}
    results = [*evidence.results.values()] if evidence.family == "baseline" else families.pairs
    setups = [setup_of(pool[0]) for pool in pools]
    return Comparison(
        dataset=graded[0].manifest.dataset["name"],
        common=common,
        runs=tuple(single.get(run.id) or _figures([run], lost[run.id], graded) for run in graded),
        rows=tuple(evidence.rows),
        against=families.against,
        pairs=families.pairs,
        family=evidence.family,
        questions=tuple(_questions(graded, lost)),
        repeats=tuple(evidence.repeats),
        names=names,
        detectable=_detectable(pools[0], results),
        sentences=(*conclusions, *sorted(others, key=lambda sentence: sentence.kind != "caution")),
        verdict=verdict,
        digest=digest_of(subject, lost[subject.id], [run for run in graded if run is not subject]),
        grids=tuple(grids_of(setups, [pool[0].summary.control is not None for pool in pools])),
        differing=differing,
        not_surviving=tuple(evidence.not_surviving),
        evaluations=tuple(graded),
    )


def _rows(
    pools: Sequence[Pool],
    lost: Mapping[str, Losses],
    credits: Mapping[str, Mapping[str, float | None]],
    results: Mapping[str, PairResult],
    graded: Sequence[Evaluation],
) -> tuple[ComparedRun, ...]:
    """Return the figures of every configuration, with its marks against the baseline."""
    rows = [_figures(pool, lost[pool[0].id], graded) for pool in pools]
    marked = marked_rows(rows)
    rows = [_against(row, results.get(row.run_id), credits, rows[0].run_id) for row in rows]
    return tuple(msgspec.structs.replace(row, warned=row.run_id in marked) for row in rows)


def _detectable(baseline: Pool, results: Sequence[PairResult]) -> float | None:
    """Return the difference that every test finds; for a single run, a planning figure (`Comparison.detectable`)."""
    if not results:
        return planned_difference(baseline[0].haystacks, labels=baseline[0].metrics.judge.metric == "accuracy")
    return max((pair.detectable for pair in results if pair.detectable is not None), default=None)


def _families(
    pools: Sequence[Pool], credits: Mapping[str, Mapping[str, float | None]], remembered: ScoreCache
) -> Families:
    """Return both families of tests, from the cache if they were computed from the same credits before."""
    per_run = [[run.credits for run in pool] for pool in pools]
    labels = pools[0][0].metrics.judge.metric == "accuracy"

    def cache_key() -> tuple[str, ...]:
        inputs = [*credits], per_run, pools[0][0].haystacks, labels
        return "families", sha256_bytes(msgspec.json.encode(inputs))

    make = partial(families_of, [*credits], per_run, pools[0][0].haystacks, labels=labels)
    return remembered.of(Families, cache_key, make)


class _Corrected(Struct, frozen=True):
    """A significant difference, corrected for the judge's errors."""

    pair: tuple[str, str]
    sentence: Sentence
    survives: bool | None
    """True if the corrected difference still excludes zero; None if it cannot be corrected."""


def _corrected(pools: Sequence[Pool], families: Families, family: Family) -> Iterator[_Corrected]:
    """Yield each significant difference, corrected for the judge's errors."""
    first = pools[0][0]
    stored = first.check_of(first.metrics.judge)
    rates = stored.rates if stored else None
    firsts = {pool[0].id: pool[0] for pool in pools}
    reasons = {name: check.reason for name, run in firsts.items() if (check := run.summary.judge_check)}
    results = families.against if family == "baseline" else families.pairs
    for pair in results if rates else ():
        if pair.significant and rates:
            a, b = (firsts[name].metrics.overall for name in (pair.a, pair.b))
            evaluated = (b.not_evaluated - a.not_evaluated) / a.n
            estimate = corrected_difference(pair.difference, pair.interval, rates, evaluated=evaluated)
            runs = {"A": (pair.a,), "B": (pair.b,)}
            # Rates that do not hold for a run cannot correct its difference from another.
            odd = next((name for name in (pair.a, pair.b) if reasons.get(name)), None)
            if isinstance(estimate, NotCorrectable) or odd:
                reason = estimate.reason if isinstance(estimate, NotCorrectable) else f"for {odd} {reasons[str(odd)]}"
                yield _Corrected((pair.a, pair.b), Sentence("not-corrected", {"reason": reason}, runs), None)
                continue
            low, high = estimate.interval
            survives = low > 0 or high < 0
            values = {"d": estimate.value, "i": estimate.interval, "survives": survives}
            caution = not survives and first.id in (pair.a, pair.b)
            sentence = Sentence("corrected", values, runs, "caution" if caution else "note")
            yield _Corrected((pair.a, pair.b), sentence, survives)


def _figures(pool: Pool, lost: Losses, runs: Sequence[Evaluation]) -> ComparedRun:
    run = pool[0]
    settings = run.manifest.settings
    memory = settings.memory
    return ComparedRun(
        summary=pooled_summary(pool),
        reading=settings.reading.shown if isinstance(settings, AnswerSettings) else "",
        settings_sha256=settings_sha256(run.manifest),
        evidence_recall=lost.evidence_recall,
        provenance=lost.provenance,
        lost=lost.counts,
        budget=budget_of(run),
        asked_budget=asked_budget_of(run),
        cheaper_from=break_even(run, runs),
        deviations=() if memory is None else product_deviations(memory.preset, memory.parameters),
        run_ids=tuple(member.id for member in pool),
    )


def _against(
    row: ComparedRun, pair: PairResult | None, credits: Mapping[str, Mapping[str, float | None]], baseline: str
) -> ComparedRun:
    """Return the row with its mark and the numbers of questions that changed against the baseline."""
    if pair is None:
        return row
    base = credits[baseline]
    gains = [(value or 0.0) - (base[name] or 0.0) for name, value in credits[row.run_id].items()]
    more, less = sum(gain > 0 for gain in gains), sum(gain < 0 for gain in gains)
    marks = "" if not pair.significant else "▲" if pair.difference > 0 else "▼"
    return msgspec.structs.replace(row, marks=marks, changes=(more, less, len(gains) - more - less))


def _questions(graded: Sequence[Evaluation], lost: Mapping[str, Losses]) -> Iterator[QuestionRow]:
    asked, credits = graded[0].asked, [run.credits for run in graded]
    for question_id in asked.questions:
        yield QuestionRow(
            question_id=question_id,
            question_type=asked.question_type(question_id),
            credits=tuple(by_question[question_id] for by_question in credits),
            stages=tuple(lost[run.id].stages[question_id] for run in graded),
        )


def _repeats(pools: Sequence[Pool], names: Mapping[str, str]) -> Iterator[RepeatGroup]:
    for pool in pools:
        if len(pool) > 1:
            yield RepeatGroup(
                name=names[pool[0].id],
                run_ids=tuple(run.id for run in pool),
                spread=repeat_spread([run.metrics.overall.accuracy for run in pool]),
                flips=flips_of(pool),
            )


_DOUBTFUL = SCORE_WARNINGS - {"few-questions"}
"""Warnings that cast doubt on the table; that some types have few questions is a note."""


def _warnings(rows: Sequence[ComparedRun]) -> Iterator[Sentence]:
    """Yield each warning about scores once, with the rows it is about unless it is about all."""
    about: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for warning in row.summary.warnings:
            about.setdefault((warning.code, warning.text), []).append(row.run_id)
    for (code, text), ids in about.items():
        # The sentence on unequal tokens names the rows itself.
        names = () if len(ids) == len(rows) or code == "unequal-tokens" else tuple(ids)
        yield Sentence(code, {"text": text}, {"names": names}, "caution" if code in _DOUBTFUL else "note")


def marked_rows(rows: Sequence[ComparedRun]) -> set[str]:
    """Return the ids of the rows that have a warning which not all compared memories share."""
    memories = {row.run_id for row in rows[1:] if not is_control(row.summary)}
    by_code: dict[str, set[str]] = {}
    for row in rows:
        for warning in row.summary.warnings:
            by_code.setdefault(warning.code, set()).add(row.run_id)
    return set[str]().union(*(ids for ids in by_code.values() if not memories or not memories <= ids))


def _not_known(stored: StoredSessions) -> Iterator[Sentence]:
    if stored.unknown:
        yield Sentence("fixtures-unknown", {}, {"names": tuple(stored.unknown)})
