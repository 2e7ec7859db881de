"""Rank the stored history of each question by several memories, haystack by haystack, for `retrieval`.

All memories of a command finish one haystack before the next begins: its parts are opened once, and an index that
several memories use is built once.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from longmemeval.core.event_loop import complete
from longmemeval.core.executors.local import RANKED_BYTES, runs_serially
from longmemeval.core.executors.protocol import Task
from longmemeval.core.executors.registry import by_number, run_tasks
from longmemeval.core.remote.places import Patience
from longmemeval.llm.costs import EMBEDDINGS
from longmemeval.llm.model_calls import CALLS, all_written
from longmemeval.llm.options import ModelOptions
from longmemeval.llm.registry import ModelAccess
from longmemeval.measures.notation import Ranking, RetrievalProtocol
from longmemeval.memory.built_in.presets import gold_for
from longmemeval.memory.configuration import MemoryConfiguration, build_memory, definition_of, ready_reranker
from longmemeval.memory.protocol import MemorySystem, MemoryTools
from longmemeval.pipeline.prepare.access import PreparedFixtures, open_fixtures
from longmemeval.pipeline.prepare.query_vectors import NamesIn, QueryVectors, VectorSource, speaker_names_of
from longmemeval.pipeline.progress import progress
from longmemeval.pipeline.retrieval.haystack_ranking import (
    HaystackTask,
    MemoryRankings,
    MemoryTask,
    rank_haystack,
    rank_question,
)
from longmemeval.pipeline.retrieval.ranking_run import Rankings, RetrievalJob, RetrievalRun, ranking_run
from longmemeval.pipeline.retrieval.scoring import RankingScores, Scoring, history_ids
from longmemeval.pipeline.run.question_analysis import QueryModel, QuestionAnalyses, question_analyses
from longmemeval.records import Question
from longmemeval.results.lines import question_totals
from longmemeval.results.manifest import RunManifest
from longmemeval.results.settings import RetrievalSettings, memory_settings


class Planning:
    """The planner of `retrieval`: checks, before anything is ranked, that each memory can rank all questions.

    Args:
        job: the data, the questions and the level.
        protocol: decides how the rankings are scored.
        prepared: the preparation to read.
        embedder: another spec of the fixtures' embedder.
        query_model: analyses the questions for memories that use a chat model for it; None: no model.
        reached_by: connection options of a remote embedder without an endpoint of its own.
    """

    def __init__(
        self,
        job: RetrievalJob,
        *,
        protocol: RetrievalProtocol,
        prepared: str,
        embedder: str | None,
        query_model: QueryModel | None,
        reached_by: ModelOptions,
    ) -> None:
        self._job = job
        self._protocol = protocol
        self._prepared = prepared
        self._embedder = embedder
        self._query_model = query_model
        self._reached_by = reached_by
        self._opened = open_fixtures()
        self._vectors: dict[VectorSource, QueryVectors] = {}
        self._names_in = speaker_names_of(job.dataset)

    def plan(self, configuration: MemoryConfiguration, run_id: str) -> "Plan":
        """Return the plan for one memory.

        Raises:
            HarnessError: a fixture is missing or was made from other data, the embedder is another one, or a chat model
                is needed and none is named.
        """
        job = self._job
        patience = Patience(self._reached_by.give_up_after_s)
        fixtures = PreparedFixtures(job.dataset, self._prepared, job.folders, configuration, self._opened, patience)
        identity = fixtures.embedder_of(job.questions)
        reads_gold = definition_of(configuration).reads_gold
        account = job.account(run_id)
        analyses = question_analyses(configuration, self._query_model, job.folders, account)
        marks = fixtures.marks(job.questions)
        models = ModelAccess(
            embedder=self._embedder or "",
            options=self._reached_by,
            cache_dir=job.folders.cache_dir.absolute(),
            account=account,
            calls_file=(job.folders.results_dir / run_id / CALLS).absolute(),
        )
        load_reranker, reranker = ready_reranker(configuration, models)
        settings = RetrievalSettings(
            memory=memory_settings(configuration),
            reads_gold=reads_gold,
            protocol=self._protocol,
            granularity=job.level,
            preparation=self._prepared,
            embedder=identity,
            reranker=reranker,
            query_model=analyses.settings if analyses else None,
            not_reproducible=tuple(marks),
            parts=marks,
        )
        manifest = job.manifest(run_id, settings, fixtures.hashes(job.questions))
        cache, reached_by = (job.folders.cache_dir / EMBEDDINGS).absolute(), self._reached_by
        source = VectorSource(identity, self._embedder, reached_by, cache)
        embeds = source not in self._vectors
        if embeds:
            self._vectors[source] = source.vectors(job.questions, account)
        vectors = self._vectors[source]
        tools = MemoryTools(
            vectors, gold_for(configuration, job.dataset), analyse=analyses, reranker=load_reranker, models=models
        )
        system = build_memory(configuration, tools)
        return Plan(
            job,
            configuration,
            settings,
            manifest,
            fixtures,
            system,
            analyses,
            source,
            vectors,
            embeds,
            self._names_in,
            models,
        )


@dataclass(frozen=True)
class Plan:
    """One memory, ready to rank."""

    job: RetrievalJob
    configuration: MemoryConfiguration
    settings: RetrievalSettings
    manifest: RunManifest
    fixtures: PreparedFixtures
    system: MemorySystem
    analyses: QuestionAnalyses | None
    source: VectorSource
    vectors: QueryVectors
    """The vectors of the source; shared by the memories with the same source."""
    embeds: bool
    """True if the vectors are on this memory's account."""
    names_in: NamesIn
    models: ModelAccess
    """The access to models for memories that call them themselves."""

    @property
    def folder(self) -> Path:
        """The run's folder."""
        return self.job.folders.results_dir / self.manifest.run_id

    def worked(self, before: Mapping[str, Any]) -> dict[str, Any]:
        """Return the manifest's totals of analysing the questions and embedding them."""
        analysed = self.analyses.totals if self.analyses else None
        return question_totals(before, analysed, self.vectors.usage if self.embeds else None, self.folder)

    @property
    def ranks_fast(self) -> bool:
        """True if ranking takes time in proportion to the stored bytes, without another program or a model."""
        return self.fixtures.computes_alone and not self.settings.reranker

    def size(self, questions: Sequence[Question]) -> int:
        """Return the stored bytes that are searched for `questions`, counted for each question."""
        return sum(self.fixtures.size_of(question.haystack_id) for question in questions)

    def rank(self, question: Question) -> Ranking:
        """Rank for `question` in this process."""
        fixture = self.fixtures.ready(question.haystack_id)
        return rank_question(self.system, question, fixture, self.job.level, twice=self.job.twice)

    def task(self, questions: Sequence[Question]) -> MemoryTask:
        """Return the task of ranking for `questions` of one haystack, for a worker."""
        ids = [question.question_id for question in questions]
        lent = gold_for(self.configuration, self.job.dataset)
        account = self.job.account(self.manifest.run_id)
        return MemoryTask(
            configuration=self.configuration,
            questions=tuple(questions),
            source=self.source,
            vectors={text: self.vectors(text) for question in questions for text in self.texts_for(question)},
            analyses={question.question_id: self.analyses(question) for question in questions} if self.analyses else {},
            gold={question_id: lent(question_id) for question_id in ids} if lent else {},
            account=account,
            models=structs.replace(self.models, account=account),
            twice=self.job.twice,
        )

    def texts_for(self, question: Question) -> Sequence[str]:
        """Return the texts whose vectors the memory will request, as far as it can predict."""
        return self.vectors.texts_for(self.system, question, self.names_in)


class Workers(Struct, frozen=True):
    """The workers that rank."""

    jobs: int | None = None
    """The number of workers; None: one per core if there are enough haystacks, else none. Rankings are the same."""
    executor: str | None = None
    """The executor of the workers; None: `processes`, if there are to be workers."""


def rank_all(plans: Sequence[Plan], scoring: Scoring, workers: Workers) -> tuple[RetrievalRun, ...]:
    """Rank all questions by all memories, and score the rankings.

    Args:
        plans: one per memory, of one job; at least one.

    Raises:
        HarnessError: a fixture is damaged, a file cannot be written, or another process writes to a run.
        FatalModelError: no call of the chat model that analyses the questions can succeed.
        SpendingLimitError, EndpointDownError: the rest has to wait; rankings and replies so far are kept.
    """
    job = plans[0].job
    history = history_ids(job.dataset, job.level)
    scores = [RankingScores(job.dataset, scoring, history) for _ in plans]
    with ExitStack() as stack:
        runs = [stack.enter_context(ranking_run(plan.folder, plan.manifest, job.level, plan.worked)) for plan in plans]
        _look_at_questions(plans, runs)
        title = plans[0].manifest.run_id if len(plans) == 1 else f"{len(plans)} memories"
        bar = stack.enter_context(progress(title, sum(run.missing() for run in runs)))
        for run in runs:
            run.bar = bar
        for questions, ranked in _by_haystack(plans, runs, workers, stack):
            for run, own, rank in zip(runs, scores, ranked, strict=True):
                for question in questions:
                    own.add(question, run.ranking(question.question_id, partial(rank, question)))
        for plan in plans:
            complete(all_written(plan.folder / CALLS))
    return tuple(
        job.finish(
            plan.manifest.run_id,
            plan.settings,
            run,
            own.results(plan.configuration.name),
            own.loose_cutoffs,
            own.first_values,
        )
        for plan, run, own in zip(plans, runs, scores, strict=True)
    )


_Rank = Callable[[Question], Ranking]


def _by_haystack(
    plans: Sequence[Plan], runs: Sequence[Rankings], workers: Workers, stack: ExitStack
) -> Iterator[tuple[list[Question], list[_Rank]]]:
    """Yield the questions of each haystack, and for every memory a function that ranks for those not ranked yet."""
    haystacks = [
        list(questions) for _, questions in groupby(plans[0].job.questions, lambda question: question.haystack_id)
    ]
    missing = [
        [[question for question in questions if not run.has(question.question_id)] for run in runs]
        for questions in haystacks
    ]
    unranked = [by_memory for by_memory in missing if any(by_memory)]
    sizes = (
        plan.size(own_questions)
        for by_memory_unranked in unranked
        for plan, own_questions in zip(plans, by_memory_unranked, strict=True)
    )
    enough = RANKED_BYTES if all(plan.ranks_fast for plan in plans) else 0
    if runs_serially(workers.executor, workers.jobs, len(unranked), sizes, enough):
        for questions in haystacks:
            yield questions, [plan.rank for plan in plans]
        return
    tasks = (_task(plans, number, by_memory) for number, by_memory in enumerate(unranked))
    done = stack.enter_context(closing(run_tasks(tasks, len(unranked), name=workers.executor, jobs=workers.jobs)))
    outcomes = by_number(done)
    for questions, by_memory in zip(haystacks, missing, strict=True):
        outcome = next(outcomes) if any(by_memory) else [None] * len(plans)
        yield questions, [_received(run, rankings) for run, rankings in zip(runs, outcome, strict=True)]


def _received(run: Rankings, received: MemoryRankings | None) -> _Rank:
    """Return the function that returns a worker's rankings."""
    rankings = {ranking.question_id: ranking for ranking in received.decoded()} if received else {}
    run.seconds += received.seconds if received else 0.0
    return lambda question: rankings[question.question_id]


def _task(
    plans: Sequence[Plan], number: int, questions: Sequence[list[Question]]
) -> Task[HaystackTask, list[MemoryRankings]]:
    """Return the work on one haystack: for each memory, the questions it has not ranked."""
    haystack_id = next(question.haystack_id for own_questions in questions for question in own_questions)
    memories = tuple(plan.task(own_questions) for plan, own_questions in zip(plans, questions, strict=True))
    task = HaystackTask(plans[0].fixtures.folder(haystack_id).absolute(), plans[0].job.level, memories)
    return Task(number, rank_haystack, task, task.size)


def _look_at_questions(plans: Sequence[Plan], runs: Sequence[Rankings]) -> None:
    """Analyse the questions that have no ranking, and embed in one go the texts that the memories will request.

    This happens in this process; its cost counts against what is left of the limit by then.
    """
    texts: dict[VectorSource, list[str]] = defaultdict(list)
    for plan, run in zip(plans, runs, strict=True):
        questions = [question for question in plan.job.questions if not run.has(question.question_id)]
        if plan.analyses:
            plan.job.account(plan.manifest.run_id)
            complete(plan.analyses.ask(questions))
        for question in questions:
            texts[plan.source] += plan.texts_for(question)
    for plan in plans:
        if plan.embeds and texts[plan.source]:
            plan.job.account(plan.manifest.run_id)
            plan.vectors.embed(texts[plan.source])
