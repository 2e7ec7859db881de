"""Rank the questions of one haystack by several memories over one open fixture, in a worker of `retrieval`."""

import time
from collections.abc import Iterable
from functools import cached_property, partial
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from longmemeval.core.arrays import Vector
from longmemeval.core.event_loop import complete
from longmemeval.core.remote.places import Patience
from longmemeval.errors import RecallError
from longmemeval.llm.costs import Account
from longmemeval.llm.model_calls import all_written
from longmemeval.llm.registry import ModelAccess
from longmemeval.measures.notation import Granularity, Ranked, Ranking
from longmemeval.memory.asking import errors_of
from longmemeval.memory.configuration import MemoryConfiguration, build_memory
from longmemeval.memory.protocol import MemorySystem, MemoryTools, RankingMemory
from longmemeval.pipeline.prepare.query_vectors import QueryVectors, VectorSource
from longmemeval.pipeline.retrieval.ranking_run import ranked_otherwise, recalled, second_recall
from longmemeval.ranking.questions import QuestionAnalysis
from longmemeval.ranking.rerank import load_reranker
from longmemeval.records import Gold, Question, Recall, RecalledItem
from longmemeval.storage.fixture import Fixture


class MemoryTask(Struct, frozen=True):
    """One memory, the questions it ranks for, and the models it may call about them."""

    configuration: MemoryConfiguration
    questions: tuple[Question, ...]
    source: VectorSource
    """The source of vectors of texts that were not embedded beforehand."""
    vectors: dict[str, Vector]
    """The vectors of texts, as the parent process embedded them."""
    analyses: dict[str, QuestionAnalysis]
    """A chat model's analyses of the questions, by their ids."""
    gold: dict[str, Gold]
    """The gold for a memory that reads it (the oracle); else empty."""
    account: Account
    """The account of calls that were not made beforehand."""
    models: ModelAccess
    """The access to models for a memory that calls them itself."""
    twice: bool
    """True if each question is asked a second time."""


class HaystackTask(Struct, frozen=True):
    """One haystack's share of a `retrieval`."""

    folder: Path
    """The folder of its fixture."""
    level: Granularity
    memories: tuple[MemoryTask, ...]

    @property
    def size(self) -> int:
        """The bytes of its vectors."""
        return sum(vector.nbytes for memory in self.memories for vector in memory.vectors.values())


class MemoryRankings(Struct, frozen=True):
    """The rankings of one memory's task."""

    rankings: bytes
    """A JSON list of `Ranking`, one per question, in order: quicker to send than as many records."""
    seconds: float

    def decoded(self) -> list[Ranking]:
        """Decode the rankings."""
        return _RANKINGS.decode(self.rankings)


_RANKINGS = msgspec.json.Decoder(list[Ranking])


def rank_haystack(task: HaystackTask) -> list[MemoryRankings]:
    """Rank everything in `task`, memory by memory."""
    patience = Patience(max(memory.models.options.give_up_after_s for memory in task.memories), is_there=True)
    fixture = Fixture.open(task.folder, patience)
    return [_rank_all(memory, fixture, task.level) for memory in task.memories]


def _rank_all(task: MemoryTask, fixture: Fixture, level: Granularity) -> MemoryRankings:
    started = time.perf_counter()
    tools = MemoryTools(
        embed_query=_SentVectors(task),
        gold=task.gold.__getitem__ if task.gold else None,
        analyse=(lambda question: task.analyses[question.question_id]) if task.analyses else None,
        reranker=partial(load_reranker, access=task.models),
        models=task.models,
    )
    system = build_memory(task.configuration, tools)
    rankings = [rank_question(system, question, fixture, level, twice=task.twice) for question in task.questions]
    seconds = time.perf_counter() - started
    if task.models.calls_file:
        complete(all_written(task.models.calls_file))
    return MemoryRankings(msgspec.json.encode(rankings), seconds)


class _SentVectors:
    """The vectors that came with a task; others are computed here.

    Args:
        task: holds the vectors of texts that its memory embeds, as far as known.
    """

    def __init__(self, task: MemoryTask) -> None:
        self._task = task

    def __call__(self, text: str) -> Vector:
        return self._task.vectors[text] if text in self._task.vectors else self._own(text)

    @cached_property
    def _own(self) -> QueryVectors:
        return self._task.source.vectors(account=self._task.account)


def rank_question(
    system: MemorySystem, question: Question, fixture: Fixture, level: Granularity, *, twice: bool = False
) -> Ranking:
    """Return the history in the order a memory prefers it for `question`, as turns or as sessions.

    A `RankingMemory` ranks the whole history. For any other, its recall is ranked: ranked items first, then the
    others, newest first. Items without messages (documents) are skipped. A recall with only sessions as provenance is
    ranked as sessions.

    Args:
        level: the level of the ranking.
        twice: True to ask again at once, and record the differences.
    """
    if isinstance(system, RankingMemory):
        try:
            with errors_of(system):
                units = system.rank(question, fixture)
        except RecallError as error:
            return _ranking_of(question.question_id, error, fixture, level)
        turns = [Ranked(message_id, unit.score) for unit in units for message_id in unit.message_ids]
        ranking = Ranking(question.question_id, level, _reduce_to(level, turns))
        if not twice:
            return ranking
        second = second_recall(system, question, fixture, recalled(system, question, fixture))
        try:
            if not second and ranked_otherwise(system, question, fixture, [turn.id for turn in turns]):
                second = ("order",)
        except RecallError:
            second = ("error",)
        return structs.replace(ranking, second=second)
    recall = recalled(system, question, fixture)
    ranking = _ranking_of(question.question_id, recall, fixture, level)
    return structs.replace(ranking, second=second_recall(system, question, fixture, recall)) if twice else ranking


def _ranking_of(question_id: str, recall: Recall | RecallError, fixture: Fixture, level: Granularity) -> Ranking:
    if isinstance(recall, RecallError):
        return Ranking(question_id, level, (), error=str(recall))
    if recall.provenance == "none" or (recall.provenance == "session" and level == "turn"):
        return Ranking(question_id, level, (), unknown=True)
    if recall.provenance == "session":
        ranked = sorted(recall.items, key=lambda item: item.rank or 0)
        sessions = (Ranked(thread_id, item.score) for item in ranked for thread_id in item.thread_ids)
        return Ranking(question_id, level, _each_once(sessions))
    found = _best_first(recall, fixture)
    turns = (Ranked(message_id, item.score) for item in found for message_id in item.message_ids)
    return Ranking(question_id, level, _reduce_to(level, turns))


def _best_first(recall: Recall, fixture: Fixture) -> list[RecalledItem]:
    items = [item for item in recall.items if item.message_ids]

    def place(item: RecalledItem) -> tuple[float, int]:
        if item.rank is not None:
            return item.rank, 0
        newest = max(fixture.memory.positions.get(message_id, -1) for message_id in item.message_ids)
        return float("inf"), -newest

    return sorted(items, key=place)


def _reduce_to(level: Granularity, turns: Iterable[Ranked]) -> tuple[Ranked, ...]:
    """Return a ranking of turns, each once; or of sessions, each at the place and with the score of its first turn."""
    if level == "turn":
        return _each_once(turns)
    return _each_once(Ranked(turn.id.rpartition(":")[0], turn.score) for turn in turns)


def _each_once(ranked: Iterable[Ranked]) -> tuple[Ranked, ...]:
    best: dict[str, Ranked] = {}
    for item in ranked:
        best.setdefault(item.id, item)
    return tuple(best.values())
