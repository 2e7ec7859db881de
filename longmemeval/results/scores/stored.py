"""The scores of a run in its `metrics/` folder."""

from pathlib import Path

from msgspec import structs

from longmemeval.core.text_files import UnreadableError, decode_format
from longmemeval.errors import IntegrityError
from longmemeval.judges.template_set import is_official
from longmemeval.measures.metrics import METRICS_FORMAT, Metrics


def stored_metrics(folder: Path) -> list[Metrics]:
    """Return the scores of a run by all its judges, the newest last.

    Scores that version 0.2 called official by a judge that has changed since no longer are.

    Raises:
        IntegrityError: a file of scores is damaged.
    """
    files = sorted((folder / "metrics").glob("*.json"), key=lambda path: (path.stat().st_mtime_ns, path.name))
    return [_confirm_official(read_metrics(path)) for path in files]


def read_metrics(path: Path) -> Metrics:
    """Return one file of scores, unchanged.

    Raises:
        IntegrityError: it is damaged.
        HarnessError: it is of a newer format.
    """
    try:
        return decode_format(path.read_bytes(), Metrics, METRICS_FORMAT, "The file of scores", str(path))
    except UnreadableError as error:
        raise IntegrityError(
            f"The scores are damaged: {error}",
            where=str(path),
            fix="Delete it and run `longmemeval evaluate` again: it is made from the judgements",
        ) from error


def _confirm_official(metrics: Metrics) -> Metrics:
    if metrics.format == METRICS_FORMAT:
        return metrics
    official = metrics.judge.official and is_official(metrics.judge)
    return structs.replace(metrics, judge=structs.replace(metrics.judge, official=official))
