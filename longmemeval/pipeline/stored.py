"""The scores of a run as its `metrics/` folder has them."""

from pathlib import Path

import msgspec

from longmemeval.errors import IntegrityError
from longmemeval.evaluation.judges.standing import is_official
from longmemeval.evaluation.metrics import Metrics
from longmemeval.text_files import UnreadableError, decode_json


def stored_metrics(folder: Path) -> list[Metrics]:
    """The scores of a run by all its judges, the newest last.

    What an earlier version called official without recording where the judge was served no longer is.

    Raises:
        IntegrityError: a file of scores is damaged.
    """
    files = sorted((folder / "metrics").glob("*.json"), key=lambda path: (path.stat().st_mtime_ns, path.name))
    return [_borne_out(read_metrics(path)) for path in files]


def read_metrics(path: Path) -> Metrics:
    """One file of scores, as it stands there.

    Raises:
        IntegrityError: it is damaged.
    """
    try:
        return decode_json(path.read_bytes(), Metrics)
    except UnreadableError as error:
        raise IntegrityError(
            f"The scores are damaged: {error}", where=str(path), fix="Run `longmemeval evaluate` again"
        ) from error


def _borne_out(metrics: Metrics) -> Metrics:
    official = metrics.judge.official and is_official(metrics.judge)
    return msgspec.structs.replace(metrics, judge=msgspec.structs.replace(metrics.judge, official=official))
