"""Grade a run with several judges, and compute their agreement."""

from collections.abc import Sequence

from msgspec import Struct

from longmemeval.pipeline.evaluate.agreement import AuditedScore, JudgeAgreement, audit_scores, judge_agreements
from longmemeval.pipeline.evaluate.evaluate import evaluate_by
from longmemeval.pipeline.options import EvaluateOptions
from longmemeval.results.graded.graded_run import Evaluation, chosen_metrics
from longmemeval.results.manifest import run_folder
from longmemeval.results.run_files import RunFiles
from longmemeval.settings import Folders


class JudgedRun(Struct, frozen=True):
    """One run as each of its judges graded it."""

    evaluations: list[Evaluation]
    agreements: list[JudgeAgreement]
    """Agreement of each pair of judges."""
    audited: list[AuditedScore]
    """Audited score of each judge; empty without an audit."""

    @property
    def failed(self) -> bool:
        """True if an answer has no label by one of them."""
        return any(evaluation.failed for evaluation in self.evaluations)


def judge_run(
    run_id: str, judges: Sequence[str | None], audits: Sequence[str] = (), *, options: EvaluateOptions, folders: Folders
) -> JudgedRun:
    """Grade a run with judges, one after the other.

    Args:
        judges: each as in `EvaluateOptions.judge`. With an audit, None is the judge that graded the run.
        audits: audits of the gold labels (see `audit_of`); the run is scored without these labels too.
        options: options for every judge.

    Raises:
        HarnessError: as for `evaluate`, or the audit cannot be read or audits other questions.
    """
    if audits and [*judges] == [None] and not options.rejudge:
        files = RunFiles(run_folder(folders.results_dir, run_id))
        graded = chosen_metrics(files, None).judge if files.metrics else None
        judges = [graded.id] if graded and not graded.official else judges
    evaluations = evaluate_by(judges, run_id, options=options, folders=folders)
    files, asked = evaluations[0].files, evaluations[0].asked
    metrics = [evaluation.metrics for evaluation in evaluations]
    agreements = judge_agreements(files, asked, [scores.judge for scores in metrics])
    return JudgedRun(evaluations, agreements, audit_scores(audits, files, asked, metrics, folders))
