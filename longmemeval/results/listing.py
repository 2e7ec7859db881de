"""Which runs there are: listed with filters, and found by pattern or by sweep. Each `run.json` is read once."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from msgspec import Struct

from longmemeval.core.text.plural import count_of
from longmemeval.core.text_files import UnreadableError, decode_json
from longmemeval.errors import HarnessError, nearest
from longmemeval.results.index import IndexEntry, read_index
from longmemeval.results.manifest import run_ids

DAMAGED = "damaged"
"""The status of a run whose `run.json` cannot be read."""
_PATTERN = re.compile(r"[*?\[]")


class ListedScore(Struct, frozen=True):
    """What one judge made of a run."""

    judge: str
    metric: str
    value: float
    official: bool


class ListedRun(Struct, frozen=True):
    """One run in a few words."""

    run: str
    kind: str
    status: str
    dataset: str
    memory: str
    model: str
    questions: int
    answered: int | None
    """None: the run has not ended, or holds rankings."""
    started_at: str
    scores: tuple[ListedScore, ...] = ()
    """The official judge's first, else the newest."""
    sweep: str | None = None
    """That the run is part of, as its manifest says."""


class RunFilter(Struct, frozen=True):
    """Which runs to list; None: all. Texts may be patterns such as `hybrid*`."""

    dataset: str | None = None
    memory: str | None = None
    model: str | None = None
    status: str | None = None
    since: str | None = None
    """A day, or a day and a time: 2026-11-22, 2026-11-22T09:30."""
    sweep: str | None = None


class _Listed(Struct):
    """What a list needs of `run.json`."""

    kind: str
    status: str
    dataset: dict[str, str]
    settings: dict[str, Any]
    question_ids: tuple[str, ...]
    started_at: str
    totals: dict[str, Any] = {}
    sweep: str | None = None


def list_runs(results_dir: Path, wanted: RunFilter | None = None) -> list[ListedRun]:
    """The runs of a folder, newest first.

    Args:
        results_dir: the folder of runs.
        wanted: which of them; None: all.

    Raises:
        HarnessError: `since` is not a date.
    """
    wanted = wanted or RunFilter()
    since = _moment(wanted.since) if wanted.since else None
    scores = _scores(read_index(results_dir))
    found = [_listed(results_dir, run_id, scores) for run_id in run_ids(results_dir)]
    chosen = [one for one in found if _matches(one, wanted) and (since is None or _started(one) >= since)]
    return sorted(chosen, key=lambda one: (one.started_at, one.run), reverse=True)


def named_runs(
    names: Sequence[str],
    results_dir: Path,
    *,
    sweep: str | None = None,
    rankings: bool = True,
    tell: Callable[[str], None] = lambda line: None,
) -> list[str]:
    """The ids that names and patterns stand for.

    Args:
        names: run ids, or patterns such as `demo-*`, which stand for all runs that match.
        results_dir: the folder of runs.
        sweep: the runs of this sweep too.
        rankings: whether a pattern or a sweep stands for runs of `retrieval` too.
        tell: is called with what is to be said of runs that are left out.

    Returns:
        The names in their order, those of a pattern in alphabetical order and none twice.

    Raises:
        HarnessError: a pattern or the sweep has no run.
    """
    wanted: list[str] = []
    for name in names:
        if not _PATTERN.search(name):
            wanted.append(name)
            continue
        ids = run_ids(results_dir)
        found = [
            run_id for run_id in ids if fnmatchcase(run_id, name) and (rankings or not _ranks(results_dir, run_id))
        ]
        if not found:
            raise HarnessError(f"No run matches '{name}'", where=str(results_dir), fix=nearest(name, ids))
        wanted += [run_id for run_id in found if run_id not in wanted]
    if sweep is not None:
        listed = list_runs(results_dir)
        of_sweep = [one.run for one in listed if one.sweep == sweep and (rankings or one.kind == "run")]
        unrecorded, sweeps = unrecorded_note(listed, sweep), _sweeps(listed)
        if not of_sweep:
            fix = unrecorded or (nearest(sweep, sweeps) if sweeps else "`longmemeval runs` lists all runs")
            raise HarnessError(f"There is no run of a sweep '{sweep}'", where=str(results_dir), fix=fix)
        if unrecorded:
            tell(unrecorded)
        wanted += [run_id for run_id in sorted(of_sweep) if run_id not in wanted]
    return wanted


def sweep_names(results_dir: Path) -> list[str]:
    """What `--sweep` can name: the sweeps that have runs, in alphabetical order."""
    return _sweeps(list_runs(results_dir))


def _sweeps(listed: Iterable[ListedRun]) -> list[str]:
    return sorted({one.sweep for one in listed if one.sweep})


def unrecorded_note(listed: Iterable[ListedRun], sweep: str) -> str:
    """Say which runs may belong to a sweep and do not record it; empty where there are none.

    The ids of a sweep begin with its name, but those of `nightly_v2` begin with `nightly` too: only the record tells.
    """
    begin = f"{sweep}_"
    found = [one.run for one in listed if one.sweep is None and one.run.startswith(begin)]
    if not found:
        return ""
    runs = count_of(len(found), "run begins", "runs begin")
    return (
        f"{runs} with '{begin}' and no sweep is recorded: started by hand, or by an earlier version. "
        f"Name them, or the pattern '{begin}*'"
    )


def _ranks(results_dir: Path, run_id: str) -> bool:
    return _listed(results_dir, run_id, {}).kind == "retrieval"


def _listed(results_dir: Path, run_id: str, scores: Mapping[str, tuple[ListedScore, ...]]) -> ListedRun:
    try:
        one = decode_json((results_dir / run_id / "run.json").read_bytes(), _Listed)
    except (UnreadableError, OSError):
        return ListedRun(run_id, "", DAMAGED, "", "", "", 0, None, "")
    memory, model = _settings(one.settings, "memory", "name"), _settings(one.settings, "model", "spec")
    answered = one.totals.get("answered")
    return ListedRun(
        run=run_id,
        kind=one.kind,
        status=one.status,
        dataset=one.dataset.get("name", ""),
        memory=memory,
        model=model,
        questions=len(one.question_ids),
        answered=answered if isinstance(answered, int) else None,
        started_at=one.started_at,
        scores=scores.get(run_id, ()),
        sweep=one.sweep,
    )


def _settings(settings: Mapping[str, Any], group: str, field: str) -> str:
    """A field of a group of settings; empty where a run has none, as of imported answers."""
    found = settings.get(group)
    return str(found.get(field, "")) if isinstance(found, dict) else ""


def _scores(entries: Iterable[IndexEntry]) -> dict[str, tuple[ListedScore, ...]]:
    """The newest line of each run and judge; later gradings by a judge do not count as scores."""
    newest = {(one.run, one.judge): one for one in entries if one.grading == 1}
    found: dict[str, list[IndexEntry]] = {}
    for one in newest.values():
        found.setdefault(one.run, []).insert(0, one)
    return {
        run: tuple(
            ListedScore(one.judge, one.metric, one.accuracy, one.official) for one in _official_first(entries_of)
        )
        for run, entries_of in found.items()
    }


def _official_first(entries: list[IndexEntry]) -> Iterator[IndexEntry]:
    yield from sorted(entries, key=lambda one: not one.official)


def _matches(one: ListedRun, wanted: RunFilter) -> bool:
    pairs = (
        (one.dataset, wanted.dataset),
        (one.memory, wanted.memory),
        (one.model, wanted.model),
        (one.status, wanted.status),
    )
    return all(pattern is None or fnmatchcase(value, pattern) for value, pattern in pairs) and (
        wanted.sweep is None or one.sweep == wanted.sweep
    )


def _started(one: ListedRun) -> datetime:
    try:
        found = datetime.fromisoformat(one.started_at)
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
