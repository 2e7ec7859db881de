"""Build the documents that verbs with scores print with `--json`; fractions between 0 and 1, nothing rounded."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from longmemeval.core.tables.table import frame
from longmemeval.pipeline.claims.catalogue import Claim
from longmemeval.pipeline.compare.baseline import AgainstBaseline
from longmemeval.pipeline.compare.columns import RUN_COLUMNS, columns_of
from longmemeval.pipeline.compare.comparison import ComparedRun, Comparison
from longmemeval.report.tables.comparison import footnotes
from longmemeval.results.graded.graded_run import GradedRun

if TYPE_CHECKING:
    from longmemeval.pipeline.evaluate.several import JudgedRun
    from longmemeval.pipeline.sweep.sweep import SweepReport


def comparison_document(
    comparison: Comparison,
    *,
    against: Sequence[AgainstBaseline] = (),
    published: Sequence[Claim] = (),
    questions: bool = False,
) -> dict[str, Any]:
    """Return the comparison as one document.

    Args:
        against: the runs compared with a baseline.
        published: figures that others have published.
        questions: list every question.
    """
    document: dict[str, Any] = {
        "verdict": comparison.verdict,
        "digest": comparison.digest,
        "dataset": comparison.dataset,
        "runs": [_run(run) for run in comparison.runs],
        "rows": frame(columns_of(RUN_COLUMNS, comparison, "frame"), comparison.rows),
        "family": comparison.family,
        "versus_baseline": comparison.against,
        "pairs": comparison.pairs,
        "repeats": comparison.repeats,
        "detectable": comparison.detectable,
        "warnings": comparison.warnings,
        "sentences": comparison.sentences,
    }
    extra = {
        "grids": comparison.grids,
        "audits": comparison.audits,
        "against": against,
        "published": [_figure(claim) for claim in published],
        "questions": comparison.questions if questions else (),
    }
    return document | {name: list(rows) for name, rows in extra.items() if rows}


def evaluation_document(summary: GradedRun) -> dict[str, Any]:
    """Return one run as graded by one judge, with the notes below its table."""
    return run_document(summary) | {"notes": footnotes([summary])}


def judged_document(judged: "JudgedRun") -> dict[str, Any]:
    """Return the figures of one judge; if there are several or an audit, the figures of all and their agreement."""
    figures = [evaluation_document(evaluation.summary) for evaluation in judged.evaluations]
    if len(figures) == 1 and not judged.audited:
        return figures[0]
    return {"judges": figures, "agreement": judged.agreements, "audit": judged.audited}


def run_document(summary: GradedRun) -> dict[str, Any]:
    """Return one run as `evaluate --json` prints it: its scores, setup, costs and latencies.

    `usage` and `latency_ms` are those of the judge, as in the stored scores; `answers_latency_ms` is that of the run.
    """
    document: dict[str, Any] = msgspec.to_builtins(summary)
    metrics: dict[str, Any] = document.pop("metrics")
    del document["run_id"]
    document["answers_latency_ms"] = document.pop("latency")
    return metrics | document


def _figure(claim: Claim) -> dict[str, Any]:
    """Return one published figure, without the settings needed to try it."""
    fields = {name: getattr(claim, name) for name in ("variant", "system", "value", "metric", "n", "judge", "reader")}
    origin = {"source": claim.source.cited, "by_group": claim.by_group, "note": claim.note}
    return {"dataset": claim.benchmark, **fields, **origin}


def sweep_document(report: "SweepReport") -> dict[str, object]:
    """Return a sweep as one document.

    `runs` and `grids` are as in `compare --json`; `pareto` lists the ids on the Pareto front by the first judge's
    scores; `holdout` has an entry per judge if the sweep's file asks for one.
    """
    return {
        "sweep": report.name,
        "runs": [run for judged in report.comparisons for run in comparison_document(judged.comparison)["runs"]],
        "pareto": list(report.comparisons[0].front) if report.comparisons else [],
        "holdout": [
            {"judge": judged.judge, "lost": judged.holdout.lost, **msgspec.structs.asdict(judged.holdout)}
            for judged in report.comparisons
            if judged.holdout
        ],
        "grids": list(report.comparisons[0].comparison.grids) if report.comparisons else [],
        "failed": report.failures,
        "estimate": report.estimate,
    }


def _run(run: ComparedRun) -> dict[str, Any]:
    """Return the document of `evaluate --json` on a run, with the fields that the comparison adds."""
    added = {
        "reading": run.reading,
        "settings_sha256": run.settings_sha256,
        "evidence_recall": run.evidence_recall,
        "budget": run.budget,
        "deviations": run.deviations,
        "cheaper_from": run.cheaper_from,
        "lost": run.lost,
        "marks": run.marks,
    }
    return run_document(run.summary) | added
