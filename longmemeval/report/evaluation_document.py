"""The document that `evaluate --json` prints of one judge; fractions between 0 and 1, nothing rounded."""

from pathlib import Path
from typing import Any

import msgspec

from longmemeval.pipeline.evaluate import Evaluation
from longmemeval.pipeline.scored import summarise
from longmemeval.report.summary import footnotes


def evaluation_document(evaluation: Evaluation, results_dir: Path) -> dict[str, Any]:
    """The scores, and beside them what a table says of them too.

    Args:
        evaluation: of one run by one judge.
        results_dir: where the runs are.
    """
    metrics = evaluation.metrics
    summary = summarise(results_dir / metrics.run, evaluation.manifest, metrics)
    figures: dict[str, Any] = msgspec.to_builtins(metrics)
    return figures | {"gradings": summary.gradings, "notes": footnotes([summary])}
