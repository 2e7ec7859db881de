"""Compute what is shown next to a score: the agreement of judges, and the score without disputed gold labels."""

from collections.abc import Mapping, Sequence, Set
from itertools import combinations

from msgspec import Struct

from longmemeval.judges.audit import Audit, AuditedMean, Ceiling, audited_mean, ceiling
from longmemeval.judges.protocol import JudgeIdentity
from longmemeval.measures.metrics import Metrics, credit
from longmemeval.pipeline.compare.audited import audits_of
from longmemeval.records import Gold
from longmemeval.results.run_files import RunFiles
from longmemeval.results.run_questions import RunQuestions
from longmemeval.settings import Folders
from longmemeval.statistics.paired import Agreement, agreement


class JudgeAgreement(Struct, frozen=True):
    """The agreement of two judges of one run."""

    a: str
    """The id of a judge, like `b`."""
    b: str
    agreement: Agreement


def judge_agreements(
    files: RunFiles, run_questions: RunQuestions, judges: Sequence[JudgeIdentity]
) -> list[JudgeAgreement]:
    """Return the agreement of each pair of judges, without judges of scores, whose labels mean full credit."""
    types = {question_id: run_questions.question_type(question_id) for question_id in run_questions.questions}
    labels = {
        judge.id: {name: judgement.label for name, judgement in files.current_judgements(judge.id).items()}
        for judge in judges
        if judge.metric == "accuracy"
    }
    return [JudgeAgreement(a, b, agreement(labels[a], labels[b], types)) for a, b in combinations(labels, 2)]


class AuditedScore(Struct, frozen=True):
    """One judge's score with and without the questions whose gold answer an audit disputes."""

    judge: str
    metric: str
    audit: str
    """Name of the audit, or of its file."""
    about: str
    """A sentence on who made the audit; empty if not known."""
    audit_sha256: str
    disputed: int
    """Selected questions whose gold answer is disputed."""
    citation_only: int
    """Selected questions with only their evidence disputed: they stay."""
    kinds: dict[str, int]
    """Selected questions by kind of dispute."""
    score: AuditedMean
    by_type: dict[str, AuditedMean]
    ceiling: Ceiling
    """The score of answers that are right wherever the gold is right, if the audit is right."""


def audit_scores(
    audits: Sequence[str], files: RunFiles, run_questions: RunQuestions, metrics: Sequence[Metrics], folders: Folders
) -> list[AuditedScore]:
    """Score a run with and without the questions that audits dispute.

    Args:
        audits: names or files of audits (see `judges/audit.py`).
        metrics: one per judge.

    Raises:
        HarnessError: the file is not an audit, or it audits other questions.
    """
    golds = run_questions.golds()
    groups = {
        name: {
            question_id for question_id in run_questions.questions if run_questions.question_type(question_id) == name
        }
        for name in _types(metrics)
    }
    return [
        _audited(metrics_of_judge, audit, golds, groups, files)
        for audit in (audits_of(audits, run_questions, folders) if audits else ())
        for metrics_of_judge in metrics
    ]


def _types(metrics: Sequence[Metrics]) -> list[str]:
    return list(metrics[0].by_type) if metrics else []


def _audited(
    metrics: Metrics, audit: Audit, golds: Sequence[Gold], groups: Mapping[str, Set[str]], files: RunFiles
) -> AuditedScore:
    judgements = files.current_judgements(metrics.judge.id)
    credits = {gold.question_id: credit(judgements.get(gold.question_id)) or 0.0 for gold in golds}
    disputed = audit.score_corrupting
    return AuditedScore(
        judge=metrics.judge.id,
        metric=metrics.judge.metric,
        audit=audit.name,
        about=audit.about,
        audit_sha256=audit.sha256,
        disputed=len(disputed & credits.keys()),
        citation_only=len(audit.citation_only & credits.keys()),
        kinds={kind: here for kind, ids in audit.by_kind.items() if (here := len(ids & credits.keys()))},
        score=audited_mean(credits, disputed),
        by_type={
            name: audited_mean({question_id: credits[question_id] for question_id in group}, disputed)
            for name, group in groups.items()
        },
        ceiling=ceiling(golds, disputed),
    )
