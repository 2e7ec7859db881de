"""The document that `evaluate --json` prints of one judge; fractions between 0 and 1, nothing rounded."""

from typing import Any

from longmemeval.pipeline.compare.graded_run import summarise
from longmemeval.pipeline.grade.evaluate import Evaluation
from longmemeval.report.comparison_document import run_document
from longmemeval.report.summary import footnotes
from longmemeval.settings import Folders


def evaluation_document(evaluation: Evaluation, where: Folders) -> dict[str, Any]:
    """The scores, and beside them what a table says of them too.

    Args:
        evaluation: of one run by one judge.
        where: the folders.
    """
    summary = summarise(evaluation.graded, evaluation.metrics, where)
    return run_document(summary) | {"notes": footnotes([summary])}
