"""Grade a run by several judges, and say how they agree."""

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from longmemeval.pipeline.evaluate.agreement import AuditedScore, JudgeAgreement, audit_scores, judge_agreements
from longmemeval.pipeline.evaluate.evaluate import evaluate_by
from longmemeval.pipeline.evaluate.options import EvaluateOptions
from longmemeval.results.graded.graded_run import Evaluation
from longmemeval.settings import Folders


class JudgedRun(Struct, frozen=True):
    """One run as each of its judges graded it."""

    evaluations: list[Evaluation]
    agreements: list[JudgeAgreement]
    """Of each pair of judges."""
    audited: list[AuditedScore]
    """One for each judge; empty without an audit."""

    @property
    def failed(self) -> bool:
        """True if an answer has no label by one of them."""
        return any(one.failed for one in self.evaluations)


def judge_run(
    run_id: str, judges: Sequence[str | None], audit: Path | None = None, *, options: EvaluateOptions, folders: Folders
) -> JudgedRun:
    """Grade a run by judges, one after the other.

    Args:
        run_id: id of a run with answers.
        judges: each as `EvaluateOptions.judge`.
        audit: a file of disputed gold labels (see `judges/audit.py`), without which it is scored too.
        options: those of every judge.
        folders: the folders.

    Raises:
        HarnessError: as of `evaluate`, or the audit cannot be read or is one of other questions.
    """
    evaluations = evaluate_by(judges, run_id, options=options, folders=folders)
    files, asked = evaluations[0].files, evaluations[0].asked
    metrics = [one.metrics for one in evaluations]
    agreements = judge_agreements(files, asked, [one.judge for one in metrics])
    return JudgedRun(evaluations, agreements, audit_scores(audit, files, asked, metrics) if audit else [])
