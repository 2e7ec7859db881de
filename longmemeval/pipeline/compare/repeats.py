"""Pool repeats of one configuration into one, and count the labels that change between them."""

from collections.abc import Sequence
from math import fsum
from statistics import fmean

from msgspec import Struct, structs

from longmemeval.measures.metrics import Metrics, compute_metrics, credit
from longmemeval.pipeline.compare.naming import Setup, row_names
from longmemeval.records import Judgement
from longmemeval.results.graded.graded_run import Cost, Evaluation, GradedRun, RunCosts, latency_of
from longmemeval.results.index import settings_sha256
from longmemeval.results.lines import failures_of
from longmemeval.results.scores.warnings import gradings_of
from longmemeval.results.settings import AnswerSettings

Pool = Sequence[Evaluation]
"""The runs that repeat one configuration; one run where it was not repeated."""


def pool_repeats(graded: Sequence[Evaluation]) -> list[list[Evaluation]]:
    """Group repeats of one configuration; every other run is a group of its own. Groups keep the order given.

    Repeats have the same settings, read the same fixtures and differ in their number (`run --repeat`); questions and
    judge are the same for all runs of a comparison.
    """
    alike: dict[tuple[object, ...], list[Evaluation]] = {}
    for run in graded:
        fixtures = tuple(sorted((name, *sorted(hashes.items())) for name, hashes in run.manifest.fixtures.items()))
        alike.setdefault((settings_sha256(run.manifest), fixtures), []).append(run)
    pools: list[list[Evaluation]] = []
    for runs in alike.values():
        numbers = {run.manifest.settings.plain.get("repeat") for run in runs}
        pools += [runs] if len(numbers) > 1 else [[run] for run in runs]
    places = {run.id: place for place, run in enumerate(graded)}
    return sorted(pools, key=lambda pool: places[pool[0].id])


def credits_of(pool: Pool) -> dict[str, float | None]:
    """Return the mean credit of each question over the repeats: None if it was evaluated in none, 0 where in some."""
    if len(pool) == 1:
        return pool[0].credits
    per_run = [run.credits for run in pool]
    found = {name: [credits[name] for credits in per_run] for name in per_run[0]}
    return {
        name: None if values.count(None) == len(values) else fsum(value or 0.0 for value in values) / len(values)
        for name, values in found.items()
    }


def pooled_summary(pool: Pool) -> GradedRun:
    """Return the summary of all repeats, under the id of the first: mean score, mean tokens, mean costs.

    A question that any repeat left without a label counts as not evaluated.
    """
    first = pool[0].summary
    if len(pool) == 1:
        return first
    summaries = [run.summary for run in pool]
    warnings = {warning.code: warning for summary in summaries for warning in summary.warnings}
    return structs.replace(
        first,
        metrics=_pooled_metrics(pool),
        mean_prompt_tokens=_mean([summary.mean_prompt_tokens for summary in summaries]),
        calls_per_question=_mean([summary.calls_per_question for summary in summaries]),
        costs=_mean_costs([summary.costs for summary in summaries]),
        latency=latency_of([a for run in pool for a in run.answers.values() if a.status == "ok"]),
        shortened=sum(summary.shortened for summary in summaries),
        truncated=sum(summary.truncated for summary in summaries),
        reasoning_tokens=_mean([summary.reasoning_tokens for summary in summaries]),
        failed=sum(summary.failed for summary in summaries),
        failures=failures_of(
            [answer for run in pool for answer in run.answers.values()],
            sum(summary.failures.asked for summary in summaries),
        ),
        status=next((summary.status for summary in summaries if summary.status != "completed"), first.status),
        gradings=None,
        judge_check=None,
        warnings=tuple(warnings.values()),
    )


def _pooled_metrics(pool: Pool) -> Metrics:
    first, asked = pool[0], pool[0].asked
    missing = {name for run in pool for name, value in run.credits.items() if value is None}
    judged = {
        name: Judgement(
            question_id=name,
            label=None if value is None else value == 1,
            raw="",
            judge_id=first.metrics.judge.id,
            prompt_sha256="",
            answer_sha256="",
            score=value,
        )
        for name, value in credits_of(pool).items()
    }
    judge = structs.replace(first.metrics.judge, official=all(run.metrics.judge.official for run in pool))
    types = asked.benchmark.types
    pooled = compute_metrics(
        asked.golds(), judged, judge, run=first.id, haystacks=asked.units, types=types, pooled=True
    )
    overall = structs.replace(pooled.overall, not_evaluated=len(missing))
    return structs.replace(pooled, overall=overall, usage=first.metrics.usage, judge=judge)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if len(known) == len(values) else None


def _mean_costs(costs: Sequence[RunCosts]) -> RunCosts:
    def mean(parts: Sequence[Cost]) -> Cost:
        # Calls and tokens stay those of the first repeat: only sums of money are compared between rows.
        usd = _mean([part.usd for part in parts])
        return structs.replace(parts[0], usd=usd, known_usd=fmean(part.known_usd for part in parts))

    kinds = ("prepare", "question_analysis", "answers", "judge", "total")
    return RunCosts(**{kind: mean([getattr(cost, kind) for cost in costs]) for kind in kinds})


class Flips(Struct, frozen=True):
    """Labels of the same questions in several runs of one configuration."""

    questions: int
    """Number of questions that have a label in every run."""
    flipped: int
    """Number of those questions whose label is not the same in all runs."""
    by_judge: int | None
    """Number of `flipped` questions where the very same text has both labels, in these runs or when graded again.

    None: no text was labelled twice, so nothing is known about the judge.
    """
    seen_twice: int
    """Number of questions with a text that was labelled more than once, in several runs or gradings."""

    @property
    def by_answer(self) -> int | None:
        """Number of `flipped` questions whose texts differ, each text with a single label as far as is known."""
        return None if self.by_judge is None else self.flipped - self.by_judge


def flips_of(runs: Sequence[Evaluation]) -> Flips:
    """Count the labels that change between two or more runs of one configuration.

    Later gradings of the same answers (`evaluate --rejudge`) add evidence about the judge: their labels never count as
    a change between runs, only as another label of a text.
    """
    credits = [run.credits for run in runs]
    seen = [_labels_by_text(run) for run in runs]
    questions = flipped = by_judge = twice = 0
    for question_id in credits[0]:
        between = [by_question.get(question_id) for by_question in credits]
        if None in between:
            continue
        questions += 1
        by_text: dict[str, list[float]] = {}
        for text, label in (pair for labels in seen for pair in labels.get(question_id, ())):
            by_text.setdefault(text, []).append(label)
        twice += any(len(labels) > 1 for labels in by_text.values())
        if len(set(between)) > 1:
            flipped += 1
            by_judge += any(len(set(labels)) > 1 for labels in by_text.values())
    return Flips(questions, flipped, by_judge if twice else None, twice)


def _labels_by_text(run: Evaluation) -> dict[str, list[tuple[str, float]]]:
    """Return the text of each answer with each label that the judge gave it, by question."""
    labels: dict[str, list[tuple[str, float]]] = {}
    for judge_id in gradings_of(run.files, run.metrics.judge):
        for question_id, judgement in run.files.current_judgements(judge_id).items():
            label, answer = credit(judgement), run.answers.get(question_id)
            if label is not None and answer is not None:
                labels.setdefault(question_id, []).append((answer.hypothesis.strip(), label))
    return labels


# Name the runs of a comparison: repeats are numbered.


def setup_of(run: Evaluation) -> Setup:
    """Return what the name of a run is made of."""
    settings, summary = run.manifest.settings, run.summary
    method = settings.reading.method if isinstance(settings, AnswerSettings) else ""
    return Setup(run.id, summary.memory, summary.parameters, summary.model, method, summary.embedder, settings.plain)


def names_of(pools: Sequence[Pool]) -> dict[str, str]:
    """Return the name of every run by its id (`row_names`); the first repeat has the name of the row as well."""
    found: dict[str, str] = {}
    for name, pool in zip(row_names([setup_of(pool[0]) for pool in pools]), pools, strict=True):
        found |= {run.id: f"{name} (repeat {number})" for number, run in enumerate(pool, start=1) if number > 1}
        found[pool[0].id] = name
    return found
