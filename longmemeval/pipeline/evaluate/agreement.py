"""What is shown beside a score: how far other judges agree, and what is left of it without disputed gold labels."""

from collections.abc import Mapping, Sequence, Set
from itertools import combinations
from pathlib import Path

from msgspec import Struct

from longmemeval.judges.audit import Audit, AuditedMean, Ceiling, audited_mean, ceiling, read_audit
from longmemeval.judges.protocol import JudgeIdentity
from longmemeval.measures.metrics import Metrics, credit
from longmemeval.records import Gold
from longmemeval.results.run_files import RunFiles
from longmemeval.results.run_questions import RunQuestions
from longmemeval.statistics.agreement import Agreement, agreement


class JudgeAgreement(Struct, frozen=True):
    """Two judges of one run."""

    a: str
    """Judge ids."""
    b: str
    agreement: Agreement


def judge_agreements(files: RunFiles, asked: RunQuestions, judges: Sequence[JudgeIdentity]) -> list[JudgeAgreement]:
    """How far the judges of a run agree, pair by pair; without judges of scores, whose labels mean full credit."""
    types = {one: asked.question_type(one) for one in asked.questions}
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
    audit_sha256: str
    disputed: int
    """Selected questions whose gold answer is disputed."""
    citation_only: int
    """Selected questions of which only the evidence is disputed: they stay."""
    score: AuditedMean
    by_type: dict[str, AuditedMean]
    ceiling: Ceiling
    """What answers that are right wherever the gold is would score, if the audit is right."""


def audit_scores(file: Path, files: RunFiles, asked: RunQuestions, metrics: Sequence[Metrics]) -> list[AuditedScore]:
    """Set an audit beside the scores of a run.

    Args:
        file: the audit (see `judges/audit.py`).
        files: of the run.
        asked: its questions and their gold.
        metrics: of the judges.

    Raises:
        HarnessError: the file is not an audit, or of other questions.
    """
    audit = read_audit(file, asked.dataset, asked.benchmark.audit_id)
    golds = asked.golds()
    groups = {name: {one for one in asked.questions if asked.question_type(one) == name} for name in _types(metrics)}
    return [_audited(one, audit, golds, groups, files) for one in metrics]


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
        audit_sha256=audit.sha256,
        disputed=len(disputed & credits.keys()),
        citation_only=len(audit.citation_only & credits.keys()),
        score=audited_mean(credits, disputed),
        by_type={
            name: audited_mean({question_id: credits[question_id] for question_id in group}, disputed)
            for name, group in groups.items()
        },
        ceiling=ceiling(golds, disputed),
    )
