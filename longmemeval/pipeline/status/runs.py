"""Read the progress of a run from its manifest, journals and accounts, from outside the process that runs it."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from longmemeval.errors import HarnessError
from longmemeval.llm.costs import JUDGES_SPENDING, SPENDING, spent_and_limit
from longmemeval.measures.metrics import credit
from longmemeval.measures.notation import Ranking
from longmemeval.pipeline.status.tail import Counted, Tail, Work, work_on
from longmemeval.records import Answer, Judgement
from longmemeval.results.lines import ANSWERS, RANKINGS
from longmemeval.results.listing import RunHead, abridged
from longmemeval.results.manifest import RunManifest, stored_manifest
from longmemeval.results.scores.stored import read_metrics
from longmemeval.statistics.intervals import score_interval, wilson_interval

State = Literal["running", "judging", "died", "away", "completed", "incomplete", "failed", "interrupted", "damaged"]
"""`died`: the process ended without recording it; `away`: it is on another machine and cannot be seen from here."""


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

    @property
    def is_over(self) -> bool:
        """True if no process is working on it."""
        return self.state not in ("running", "judging", "away")

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
        settings = manifest.settings
        return RunState(
            run=self.folder.name,
            state=_state(manifest, work),
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
        )

    def _read(self) -> None:
        for answer in self._answers.new():
            before = self._settled.get(answer.question_id, False)
            self._settled[answer.question_id] = before or answer.status == "ok"
            self._done += self._settled[answer.question_id] and not before
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
