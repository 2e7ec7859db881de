"""The standard protocol of `retrieval`: a memory ranks the stored history of each question."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path

import msgspec

from longmemeval.evaluation.measures.notation import Measure
from longmemeval.evaluation.measures.official import Granularity
from longmemeval.event_loop import complete
from longmemeval.memory.configuration import MemoryConfiguration, build_memory, preset_of
from longmemeval.memory.protocol import MemorySystem, MemoryTools, RankingMemory
from longmemeval.pipeline.journal import read_journal
from longmemeval.pipeline.prepared import PreparedFixtures
from longmemeval.pipeline.query_vectors import query_vectors
from longmemeval.pipeline.question_analysis import QueryModel, question_analyses
from longmemeval.pipeline.rankings import RANKINGS, Ranked, Ranking, RetrievalJob, RetrievalRun, ranking_run
from longmemeval.pipeline.retrieve_scoring import StandardScoring
from longmemeval.records import Question, Recall, RecalledItem
from longmemeval.storage.fixture import Fixture


def plan_standard(
    job: RetrievalJob,
    configuration: MemoryConfiguration,
    run_id: str,
    *,
    measures: tuple[Measure, ...],
    prepared: str,
    embedder: str | None,
    query_model: QueryModel | None,
    api_base: str | None,
) -> Callable[[], RetrievalRun]:
    """Check that one memory can rank all questions; the function returned does it and scores the rankings.

    Args:
        job: the data, the questions and the level.
        configuration: the memory.
        run_id: of its run.
        measures: what to compute.
        prepared: the preparation to read.
        embedder: the one the fixtures were made with, under another name.
        query_model: who analyses the questions where the memory wants a chat model for it; None: nobody can.
        api_base: endpoint of the embedder's model, where it is not its own.

    Raises:
        HarnessError: a fixture is missing or was made from something else, the embedder is another one, or a chat
            model is wanted and none is named.
    """
    fixtures = PreparedFixtures(job.dataset, prepared, job.where, configuration)
    identity = fixtures.embedder_of(job.questions)
    reads_gold = preset_of(configuration).reads_gold
    analyses = question_analyses(configuration, query_model, job.where)
    settings = {
        "memory": configuration.model_dump(),
        "reads_gold": reads_gold,
        "protocol": "standard",
        "granularity": job.level,
        "preparation": prepared,
        "embedder": msgspec.to_builtins(identity),
        **(analyses.settings if analyses else {}),
    }
    manifest = job.manifest(run_id, settings, fixtures.hashes(job.questions))
    vectors = query_vectors(job.questions, identity, embedder, api_base, job.where)
    tools = MemoryTools(vectors, job.dataset.gold if reads_gold else None, analyse=analyses)
    system = build_memory(configuration, tools)

    def execute() -> RetrievalRun:
        scoring = StandardScoring(job.dataset, job.level, measures)
        # Questions on one haystack follow one another.
        open_fixture = lru_cache(maxsize=1)(fixtures.open)
        folder = job.where.results_dir / run_id
        if analyses:
            complete(analyses.ask(_unranked(folder, job.questions)))
        with ranking_run(folder, manifest, job.level, analyses) as rankings:
            for question in job.questions:
                rank = partial(_rank, system, question, open_fixture, job.level)
                scoring.add(question, rankings.ranking(question.question_id, rank))
        return job.finish(manifest, rankings.new, scoring.results(configuration.name))

    return execute


def _unranked(folder: Path, questions: Sequence[Question]) -> list[Question]:
    """The questions that the run in `folder` has no ranking of yet."""
    ranked = {ranking.question_id for ranking in read_journal(folder / RANKINGS, Ranking)}
    return [question for question in questions if question.question_id not in ranked]


def _rank(
    system: MemorySystem, question: Question, open_fixture: Callable[[str], Fixture], level: Granularity
) -> list[Ranked]:
    return reduce_to(level, ranked_turns(system, question, open_fixture(question.haystack_id)))


def ranked_turns(system: MemorySystem, question: Question, fixture: Fixture) -> Iterator[Ranked]:
    """The stored turns in the order a memory prefers them, best first; a turn may come back.

    A `RankingMemory` ranks the whole history. Of any other, what it recalls is ranked: its ranked items first, then
    the others, newest first. Items without messages (documents) are passed over.
    """
    if isinstance(system, RankingMemory):
        for unit in system.rank(question, fixture):
            for message_id in unit.message_ids:
                yield Ranked(message_id, unit.score)
        return
    for item in _best_first(complete(system.recall(question, fixture)), fixture):
        for message_id in item.message_ids:
            yield Ranked(message_id, item.score)


def _best_first(recall: Recall, fixture: Fixture) -> list[RecalledItem]:
    items = [item for item in recall.items if item.message_ids]

    def place(item: RecalledItem) -> tuple[float, int]:
        if item.rank is not None:
            return item.rank, 0
        newest = max(fixture.memory.positions.get(message_id, -1) for message_id in item.message_ids)
        return float("inf"), -newest

    return sorted(items, key=place)


def reduce_to(level: Granularity, turns: Iterable[Ranked]) -> list[Ranked]:
    """A ranking of turns, each once; or of sessions, each where its first turn stands, with that turn's score."""
    best: dict[str, Ranked] = {}
    for turn in turns:
        identifier = turn.id if level == "turn" else turn.id.rpartition(":")[0]
        best.setdefault(identifier, Ranked(identifier, turn.score))
    return list(best.values())
