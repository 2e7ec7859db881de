"""What a sweep is going to run: its record beside the runs, `<sweep>_plan.json`."""

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
    """Write the record of a sweep in the place of an earlier one of its name, unless that says the same."""
    data = msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n"
    path = results_dir / f"{record.sweep}{_PLAN}"
    if not path.exists() or path.read_bytes() != data:
        write_atomic(path, data)


def planned_runs(results_dir: Path) -> Sequence[ListedRun]:
    """Return the runs that sweeps have yet to begin, in their order; a record that cannot be read plans nothing."""
    begun, found = set(run_ids(results_dir)), []
    for path in sorted(results_dir.glob(f"*{_PLAN}")):
        try:
            record = decode_json(path.read_bytes(), SweepRecord)
        except (UnreadableError, OSError):
            continue
        found += [
            ListedRun(
                run=one.run,
                kind="run",
                status=PLANNED,
                dataset=record.dataset,
                memory=one.memory,
                model=one.model,
                questions=record.questions,
                answered=None,
                started_at="",
                sweep=record.sweep,
            )
            for one in record.runs
            if one.run not in begun
        ]
    return found
