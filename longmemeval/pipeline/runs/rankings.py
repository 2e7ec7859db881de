"""Runs of `retrieval`: `rankings.jsonl`, one line per question, appended and never rewritten; and what was measured."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from longmemeval.dataset import Dataset
from longmemeval.errors import EndpointDownError, FatalModelError, HarnessError, SpendingLimitError
from longmemeval.evaluation.measures.rankings import Granularity, Ranking, RetrievalProtocol, RetrievalResult
from longmemeval.files import sha256_file, write_atomic
from longmemeval.pipeline.runs.accounts import AccountsOfRuns
from longmemeval.pipeline.runs.journal import Journal
from longmemeval.pipeline.runs.manifest import (
    FORMAT,
    RunManifest,
    RunStatus,
    dataset_record,
    environment,
    now,
    write_manifest,
)
from longmemeval.pipeline.runs.progress import Progress
from longmemeval.pipeline.runs.resume import begun_or_new
from longmemeval.pipeline.runs.selection import Selection
from longmemeval.pipeline.runs.totals import QUERY_MODEL
from longmemeval.records import Question
from longmemeval.settings import Folders

RANKINGS = "rankings.jsonl"


class RetrievalRun(Struct, frozen=True):
    """One memory's run: where it is and what it scored."""

    run_id: str
    folder: str
    memory: str
    reads_gold: bool
    embedder: str
    """Spec, or empty when no vectors were read."""
    newly_ranked: int
    results: tuple[RetrievalResult, ...]


class RetrievalReport(Struct, frozen=True):
    """What `retrieval` did."""

    dataset: str
    protocol: RetrievalProtocol
    granularity: Granularity
    runs: tuple[RetrievalRun, ...]
    part: str = ""
    """How many questions of how many, and how they were chosen; empty for the whole data set."""
    benchmark: str = ""
    """Whose data it is."""


class Rankings:
    """The rankings of a run under way.

    Args:
        journal: where new ones are appended.
        level: of every ranking.
        kept: those an earlier session of the run made, by question id.
        missing: how many are to be made.
    """

    def __init__(
        self, journal: Journal[Ranking], level: Granularity, kept: Mapping[str, Ranking], missing: int
    ) -> None:
        self.new = 0
        self.seconds = 0.0
        """What the new ones took."""
        self.missing = missing
        self.bar: Progress | None = None
        """Shows the new ones."""
        self._journal = journal
        self._level = level
        self._kept = kept

    def has(self, question_id: str) -> bool:
        """Whether the ranking of a question is on disk from before."""
        return question_id in self._kept

    def ranking(self, question_id: str, rank: Callable[[], Ranking]) -> Ranking:
        """The ranking of one question: the one on disk, else what `rank` makes, which is then on disk too."""
        if question_id in self._kept:
            return self._kept[question_id]
        started = time.perf_counter()
        ranking = rank()
        self._journal.append(ranking)
        self.seconds += time.perf_counter() - started
        self.new += 1
        if self.bar:
            self.bar.advance()
        return ranking


@dataclass(frozen=True)
class RetrievalJob:
    """What the runs of one `retrieval` have in common."""

    dataset: Dataset
    questions: Sequence[Question]
    level: Granularity
    where: Folders
    selection: Selection
    accounts: AccountsOfRuns

    def manifest(self, run_id: str, settings: dict[str, Any], fixtures: dict[str, dict[str, str]]) -> RunManifest:
        """The manifest that a run begins with. Measures are not in it: they decide no ranking."""
        return RunManifest(
            format=FORMAT,
            run_id=run_id,
            kind="retrieval",
            status="running",
            dataset=dataset_record(self.dataset),
            settings=settings,
            question_ids=tuple(question.question_id for question in self.questions),
            fixtures=fixtures,
            environment=environment(),
            started_at=now(),
            selection=self.selection,
        )

    def finish(self, manifest: RunManifest, newly_ranked: int, results: tuple[RetrievalResult, ...]) -> RetrievalRun:
        """Write `metrics/retrieval-<level>.json`, every result with its intervals, and say what was done."""
        folder = self.where.results_dir / manifest.run_id
        document = msgspec.json.format(msgspec.json.encode(results), indent=2) + b"\n"
        write_atomic(folder / "metrics" / f"retrieval-{self.level}.json", document)
        settings = manifest.settings
        return RetrievalRun(
            run_id=manifest.run_id,
            folder=str(folder),
            memory=settings["memory"]["name"],
            reads_gold=settings["reads_gold"],
            embedder=settings["embedder"]["spec"] if settings["embedder"] else "",
            newly_ranked=newly_ranked,
            results=results,
        )


Worked = Callable[[Mapping[str, Any]], dict[str, Any]]
"""From the totals of a manifest, as an earlier session left them, to what they tell of work done on questions."""
_TO_BE_CONTINUED = (SpendingLimitError, EndpointDownError)


@contextmanager
def ranking_run(
    folder: Path, manifest: RunManifest, level: Granularity, worked: Worked = lambda before: {}
) -> Iterator[Rankings]:
    """Begin or continue a run; its manifest is written before and after. A finished run is not written to.

    A new run that ends before anything was found out, because a model refuses every call, leaves no trace.

    Args:
        folder: the run's folder.
        manifest: what the present command would begin with.
        level: of every ranking.
        worked: what asking about the questions and embedding them took.

    Raises:
        HarnessError: the run was started with other settings, or another process writes to it.
        IntegrityError: its rankings were changed.
    """
    with Journal(folder / RANKINGS, Ranking) as journal:
        is_new = not (folder / "run.json").exists()
        begun = begun_or_new(folder, journal, manifest)
        kept = {ranking.question_id: ranking for ranking in journal.records()}
        rankings = Rankings(journal, level, kept, len(manifest.question_ids) - len(kept))
        if begun.status == "completed" and not rankings.missing:
            yield rankings
            return
        write_manifest(folder, structs.replace(begun, status="running", ended_at="", files={}))
        try:
            yield rankings
        except BaseException as error:
            if is_new and isinstance(error, FatalModelError) and not rankings.new and not _has_asked(worked):
                (folder / "run.json").unlink()
                journal.path.unlink()
                raise
            # Where the disk is full, the manifest cannot be written either; the error to tell is the first one.
            with suppress(HarnessError):
                _close(folder, begun, _status_after(error), rankings.seconds, worked)
            if isinstance(error, _TO_BE_CONTINUED):
                there = len(kept) + rankings.new
                error.where = f"run '{begun.run_id}': {there} of {len(begun.question_ids)} rankings are kept"
            raise
        _close(folder, begun, "completed", rankings.seconds, worked)


def _has_asked(worked: Worked) -> bool:
    return bool(worked({}).get(QUERY_MODEL, {}).get("questions"))


def _status_after(error: BaseException) -> RunStatus:
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    return "incomplete" if isinstance(error, _TO_BE_CONTINUED) else "failed"


def _close(folder: Path, begun: RunManifest, status: RunStatus, seconds: float, worked: Worked) -> None:
    """Write the manifest with what there is now; seconds and work on questions add up over resumed sessions."""
    seconds += begun.totals.get("seconds", 0.0)
    files = {RANKINGS: sha256_file(folder / RANKINGS)}
    totals = {"seconds": round(seconds, 3), **worked(begun.totals)}
    write_manifest(folder, structs.replace(begun, status=status, ended_at=now(), totals=totals, files=files))
