"""The checks on the files of a run before a figure from them is printed.

Every check yields one outcome per thing it looks at: None, or the problem, beginning with the name of the file.
`verify` reports all of them; everything else that reads a run stops at the first (`refuse`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct, structs

from longmemeval.core.files import sha256_text
from longmemeval.core.text.words import differences
from longmemeval.errors import IntegrityError, NoAnswersError
from longmemeval.judges.protocol import JudgeIdentity
from longmemeval.judges.template_set import is_named_by_its_hash, is_official
from longmemeval.judges.votes import recomputed
from longmemeval.measures.abstention import by_other_rules
from longmemeval.measures.metrics import METRICS_FORMAT, Metrics, credit
from longmemeval.records import Answer, usage_of
from longmemeval.results.lines import (
    ANSWERS,
    PROMPTS,
    RANKINGS,
    failures_of,
    is_cut,
    is_empty,
)
from longmemeval.results.manifest import RunManifest, command_to_continue
from longmemeval.results.run_files import RunFiles
from longmemeval.results.run_questions import RunQuestions

_DIGITS = 12
"""Number of significant digits in comparisons: the last ones depend on the machine."""


def refuse(files: RunFiles, outcomes: Iterable[str | None], remedy: str = "Restore it from a copy") -> None:
    """Raise an error for the first problem.

    Args:
        outcomes: outcomes of the run's checks.
        remedy: what to do about the problem.

    Raises:
        IntegrityError: there is a problem; names it and the file.
    """
    problem = next((outcome for outcome in outcomes if outcome), None)
    if problem is None:
        return
    raise IntegrityError(
        f"Run '{files.folder.name}' failed verification: {problem}",
        where=str(files.folder),
        fix=f"{remedy}. `longmemeval verify {files.folder.name}` lists all failed checks",
    )


def refuse_unanswered(files: RunFiles) -> None:
    """Raise an error for a run without any answer: it has no score.

    Raises:
        NoAnswersError: it has none; says why, and which command asks the questions again.
    """
    answers, manifest = files.answers.values(), files.manifest
    if any(answer.status == "ok" for answer in answers):
        return
    why = (manifest.error or failures_of(answers, len(manifest.question_ids)).told).rstrip(".")
    raise NoAnswersError(
        f"Run '{files.folder.name}' has no answers, so it has no score" + (f". {why}" if why else ""),
        fix=f"Remove the cause, then continue with `{command_to_continue(manifest)}`",
    )


def check_files(files: RunFiles) -> Iterator[str | None]:
    """Check that the journals are unchanged since the run wrote them."""
    manifest = files.manifest
    for name, digest in manifest.files.items():
        digest_now = files.sha256(name)
        if not digest_now:
            yield f"{name}: is missing"
        elif digest_now != digest:
            yield f"{name}: was changed after the run ended (its sha256 is not the manifest's)"
        else:
            yield None
    ended = manifest.ended_at and manifest.status != "running"
    for name in (ANSWERS, PROMPTS, RANKINGS):
        if ended and name not in manifest.files and files.sha256(name):
            yield f"run.json: has no sha256 of {name}"


def check_answers(files: RunFiles) -> Iterator[str | None]:
    """Check that the answers are to the selected questions, each once, and as many as the manifest counts."""
    manifest, records, answers = files.manifest, files.answer_lines, files.answers
    selected = set(manifest.question_ids)
    unselected = [question_id for question_id in answers if question_id not in selected]
    yield f"{ANSWERS}: answers questions that were not selected: {', '.join(unselected[:5])}" if unselected else None
    settled: set[str] = set()
    for answer in records:
        repeated = answer.question_id in settled
        yield f"{ANSWERS}: question '{answer.question_id}' is answered twice" if repeated else None
        if answer.status == "ok":
            settled.add(answer.question_id)
    yield _check_totals(manifest, records, answers)


def _check_totals(manifest: RunManifest, records: Sequence[Answer], answers: Mapping[str, Answer]) -> str | None:
    """Return how the manifest's totals contradict the answers, else None; a run under way has no totals yet."""
    if manifest.kind != "run" or manifest.status == "running":
        return None
    found = {
        "answered": sum(answer.status == "ok" for answer in answers.values()),
        "failed": sum(answer.status == "error" for answer in answers.values()),
        "empty": sum(map(is_empty, answers.values())),
        "cut": sum(map(is_cut, answers.values())),
        "usage": msgspec.to_builtins(usage_of(records)),
    }
    stored = {name: value for name, value in manifest.totals.items() if name in found}
    counted, recorded = ({name: _plain(totals[name]) for name in stored} for totals in (found, stored))
    changed = differences(recorded, counted)
    return f"run.json: {ANSWERS} gives other totals ({'; '.join(changed[:3])})" if changed else None


def check_judgements(files: RunFiles, judge: str) -> Iterator[str | None]:
    """Check that the judgements of one judge, given by its id, are its own, of these answers, with one label each."""
    settled: set[str] = set()
    for judgement in files.judgements(judge):
        answer, what = files.answers.get(judgement.question_id), ""
        if judgement.judge_id != judge:
            what = f"was judged by '{judgement.judge_id}'"
        elif answer is None:
            what = "has a judgement but no answer"
        elif judgement.answer_sha256 != sha256_text(answer.hypothesis):
            what = "was judged on another answer"
        elif judgement.question_id in settled:
            what = "has a second judgement after a label"
        yield f"judgements/{judge}.jsonl: question '{judgement.question_id}' {what}" if what else None
        if judgement.label is not None:
            settled.add(judgement.question_id)


def check_labels(files: RunFiles, judge: JudgeIdentity, asked: RunQuestions) -> Iterator[str | None]:
    """Check that labels and scores follow from the stored replies, or from the rules of a judge without a model."""
    for judgement in files.judgements(judge.id):
        question = asked.questions.get(judgement.question_id)
        answer = files.answers.get(judgement.question_id)
        if question is None or answer is None or judgement.label is None:
            continue
        again = recomputed(judge, judgement, question, asked.gold(judgement.question_id), answer.hypothesis)
        same = (again.label, again.score, again.vote_labels) == (
            judgement.label,
            judgement.score,
            judgement.vote_labels,
        )
        name = "" if same else f"judgements/{judge.id}.jsonl: question '{judgement.question_id}'"
        yield f"{name} has a label that does not follow from what the judge said" if name else None


def check_scores(files: RunFiles, stored: Metrics, again: Metrics) -> Iterator[str | None]:
    """Check that scores are those of the files they were made from; files may have grown since.

    Args:
        stored: the scores in `metrics/`.
        again: the scores recomputed from the files.
    """
    judge = stored.judge
    name, file = f"metrics/{judge.id}.json", files.judged(judge.id)
    named = is_named_by_its_hash(judge)
    yield None if named else f"{name}: its description of the judge does not have the hash in the judge's id"
    claims = judge.official and stored.format == METRICS_FORMAT and not is_official(judge)
    yield f"{name}: calls a judge official that is not" if claims else None
    if not file.exists and stored.overall.not_evaluated < stored.overall.n:
        yield f"{name}: judgements/{file.path.name} is missing"
    elif outdated(files, stored, again) is None:
        if stored.judgements_sha256 != again.judgements_sha256:
            yield f"judgements/{file.path.name}: was changed after it was scored (its sha256 is not the one in {name})"
        changed = _contradictions(files, stored, again)
        yield f"{name}: judgements/{file.path.name} gives other figures ({'; '.join(changed[:3])})" if changed else None


def outdated(files: RunFiles, stored: Metrics, again: Metrics) -> str | None:
    """Return a sentence on scores whose answers or judgements have grown since; None if they have not.

    A resumed run has more answers; a grading that ended early adds labels and no scores.
    """
    name, file = f"metrics/{stored.judge.id}.json", files.judged(stored.judge.id)
    if stored.answered < again.answered:
        return f"{name}: is older than the last lines of {ANSWERS}"
    if files.manifest.extended_from and stored.overall.n < again.overall.n:
        return f"{name}: is of {stored.overall.n} questions, and the run was extended to {again.overall.n}"
    changed = stored.judgements_sha256 not in ("", again.judgements_sha256)
    if changed and file.began_as(stored.judgements_sha256):
        return f"{name}: is older than the last lines of judgements/{file.path.name}"
    return None


def earlier_version_note(stored: Metrics, again: Metrics) -> str | None:
    """Return a sentence on scores that an earlier version computed by other rules; None if the figures are the same."""
    if stored.format == METRICS_FORMAT:
        return None
    changed = differences(_figures(stored, "judge", "answered"), _figures(again, "judge", "answered"))
    name = f"metrics/{stored.judge.id}.json"
    remedy = f"`longmemeval evaluate {again.run} --judge {stored.judge.id}` writes it again"
    what = f"{name}: holds figures as an earlier version computed them ({'; '.join(changed[:2])})"
    return f"{what}; {remedy}" if changed else None


def _contradictions(files: RunFiles, stored: Metrics, again: Metrics) -> list[str]:
    """Return the figures that differ; for an earlier version, only those that any rules derive from the labels."""
    if stored.format < METRICS_FORMAT:
        return _miscounted(files, stored)
    if by_other_rules(stored.abstaining, again.abstaining):
        again = structs.replace(again, abstaining=stored.abstaining, calibration=stored.calibration)
    return differences(_figures(stored), _figures(again))


def _miscounted(files: RunFiles, stored: Metrics) -> list[str]:
    """Return the scores that contradict the stored labels."""
    judged = files.current_judgements(stored.judge.id)
    judgements = [judged.get(question_id) for question_id in files.manifest.question_ids]
    credits = [credit(judgement) for judgement in judgements]
    found = {
        "accuracy": _plain(sum(value or 0.0 for value in credits) / max(1, len(credits))),
        "correct": sum(judgement is not None and judgement.label is True for judgement in judgements),
        "n": len(credits),
        "not_evaluated": credits.count(None),
    }
    return differences({name: _plain(getattr(stored.overall, name)) for name in found}, found, "overall.")


def changes(before: Struct, after: Struct) -> list[str]:
    """Return the fields in which two records differ by more than the last digits of their numbers."""
    old, new = ({name: _plain(value) for name, value in structs.asdict(record).items()} for record in (before, after))
    return differences(old, new)


def _figures(metrics: Metrics, *without: str) -> dict[str, object]:
    """Return the figures as plain values, without the hash of their source, which is compared separately."""
    made_from = {"format", "judgements_sha256", *without}
    return {name: _plain(value) for name, value in structs.asdict(metrics).items() if name not in made_from}


def _plain(value: object) -> object:
    """Return `value` in the types of JSON, its numbers to `_DIGITS` digits."""
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return _plain(msgspec.to_builtins(value)) if isinstance(value, Struct) else value
