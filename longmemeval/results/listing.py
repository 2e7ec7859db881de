"""The list of runs, with filters, by pattern or by sweep. Each `run.json` is read once."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from longmemeval.core.files import write_atomic
from longmemeval.core.text.figures import count_of
from longmemeval.core.text_files import UnreadableError, decode_json
from longmemeval.errors import HarnessError, nearest
from longmemeval.results.index import IndexEntry, read_index
from longmemeval.results.manifest import manifest_bytes, run_ids
from longmemeval.results.settings import RunKind

DAMAGED = "damaged"
"""The status of a run whose `run.json` cannot be read."""
_PATTERN = re.compile(r"[*?\[]")


class ListedScore(Struct, frozen=True):
    """The score of a run by one judge."""

    judge: str
    metric: str
    value: float
    official: bool
    interval: tuple[float, float]
    """95% CI of `value`."""


class RunHead(Struct, frozen=True):
    """What every list says of a run; of a damaged one, its name alone."""

    run: str
    kind: str = ""
    dataset: str = ""
    memory: str = ""
    model: str = ""
    questions: int = 0
    started_at: str = ""


class ListedRun(RunHead, frozen=True, kw_only=True):
    """One run, abridged."""

    status: str
    answered: int | None = None
    """Number of answers; None: the run has not ended, or holds rankings."""
    scores: tuple[ListedScore, ...] = ()
    """Scores, the official judge's first, then the newest."""
    sweep: str | None = None
    """Name of the sweep that the run belongs to, as in its manifest."""
    cost_usd: float | None = None
    """Dollars of all calls for its answers; None: not known for all of them."""


class RunFilter(Struct, frozen=True):
    """Filter of runs; None: no restriction. Texts may be patterns such as `hybrid*`."""

    dataset: str | None = None
    memory: str | None = None
    model: str | None = None
    status: str | None = None
    since: str | None = None
    """A date, or a date and a time: 2026-11-22, 2026-11-22T09:30."""
    sweep: str | None = None

    def fits(self, run: ListedRun) -> bool:
        """Return whether a run matches, apart from `since`."""
        pairs = (
            (run.dataset, self.dataset),
            (run.memory, self.memory),
            (run.model, self.model),
            (run.status, self.status),
        )
        return all(pattern is None or fnmatchcase(value, pattern) for value, pattern in pairs) and (
            self.sweep is None or run.sweep == self.sweep
        )


class Abridged(Struct):
    """The part of `run.json` that lists, and the choice of runs to compare, need."""

    kind: RunKind
    status: str
    dataset: dict[str, str]
    settings: dict[str, Any]
    question_ids: tuple[str, ...]
    started_at: str
    totals: dict[str, Any] = {}
    sweep: str | None = None


def abridged(folder: Path) -> Abridged | None:
    """Return the abridged `run.json` of a run; None where it cannot be read: what is wrong with it, its reader says."""
    try:
        return decode_json(manifest_bytes(folder / "run.json"), Abridged)
    except (UnreadableError, OSError):
        return None


def list_runs(results_dir: Path, wanted: RunFilter | None = None) -> list[ListedRun]:
    """Return the runs of a folder, newest first.

    Args:
        results_dir: the folder of runs.
        wanted: filter; None: all runs.

    Raises:
        HarnessError: `since` is not a date.
    """
    wanted = wanted or RunFilter()
    since = _moment(wanted.since) if wanted.since else None
    scores = _scores(read_index(results_dir))
    found = [_listed(results_dir, run_id, scores) for run_id in run_ids(results_dir)]
    chosen = [run for run in found if wanted.fits(run) and (since is None or _started(run) >= since)]
    return sorted(chosen, key=lambda run: (run.started_at, run.run), reverse=True)


def is_pattern(name: str) -> bool:
    """Return whether a name stands for all runs that match it."""
    return _PATTERN.search(name) is not None


def named_runs(
    names: Sequence[str],
    results_dir: Path,
    *,
    sweep: str | None = None,
    rankings: bool = True,
    tell: Callable[[str], None] = lambda line: None,
) -> list[str]:
    """Return the ids that names and patterns stand for.

    Args:
        names: run ids, or patterns such as `demo-*`, which stand for all runs that match.
        results_dir: the folder of runs.
        sweep: name of a sweep whose runs are included too.
        rankings: True if a pattern or a sweep includes runs of `retrieval`.
        tell: called with each note on runs that are left out.

    Returns:
        The names in their order, those of a pattern in alphabetical order and none twice.

    Raises:
        HarnessError: a pattern or the sweep has no run.
    """
    wanted: list[str] = []
    for name in names:
        if not is_pattern(name):
            wanted.append(name)
            continue
        ids = run_ids(results_dir)
        found = [
            run_id for run_id in ids if fnmatchcase(run_id, name) and (rankings or not _ranks(results_dir, run_id))
        ]
        if not found:
            raise HarnessError(f"No runs match '{name}'", where=str(results_dir), fix=nearest(name, ids))
        wanted += [run_id for run_id in found if run_id not in wanted]
    if sweep is not None:
        listed = list_runs(results_dir)
        of_sweep = [run.run for run in listed if run.sweep == sweep and (rankings or run.kind == "run")]
        unrecorded, sweeps = unrecorded_note(listed, sweep), _sweeps(listed)
        if not of_sweep:
            fix = unrecorded or (nearest(sweep, sweeps) if sweeps else "`longmemeval runs` lists all runs")
            raise HarnessError(f"Unknown sweep '{sweep}'", where=str(results_dir), fix=fix)
        if unrecorded:
            tell(unrecorded)
        wanted += [run_id for run_id in sorted(of_sweep) if run_id not in wanted]
    return wanted


def sweep_names(results_dir: Path) -> list[str]:
    """Return the names that `--sweep` accepts: the sweeps that have runs, in alphabetical order."""
    return _sweeps(list_runs(results_dir))


def _sweeps(listed: Iterable[ListedRun]) -> list[str]:
    return sorted({run.sweep for run in listed if run.sweep})


def unrecorded_note(listed: Iterable[ListedRun], sweep: str) -> str:
    """Return a note on runs that may belong to a sweep without recording it; empty if there are none.

    The ids of a sweep begin with its name, but those of `nightly_v2` begin with `nightly` too: only the record is sure.
    """
    prefix = f"{sweep}_"
    found = [run.run for run in listed if run.sweep is None and run.run.startswith(prefix)]
    if not found:
        return ""
    runs = count_of(len(found), "run begins", "runs begin")
    return (
        f"{runs} with '{prefix}' and no sweep is recorded: started outside a sweep, or by an earlier version. "
        f"Name them, or the pattern '{prefix}*'"
    )


def _ranks(results_dir: Path, run_id: str) -> bool:
    found = abridged(results_dir / run_id)
    return found is not None and found.kind == "retrieval"


def _listed(results_dir: Path, run_id: str, scores: Mapping[str, tuple[ListedScore, ...]]) -> ListedRun:
    found = abridged(results_dir / run_id)
    if found is None:
        return ListedRun(run_id, status=DAMAGED)
    answered = found.totals.get("answered")
    return ListedRun(
        run=run_id,
        kind=found.kind,
        status=found.status,
        dataset=found.dataset.get("name", ""),
        memory=_settings(found.settings, "memory", "name"),
        model=_settings(found.settings, "model", "spec"),
        questions=len(found.question_ids),
        answered=answered if isinstance(answered, int) else None,
        started_at=found.started_at,
        scores=scores.get(run_id, ()),
        sweep=found.sweep,
        cost_usd=_answers_cost(found.totals),
    )


def _answers_cost(totals: Mapping[str, Any]) -> float | None:
    """Return the dollars in the totals of a manifest; None if a call has no known price, or nothing is recorded."""
    usage = totals.get("usage")
    if not isinstance(usage, dict) or usage.get("unpriced_calls"):
        return None
    cost = usage.get("cost_usd")
    return float(cost) if isinstance(cost, int | float) else None


def _settings(settings: Mapping[str, Any], group: str, field: str) -> str:
    """Return a field of a group of settings; empty if a run has none, as with imported answers."""
    found = settings.get(group)
    return str(found.get(field, "")) if isinstance(found, dict) else ""


def _scores(entries: Iterable[IndexEntry]) -> dict[str, tuple[ListedScore, ...]]:
    """Return the newest scores of each run; later gradings by a judge do not count as scores."""
    newest = {(entry.run, entry.judge): entry for entry in entries if entry.grading == 1}
    found: dict[str, list[IndexEntry]] = {}
    for entry in newest.values():
        found.setdefault(entry.run, []).insert(0, entry)
    return {
        run: tuple(
            ListedScore(entry.judge, entry.metric, entry.accuracy, entry.official, entry.interval)
            for entry in _official_first(entries_of)
        )
        for run, entries_of in found.items()
    }


def _official_first(entries: list[IndexEntry]) -> Iterator[IndexEntry]:
    yield from sorted(entries, key=lambda entry: not entry.official)


def _started(run: ListedRun) -> datetime:
    try:
        found = datetime.fromisoformat(run.started_at)
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _moment(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        fix = "Write it as 2026-11-22 or 2026-11-22T09:30"
        raise HarnessError(f"'{text}' is not a date", where="--since", fix=fix) from error
    return found if found.tzinfo else found.replace(tzinfo=UTC)


# The planned runs of a sweep, recorded next to the runs in `<sweep>_plan.json`.

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
