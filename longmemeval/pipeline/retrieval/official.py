"""Follow a benchmark's own protocol with a corpus and rankers, for `retrieval --protocol official`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import IO

from longmemeval.benchmarks.retrieval_protocols import OfficialRanking, RankedQuestion, RankingRequest
from longmemeval.core.remote.places import Patience
from longmemeval.embedding.protocol import Embedder
from longmemeval.embedding.registry import DEFAULT_EMBEDDER, load_embedder
from longmemeval.llm.costs import EMBEDDINGS
from longmemeval.measures.notation import Granularity, Ranking
from longmemeval.memory.configuration import MemoryConfiguration
from longmemeval.pipeline.options import RetrievalOptions
from longmemeval.pipeline.prepare.access import PreparedFixtures
from longmemeval.pipeline.progress import progress
from longmemeval.pipeline.retrieval.ranking_run import RetrievalJob, RetrievalRun, ranking_run
from longmemeval.results.settings import retrieval_settings


def plan_official(
    job: RetrievalJob,
    protocol: OfficialRanking,
    configuration: MemoryConfiguration,
    run_id: str,
    options: RetrievalOptions,
) -> Callable[[], RetrievalRun]:
    """Check that the protocol can be followed, and return the function that follows it.

    Args:
        job: the data, the questions and the level.
        configuration: the memory that names the retriever.
        options: embedder of a dense retriever with connection options, the file for the official log, the preparation
            with the parts that the protocol needs, or a file in the official format to read expansions from instead.

    Raises:
        HarnessError: the protocol cannot be followed with this data, memory or preparation.
    """
    prepared, log = options.prepared, options.log
    patience = Patience(options.model_options.give_up_after_s)
    ranker = protocol.ranker(
        RankingRequest(
            dataset=job.dataset,
            questions=job.questions,
            level=job.level,
            configuration=configuration,
            embedder=partial(_embedder, job, run_id, options),
            fixtures=lambda reader: PreparedFixtures(job.dataset, prepared, job.folders, reader, patience=patience),
            prepared=prepared,
            expansion_cache=options.expansion_cache,
        )
    )
    settings = retrieval_settings(
        {
            "memory": configuration.model_dump(),
            "reads_gold": False,
            "embedder": None,
            "protocol": "official",
            "granularity": job.level,
            **ranker.settings,
        }
    )
    manifest = job.manifest(run_id, settings, ranker.fixtures)

    def execute() -> RetrievalRun:
        job.account(run_id)
        with (
            ranking_run(job.folders.results_dir / run_id, manifest, job.level) as rankings,
            progress(run_id, rankings.missing()) as rankings.bar,
            _log_file(log) if log else nullcontext() as lines,
        ):
            for question in ranker.questions():
                ranking = rankings.ranking(question.question_id, partial(_ranking, question, job.level))
                ranker.add(question, [item.id for item in ranking.ranked])
                if lines:
                    lines.write(question.log_line())
        return job.finish(run_id, settings, rankings, ranker.results(configuration.name))

    return execute


def _embedder(job: RetrievalJob, run_id: str, options: RetrievalOptions) -> Embedder:
    return load_embedder(
        options.embedder or DEFAULT_EMBEDDER,
        options.model_options,
        cache_path=job.folders.cache_dir / EMBEDDINGS,
        account=job.account(run_id),
    )


def _ranking(question: RankedQuestion, level: Granularity) -> Ranking:
    return Ranking(question.question_id, level, tuple(question.items()))


@contextmanager
def _log_file(path: Path) -> Iterator[IO[str]]:
    """Open a text file that appears under its name when it is complete."""
    unfinished = path.with_name(f".{path.name}.tmp")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with unfinished.open("w", encoding="utf-8") as handle:
            yield handle
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
