"""Begin, continue and report one run of `retrieval`."""

import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import Struct, structs

from longmemeval.benchmarks.catalogue import units_of
from longmemeval.core.event_loop import complete
from longmemeval.core.files import write_atomic
from longmemeval.core.journal import StoredJournal, now
from longmemeval.dataset import Dataset
from longmemeval.errors import FatalModelError, RecallError
from longmemeval.llm.costs import Account, limit_beside
from longmemeval.llm.options import SpendingLimit
from longmemeval.measures.notation import (
    Difference,
    Granularity,
    QuestionValues,
    Ranking,
    RetrievalProtocol,
    RetrievalResult,
)
from longmemeval.memory.asking import errors_of, recall_of
from longmemeval.memory.protocol import MemorySystem, RankingMemory
from longmemeval.pipeline.progress import Progress
from longmemeval.records import Question, Recall, RecalledItem
from longmemeval.results.graded.judge_checks import ASKED_TWICE, Repeatability, repeatability
from longmemeval.results.lifecycle import RunWriter, open_run
from longmemeval.results.lines import QUERY_MODEL, RANKINGS
from longmemeval.results.manifest import RunManifest, environment, planned_manifest
from longmemeval.results.scores.warnings import (
    ScoreWarning,
    cutoff_warnings,
    history_warnings,
    number_warnings,
    recall_warnings,
)
from longmemeval.results.selection import Selection
from longmemeval.results.settings import RetrievalSettings
from longmemeval.settings import Folders
from longmemeval.storage.fixture import Fixture


class RetrievalRun(Struct, frozen=True):
    """The run of one memory and its figures."""

    run_id: str
    folder: str
    settings: RetrievalSettings
    questions: int
    newly_ranked: int
    results: tuple[RetrievalResult, ...]
    warnings: tuple[ScoreWarning, ...] = ()
    """Warnings about the figures."""
    asked_twice: Repeatability | None = None
    """Differences of second recalls; None if each question was asked once."""
    values: tuple[QuestionValues, ...] = ()
    """The values that the first result is the mean of; none under a protocol with a corpus of its own."""


class RetrievalReport(Struct, frozen=True):
    """The report of `retrieval`."""

    dataset: str
    protocol: RetrievalProtocol
    granularity: Granularity
    runs: tuple[RetrievalRun, ...]
    part: str = ""
    """The number of selected questions and the way they were selected; empty for the whole dataset."""
    benchmark: str = ""
    """The benchmark of the data."""
    twice: bool = False
    """True if each question was to be asked a second time."""
    sentence: str = ""
    """The result by the first measure, as `retrieval` prints it."""

    def __repr__(self) -> str:
        return f"RetrievalReport({self.dataset!r}: {self.sentence})"


class Rankings:
    """The rankings of a running run.

    Args:
        run: the open run; rankings of earlier sessions are kept.
        worked: returns the totals of analysing the questions and embedding them.
    """

    def __init__(self, run: RunWriter[Ranking], level: Granularity, worked: "Worked") -> None:
        self.new = 0
        self.seconds = 0.0
        """Seconds that the new rankings took."""
        self.bar: Progress | None = None
        """The progress bar of the new rankings."""
        self._run = run
        self._level = level
        self._worked = worked
        self._earlier = {ranking.question_id: ranking for ranking in run.journal.records()}
        self._second: list[Ranking] = []

    def missing(self) -> int:
        """Return how many rankings are still to be made."""
        return len(self._run.manifest.question_ids) - len(self._earlier) - self.new

    def totals(self) -> dict[str, Any]:
        """Return totals for the manifest; seconds and work on questions add up over the sessions of a run."""
        before = self._run.manifest.totals
        seconds = round(before.get("seconds", 0.0) + self.seconds, 3)
        found = self.repeatability
        twice = {ASKED_TWICE: msgspec.to_builtins(found)} if found else {}
        return {"seconds": seconds, **self._worked(before), **twice}

    @property
    def repeatability(self) -> Repeatability | None:
        """The result of asking twice; None if it was not done."""
        return repeatability([*self._earlier.values(), *self._second])

    def has(self, question_id: str) -> bool:
        """Return whether the ranking of a question is on disk from before."""
        return question_id in self._earlier

    def ranking(self, question_id: str, rank: Callable[[], Ranking]) -> Ranking:
        """Return the ranking of one question: the one on disk, else that of `rank`, which is written to disk."""
        if question_id in self._earlier:
            return self._earlier[question_id]
        started = time.perf_counter()
        ranking = rank()
        self._run.journal.append(ranking)
        self.seconds += time.perf_counter() - started
        self.new += 1
        if ranking.second is not None:
            self._second.append(structs.replace(ranking, ranked=()))
        if self.bar:
            self.bar.advance()
        return ranking


@dataclass(frozen=True)
class RetrievalJob:
    """The common settings of the runs of one `retrieval`."""

    dataset: Dataset
    questions: Sequence[Question]
    level: Granularity
    folders: Folders
    selection: Selection
    accounts: Mapping[str, Account]
    """Accounts by run id."""
    spending: SpendingLimit | None = None
    """Limit on all accounts together, over all starts; None: costs are only recorded."""
    twice: bool = False
    """True if each question is asked a second time."""

    def account(self, run_id: str) -> Account:
        """Return the account of one run; its limit accounts for what the others have spent so far."""
        account = self.accounts[run_id]
        others = [other.path for name, other in self.accounts.items() if name != run_id and other.path]
        account.limit = limit_beside(self.spending, others)
        return account

    def manifest(self, run_id: str, settings: RetrievalSettings, fixtures: dict[str, dict[str, str]]) -> RunManifest:
        """Return the manifest that a run begins with. It has no measures: they decide no ranking."""
        planned = planned_manifest(self.dataset, settings, self.questions, self.selection, run_id)
        return structs.replace(planned, fixtures=fixtures, environment=environment(), started_at=now())

    def finish(
        self,
        run_id: str,
        settings: RetrievalSettings,
        rankings: Rankings,
        results: tuple[RetrievalResult, ...],
        loose_cutoffs: Mapping[int, int] = MappingProxyType({}),
        values: tuple[QuestionValues, ...] = (),
    ) -> RetrievalRun:
        """Write `metrics/retrieval-<level>.json`, every result with its intervals, and return the run's report.

        Args:
            results: the scores of the rankings.
            loose_cutoffs: cutoff of a measure -> number of histories with no more items than that.
            values: the values that the first result is the mean of.
        """
        folder = self.folders.results_dir / run_id
        document = msgspec.json.format(msgspec.json.encode(results), indent=2) + b"\n"
        write_atomic(folder / "metrics" / f"retrieval-{self.level}.json", document)
        return RetrievalRun(
            run_id=run_id,
            folder=str(folder),
            settings=settings,
            questions=len(self.questions),
            newly_ranked=rankings.new,
            results=results,
            warnings=(
                *cutoff_warnings(loose_cutoffs, len(self.questions), self.level),
                *number_warnings(units_of(self.dataset, self.questions), self.dataset.question_type),
                *history_warnings(self.dataset),
                *recall_warnings(rankings.repeatability),
            ),
            asked_twice=rankings.repeatability,
            values=values,
        )


Worked = Callable[[Mapping[str, Any]], dict[str, Any]]
"""A function from the totals of a manifest, as an earlier session left them, to those of work on questions."""


@contextmanager
def ranking_run(
    folder: Path, manifest: RunManifest, level: Granularity, worked: Worked = lambda before: {}
) -> Iterator[Rankings]:
    """Begin or continue a run; its manifest is written before and after. A finished run is not written to.

    A new run that ends before anything was ranked, because a model refuses every call, leaves no files.

    Args:
        manifest: the manifest with which the present command would begin.
        worked: returns the totals of analysing the questions and embedding them.

    Raises:
        HarnessError: the run was started with other settings, or another process writes to it.
        IntegrityError: its rankings were changed.
    """
    is_new = not (folder / "run.json").exists()
    with open_run(StoredJournal(folder / RANKINGS, Ranking), manifest) as run:
        rankings = Rankings(run, level, worked)
        try:
            with run.session(rankings.missing, rankings.totals):
                yield rankings
        except FatalModelError:
            if is_new and not rankings.new and not worked({}).get(QUERY_MODEL, {}).get("questions"):
                (folder / "run.json").unlink()
                run.journal.path.unlink()
            raise


# Ask a memory the same question a second time, and compare the recalls.


def second_recall(
    system: MemorySystem, question: Question, fixture: Fixture, first: Recall | RecallError
) -> tuple[Difference, ...]:
    """Recall again, right after the first time, and return the differences.

    Args:
        first: the first recall, or its error.
    """
    again = recalled(system, question, fixture)
    if isinstance(first, RecallError) or isinstance(again, RecallError):
        return () if isinstance(first, RecallError) and isinstance(again, RecallError) else ("error",)
    return differences_of(first, again)


def recalled(system: MemorySystem, question: Question, fixture: Fixture) -> Recall | RecallError:
    """Return the recall of a memory, or its error."""
    try:
        return complete(recall_of(system, question, fixture))
    except RecallError as error:
        return error


def ranked_otherwise(system: RankingMemory, question: Question, fixture: Fixture, first: list[str]) -> bool:
    """Return whether a ranking of the whole history has another order than `first`, message ids."""
    with errors_of(system):
        return [message_id for unit in system.rank(question, fixture) for message_id in unit.message_ids] != first


def differences_of(first: Recall, again: Recall) -> tuple[Difference, ...]:
    """Return whether ids, order or texts of the items differ; empty if the recalls are alike.

    Scores are ignored: what a reader sees does not depend on them.
    """
    ids, ids_again = ([_identity(item) for item in recall.items] for recall in (first, again))
    found: list[Difference] = []
    if Counter(ids) != Counter(ids_again):
        found.append("ids")
    elif ids != ids_again:
        found.append("order")
    texts, texts_again = (_texts(recall) for recall in (first, again))
    if any(texts[identity] != texts_again[identity] for identity in texts.keys() & texts_again.keys()):
        found.append("text")
    return tuple(found)


def _identity(item: RecalledItem) -> Hashable:
    """Return an item's key: its kind and messages, or without messages its text."""
    return item.kind, item.message_ids, item.thread_ids, item.text if not (item.message_ids or item.thread_ids) else ""


def _texts(recall: Recall) -> dict[Hashable, list[str]]:
    """Return the sorted texts of the items of each identity."""
    found: dict[Hashable, list[str]] = {}
    for item in recall.items:
        found.setdefault(_identity(item), []).append(item.text)
    return {identity: sorted(texts) for identity, texts in found.items()}
