"""The planned runs of a sweep, recorded next to the runs in `<sweep>_plan.json`."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from longmemeval.core.files import write_atomic
from longmemeval.core.text_files import UnreadableError, decode_json
from longmemeval.results.listing import ListedRun
from longmemeval.results.manifest import run_ids

PLANNED = "planned"
"""The status of a run that a sweep has yet to begin."""
_PLAN = "_plan.json"


class RecordedRun(Struct, frozen=True):
    """One run of the plan."""

    run: str
    memory: str
    model: str


class SweepRecord(Struct, frozen=True, kw_only=True):
    """The runs of a sweep as it was last started."""

    format: int = 1
    sweep: str
    dataset: str
    questions: int
    runs: tuple[RecordedRun, ...]


def record_plan(results_dir: Path, record: SweepRecord) -> None:
    """Write the record of a sweep, replacing an earlier one of that name unless it is the same."""
    data = msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n"
    path = results_dir / f"{record.sweep}{_PLAN}"
    if not path.exists() or path.read_bytes() != data:
        write_atomic(path, data)


def planned_runs(results_dir: Path) -> Sequence[ListedRun]:
    """Return the runs that sweeps have yet to begin, in order; skip records that cannot be read."""
    started, found = set(run_ids(results_dir)), []
    for path in sorted(results_dir.glob(f"*{_PLAN}")):
        try:
            record = decode_json(path.read_bytes(), SweepRecord)
        except (UnreadableError, OSError):
            continue
        found += [
            ListedRun(
                run=run.run,
                kind="run",
                status=PLANNED,
                dataset=record.dataset,
                memory=run.memory,
                model=run.model,
                questions=record.questions,
                sweep=record.sweep,
            )
            for run in record.runs
            if run.run not in started
        ]
    return found
