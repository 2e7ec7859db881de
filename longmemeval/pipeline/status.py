"""`status`: progress of runs and preparations, from their files alone."""

import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Generic, Literal, TypeVar

import msgspec
from msgspec import Struct

from longmemeval.core.files import list_folders
from longmemeval.core.journal import writer_of
from longmemeval.errors import HarnessError
from longmemeval.judges.offline.lexical import LEXICAL_JUDGE
from longmemeval.llm.costs import JUDGES_SPENDING, SPENDING, spent_and_limit
from longmemeval.llm.options import is_offline
from longmemeval.measures.metrics import credit
from longmemeval.measures.notation import Ranking
from longmemeval.records import Answer, Judgement
from longmemeval.results.lines import ANSWERS, RANKINGS, failures_of
from longmemeval.results.listing import DAMAGED, PLANNED, ListedRun, RunHead, abridged
from longmemeval.results.manifest import (
    RunManifest,
    command_to_continue,
    run_folder,
    run_ids,
    runs_by_change,
    stored_manifest,
)
from longmemeval.results.preparation import PREPARE_JOURNAL, PrepareRecord
from longmemeval.results.scores.stored import read_metrics
from longmemeval.settings import Folders
from longmemeval.statistics.intervals import score_interval, wilson_interval

__path__: list[str] = []
"""Names of version 0.2 below this one are found (`core/moved.py`)."""


# Read a journal that another process writes, continuing where the last read ended.

R = TypeVar("R")


class Tail(Generic[R]):
    """The records of a journal as they are written. An incomplete last line comes with a later read.

    Args:
        path: the file; it need not exist yet.
        kind: the type of a record.
    """

    def __init__(self, path: Path, kind: type[R]) -> None:
        self.path = path
        self._decoder = msgspec.json.Decoder(kind)
        self._read = 0

    def new(self) -> list[R]:
        """Return the complete records since the last read; damaged lines are skipped (`verify` reports them)."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._read)
                lines, end, _ = file.read().rpartition(b"\n")
        except OSError:
            return []
        self._read += len(lines + end)
        records = []
        for line in lines.split(b"\n") if end else ():
            try:
                records.append(self._decoder.decode(line))
            except msgspec.DecodeError:
                continue
        return records

    @property
    def changed_at(self) -> float | None:
        """The time of the last write, in seconds since the epoch; None: there is no file."""
        try:
            return self.path.stat().st_mtime
        except OSError:
            return None


class Counted:
    """The number of items settled by each line of a journal, which gives its state when its writer began."""

    def __init__(self) -> None:
        self._done: list[int] = []

    def add(self, done: int) -> None:
        """Add one line; `done` items are settled with it."""
        self._done.append(done)

    def at(self, lines: int) -> int:
        """Return how many were settled after the first `lines` lines."""
        lines = min(lines, len(self._done))
        return self._done[lines - 1] if lines else 0

    @property
    def lines(self) -> int:
        """The number of lines."""
        return len(self._done)

    @property
    def now(self) -> int:
        """The number of items settled so far."""
        return self.at(self.lines)


class Work(msgspec.Struct, frozen=True):
    """One piece of work that writes a journal: answering, ranking, judging by one judge, preparing."""

    name: str
    done: int
    """Number of items settled for good."""
    total: int | None
    """Number of items in total; None if unknown."""
    failed: int = 0
    """Number of items tried without success, and not done since."""
    alive: bool = False
    """True if a process is working on it."""
    died: bool = False
    """True if the process that worked on it ended without recording it."""
    host: str = ""
    """The host of that process."""
    pid: int | None = None
    per_second: float | None = None
    """Lines per second since the process began; None: not known."""
    seconds_left: float | None = None
    quiet_s: float | None = None
    """Seconds since the last line."""


def work_on(name: str, tail: "Tail[R]", counted: Counted, total: int | None, now: float, failed: int = 0) -> Work:
    """Return the state of the work whose journal is `tail`.

    Args:
        name: the name in tables.
        tail: the journal, read to its end.
        total: number of items to settle; None: only the writer knows it.
        now: seconds since the epoch.
        failed: number of items that failed and are not settled.
    """
    alive, writer = writer_of(tail.path)
    changed = tail.changed_at
    work = Work(
        name,
        counted.now,
        total,
        failed=failed,
        alive=alive,
        died=writer is not None and not alive,
        host=writer.host if writer else "",
        pid=writer.pid if writer else None,
        quiet_s=None if changed is None else max(0.0, now - changed),
    )
    if writer is None or not alive:
        return work
    new = counted.lines - writer.lines
    before = counted.at(writer.lines)
    if total is None and writer.expects is not None:
        work = msgspec.structs.replace(work, done=counted.now - before, total=writer.expects)
        left: int | None = writer.expects - new
    else:
        left = None if total is None else total - before - new
    rate = new / (now - writer.since) if new > 0 and now > writer.since else None
    seconds = max(0, left) / rate if rate and left is not None else None
    return msgspec.structs.replace(work, per_second=rate, seconds_left=seconds)


# Read the progress of a run from its manifest, journals and accounts, from outside the process that runs it.

State = Literal["running", "judging", "died", "away", "completed", "incomplete", "failed", "interrupted", "damaged"]
"""`died`: the process ended without recording it; `away`: it is on another machine and cannot be seen from here."""


UNDER_WAY = ("running", "judging", "away")
"""The states in which a process works on a run, as far as can be seen from here."""


class ScoreSoFar(Struct, frozen=True):
    """The score by one judge of the answers it has labelled; fractions between 0 and 1."""

    judge: str
    metric: str
    value: float | None
    """The score; None if nothing is labelled."""
    interval: tuple[float, float] | None
    judged: int
    of: int
    """The number of selected questions."""
    interim: bool
    """True if only the questions judged so far are counted, not all selected ones."""


class RunState(RunHead, frozen=True, kw_only=True):
    """The state of a run at one moment."""

    state: State
    work: tuple[Work, ...] = ()
    """Work of answering or ranking first, then of the judges."""
    spent_usd: float | None = None
    """US dollars spent; None if nothing that costs money was called."""
    limit_usd: float | None = None
    scores: tuple[ScoreSoFar, ...] = ()
    ended_at: str = ""
    cause: str = ""
    """The error that ended it, or the commonest one of its questions; empty if there is none."""
    next: str = ""
    """The command that goes on: to answer what has no answer, then to grade; empty if there is none."""

    @property
    def is_over(self) -> bool:
        """True if no process is working on it."""
        return self.state not in UNDER_WAY

    @property
    def at_work(self) -> Work | None:
        """The work in progress, or the last one."""
        busy = [work for work in self.work if work.alive] or [work for work in self.work if work.died]
        return next(iter(busy or self.work), None)


class _Judging:
    """The judgements of one judge as they are written."""

    def __init__(self, path: Path) -> None:
        self.judge = path.stem
        self.tail = Tail(path, Judgement)
        self.counted = Counted()
        self.judgements: dict[str, Judgement] = {}
        self.metrics = path.parents[1] / "metrics" / f"{path.stem}.json"
        self._labelled = 0

    def look(self) -> None:
        for judgement in self.tail.new():
            before = self.judgements.get(judgement.question_id)
            if before is None or before.label is None:
                self.judgements[judgement.question_id] = judgement
                self._labelled += judgement.label is not None
            self.counted.add(self._labelled)

    def score(self, manifest: RunManifest, work: Work) -> ScoreSoFar:
        """Return the stored score if it covers all these judgements; else the score so far."""
        of = len(manifest.question_ids)
        written = self.metrics.stat().st_mtime if self.metrics.exists() else None
        if written is not None and not work.alive and written >= (self.tail.changed_at or 0.0):
            found = read_metrics(self.metrics)
            overall, judged = found.overall, found.overall.n - found.overall.not_evaluated
            interim = manifest.status != "completed"
            return ScoreSoFar(self.judge, found.judge.metric, overall.accuracy, overall.interval, judged, of, interim)
        labelled = [judgement for judgement in self.judgements.values() if judgement.label is not None]
        credits = [credit(judgement) or 0.0 for judgement in labelled]
        if not credits:
            return ScoreSoFar(self.judge, "score", None, None, 0, of, interim=True)
        scored = any(judgement.score is not None for judgement in labelled)
        interval = (
            score_interval(credits, [judgement.question_id for judgement in labelled])
            if scored
            else wilson_interval(round(sum(credits)), len(credits))
        )
        metric = "score" if scored else "accuracy"
        return ScoreSoFar(self.judge, metric, sum(credits) / len(credits), interval, len(credits), of, interim=True)


class RunWatch:
    """A run observed repeatedly; each line of its journals is read once.

    Args:
        folder: folder of the run.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._answers = Tail(folder / ANSWERS, Answer)
        self._rankings = Tail(folder / RANKINGS, Ranking)
        self._counted = Counted()
        self._settled: dict[str, bool] = {}
        self._done = 0
        self._failed: dict[str, Answer] = {}
        self._judges: dict[str, _Judging] = {}

    def look(self, now: float | None = None) -> RunState:
        """Return the state of the run at this moment; `now` in seconds since the epoch."""
        now = time.time() if now is None else now
        try:
            manifest = stored_manifest(self.folder)
        except (HarnessError, OSError):
            return RunState(self.folder.name, state="damaged")
        self._read()
        work = [self._main(manifest, now)]
        scores = []
        for path in sorted((self.folder / "judgements").glob("*.jsonl")):
            judging = self._judges.setdefault(path.stem, _Judging(path))
            judging.look()
            name = f"judge {path.stem}"
            unlabelled = sum(judgement.label is None for judgement in judging.judgements.values())
            work.append(work_on(name, judging.tail, judging.counted, self._done, now, unlabelled))
            scores.append(judging.score(manifest, work[-1]))
        spent, limit = spent_and_limit(self.folder / SPENDING, self.folder / JUDGES_SPENDING)
        settings, state = manifest.settings, _state(manifest, work)
        over = state not in UNDER_WAY
        return RunState(
            run=self.folder.name,
            state=state,
            kind=manifest.kind,
            dataset=manifest.dataset.get("name", ""),
            memory=settings.memory_name,
            model=settings.model_name,
            questions=len(manifest.question_ids),
            work=tuple(work),
            spent_usd=spent,
            limit_usd=limit,
            scores=tuple(scores),
            started_at=manifest.started_at,
            ended_at=manifest.ended_at,
            cause=manifest.error or failures_of(self._failed.values(), len(manifest.question_ids)).told,
            next=_next(manifest, work[0], scores) if over else "",
        )

    def _read(self) -> None:
        for answer in self._answers.new():
            before = self._settled.get(answer.question_id, False)
            self._settled[answer.question_id] = before or answer.status == "ok"
            self._done += self._settled[answer.question_id] and not before
            if self._settled[answer.question_id]:
                self._failed.pop(answer.question_id, None)
            else:
                self._failed[answer.question_id] = answer
            self._counted.add(self._done)
        for ranking in self._rankings.new():
            self._done += ranking.question_id not in self._settled
            self._settled[ranking.question_id] = True
            self._counted.add(self._done)

    def _main(self, manifest: RunManifest, now: float) -> Work:
        failed = len(self._settled) - self._done
        total = len(manifest.question_ids)
        if manifest.kind == "retrieval":
            return work_on("rank", self._rankings, self._counted, total, now)
        return work_on("answer", self._answers, self._counted, total, now, failed)


def _next(manifest: RunManifest, main: Work, scores: Sequence[ScoreSoFar]) -> str:
    """Return the command that goes on with a run that no process works on; empty if there is nothing to do."""
    if main.total is not None and main.done < main.total:
        return command_to_continue(manifest)
    if manifest.kind == "retrieval" or any(score.value is not None and not score.interim for score in scores):
        return ""
    judge = ["--judge", LEXICAL_JUDGE] if is_offline(manifest.settings.model_name) else []
    return shlex.join(["longmemeval", "evaluate", manifest.run_id, *judge])


def _state(manifest: RunManifest, work: Sequence[Work]) -> State:
    main, judges = work[0], work[1:]
    if main.alive:
        return "running"
    if manifest.status == "running":
        return "away" if main.host and not _is_here(main.host) else "died"
    if any(judge.alive for judge in judges):
        return "judging"
    if dead := [judge for judge in judges if judge.died]:
        return "died" if _is_here(dead[0].host) else "away"
    return manifest.status


def _is_here(host: str) -> bool:
    import socket

    return host == socket.gethostname()


def is_unfinished(folder: Path) -> bool:
    """Return whether a process is working on the run in `folder`, or it ended before it was done."""
    found = abridged(folder)
    if found is None or found.status != "completed":
        return True
    return any(folder.glob("*.jsonl.lock")) or any(folder.glob("judgements/*.jsonl.lock"))


# Read the progress of preparations from their journals and accounts, from outside the process that runs them.


class PreparationState(Struct, frozen=True):
    """The state of a preparation at one moment."""

    preparation: str
    """Dataset and name of the preparation."""
    state: Literal["running", "died", "ended"]
    work: Work
    """Finished and total work in this stage of the running command; after its end, all fixtures."""
    spent_usd: float | None = None
    limit_usd: float | None = None

    @property
    def is_over(self) -> bool:
        """True if no process is working on it."""
        return self.state != "running"


class PreparationWatch:
    """A preparation observed repeatedly.

    Args:
        folder: folder of its fixtures.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._tail = Tail(folder / PREPARE_JOURNAL, PrepareRecord)
        self._counted = Counted()
        self._done = 0

    def look(self, now: float | None = None) -> PreparationState:
        """Return the state of the preparation at this moment; `now` in seconds since the epoch."""
        now = time.time() if now is None else now
        for record in self._tail.new():
            # The cost of embedding has a line of its own.
            self._done += record.work == "fixture"
            self._counted.add(self._done)
        work = work_on("prepare", self._tail, self._counted, None, now)
        return PreparationState(
            f"{self.folder.parent.name}/{self.folder.name}",
            "running" if work.alive else "died" if work.died else "ended",
            work,
            *spent_and_limit(self.folder / SPENDING),
        )


def unfinished_preparations(prepared_dir: Path) -> list[PreparationWatch]:
    """Return the preparations that a process is working on, or was working on when it died."""
    found = [folder for dataset in list_folders(prepared_dir) for folder in list_folders(dataset)]
    return [PreparationWatch(folder) for folder in found if (folder / f"{PREPARE_JOURNAL}.lock").exists()]


# Observe runs and preparations together: named ones, or unfinished and recently ended ones.

_RECENT_S = 86_400.0
_MOST_RECENT = 10


class UnderWay(Struct, frozen=True):
    """The states of runs and preparations at one moment."""

    runs: tuple[RunState, ...]
    preparations: tuple[PreparationState, ...]

    @property
    def every(self) -> tuple[RunState | PreparationState, ...]:
        """All states, runs first."""
        return (*self.runs, *self.preparations)

    @property
    def is_over(self) -> bool:
        """True if no process is working on any of them."""
        return all(state.is_over for state in self.every)


class Watching:
    """Runs and preparations observed repeatedly.

    Args:
        runs: each keeps its place in the lists of states.
        preparations: likewise.
        joining: folders in which work that begins meanwhile is observed too: runs to the end, preparations
            as long as they are unfinished; None: only named work.
    """

    def __init__(
        self,
        runs: Sequence[RunWatch] = (),
        preparations: Sequence[PreparationWatch] = (),
        *,
        joining: Folders | None = None,
    ) -> None:
        self._runs = {watch.folder: watch for watch in runs}
        self._preparations = {watch.folder: watch for watch in preparations}
        self._joining = joining

    def look(self) -> UnderWay:
        """Return the state of all of them at this moment."""
        if self._joining:
            self._join(self._joining)
        runs, preparations = self._runs.values(), self._preparations.values()
        return UnderWay(tuple(watch.look() for watch in runs), tuple(watch.look() for watch in preparations))

    def _join(self, folders: Folders) -> None:
        for folder in (folders.results_dir / run for run in run_ids(folders.results_dir)):
            if folder not in self._runs and is_unfinished(folder):
                self._runs[folder] = RunWatch(folder)
        unfinished = unfinished_preparations(folders.prepared_dir)
        self._preparations = {watch.folder: self._preparations.get(watch.folder, watch) for watch in unfinished}


def watch_named(run_ids: Sequence[str], folders: Folders) -> Watching:
    """Return a watch of these runs.

    Raises:
        HarnessError: the run is unknown; names the nearest id.
    """
    return Watching([RunWatch(run_folder(folders.results_dir, run_id)) for run_id in run_ids])


def watch_recent(folders: Folders, now: float | None = None) -> Watching:
    """Return a watch of unfinished work, and of at most ten runs that ended within the last day.

    Unfinished runs come first, then those that ended last.

    Args:
        now: seconds since the epoch; None: this moment.
    """
    since = (time.time() if now is None else now) - _RECENT_S
    changed = runs_by_change(folders.results_dir)
    unfinished = [run for run in changed if is_unfinished(folders.results_dir / run)]
    ended = [run for run in changed if run not in unfinished and changed[run] >= since]
    watched = [RunWatch(folders.results_dir / run) for run in (*unfinished, *ended[:_MOST_RECENT])]
    return Watching(watched, unfinished_preparations(folders.prepared_dir))


def state_of_unfinished(listed: ListedRun, folders: Folders) -> RunState | None:
    """Return the state of a listed run that has not ended; None for any other."""
    folder = folders.results_dir / listed.run
    return RunWatch(folder).look() if listed.status not in (DAMAGED, PLANNED) and is_unfinished(folder) else None
