"""Estimate the calls, tokens, dollars, time and disk of a run, stage by stage, for `run --dry-run`."""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from longmemeval.benchmarks.judges import load_judge
from longmemeval.benchmarks.specs import benchmark_of
from longmemeval.dataset import Dataset
from longmemeval.errors import FixtureError, HarnessError
from longmemeval.judges.protocol import Judge
from longmemeval.llm.call_counter import CallCounter
from longmemeval.llm.protocol import ChatModel
from longmemeval.llm.registry import check_batches
from longmemeval.memory.configuration import MemoryConfiguration, as_configuration
from longmemeval.pipeline.estimate.answering import AnswerSetup, analysing_work, answering_work
from longmemeval.pipeline.estimate.judging import judging_work, to_label
from longmemeval.pipeline.estimate.measured import assumed_replies, expected_labels, expected_replies
from longmemeval.pipeline.estimate.stages import Stage, Stages
from longmemeval.pipeline.estimate.work import CallEstimate
from longmemeval.pipeline.evaluate.evaluate import unlabelled
from longmemeval.pipeline.prepare.access import PreparedFixtures
from longmemeval.pipeline.prepare.plan import PrepareOptions
from longmemeval.pipeline.prepare.prepare import PrepareReport, prepare
from longmemeval.pipeline.run.question_analysis import QueryModel
from longmemeval.pipeline.run.run import RunOptions, asked_of, reading_of, run_settings
from longmemeval.records import Question
from longmemeval.results.manifest import FORMAT, RunManifest, dataset_record
from longmemeval.results.run_files import RunFiles
from longmemeval.results.run_questions import RunQuestions
from longmemeval.results.selection import Selection
from longmemeval.settings import Folders

_BYTES_OF_TOKEN, _ANSWER_BYTES = 4.5, 1500


class Forecast(Struct, frozen=True):
    """The forecast of a command."""

    questions: int
    left: int
    """Questions without an answer."""
    stages: tuple[Stage, ...]
    replies: str
    """The source of the expected length and time of answers."""
    disk_bytes: float | None
    preparation: PrepareReport | None = None
    """The report of a dry run, if fixtures are missing."""
    batch: tuple[str, ...] = ()
    """The stages whose calls go by batch."""
    notes: tuple[str, ...] = ()


def forecast_run(
    dataset: Dataset,
    configuration: MemoryConfiguration | str,
    model: str,
    *,
    selection: Selection,
    options: RunOptions,
    where: Folders,
) -> Forecast:
    """Estimate `run` and the benchmark's own judge after it; arguments as there. Nothing is called or written.

    Raises:
        HarnessError: anything that `run` would refuse before it reads fixtures.
    """
    configuration = as_configuration(configuration)
    chosen, protocol = asked_of(dataset, configuration, selection, options)
    reading = reading_of(dataset, options, model, protocol, where)
    setup = AnswerSetup(dataset, configuration, reading, model, options.prepared, options.embedder, where)
    manifest = RunManifest(
        format=FORMAT,
        run_id=options.run_id or "",
        status="running",
        dataset=dataset_record(dataset),
        settings=run_settings(configuration, model, reading, options, protocol),
        question_ids=tuple(question.question_id for question in chosen),
        fixtures={},
        environment={},
        started_at="",
        selection=selection,
    )
    files = RunFiles(where.results_dir / options.run_id, manifest=manifest) if options.run_id else None
    answers = {name: answer for name, answer in files.answers.items() if answer.status == "ok"} if files else {}
    left = [question for question in chosen if question.question_id not in answers]
    replies = expected_replies(where.results_dir, model, reading.method, reading.max_tokens)
    query = QueryModel(options.query_model or model, options.model_options)
    if options.batch:
        check_batches(model)
    stages = Stages(options.model_options.rates, batch=options.batch is not None)
    if analysing := analysing_work(setup, query, left):
        stages.add(
            "question analysis",
            analysing,
            assumed_replies(analysing),
            options.question_concurrency or options.concurrency,
        )
    rounds = 2 if reading.method == "con-separate" else 1
    answering = stages.add("answers", answering_work(setup, left), replies, options.concurrency, rounds=rounds).work
    benchmark, reached = benchmark_of(dataset), options.model_options
    judge = benchmark.default_judge

    def load(factory: Callable[[str], ChatModel]) -> Judge:
        return load_judge(judge, factory, benchmark=benchmark, options=reached, data_dir=where.data_dir)

    run_questions, identity = RunQuestions(manifest, dataset), load(CallCounter).identity
    to_judge = to_label(run_questions, answers, unlabelled(files, identity) if files else ())
    judging = judging_work(judge, load, run_questions, answers, to_judge, (replies.tokens, reading.max_tokens))
    labels = expected_labels(where.results_dir, identity.id, judging)
    stages.add(f"judge {judging.model}", judging, labels, options.concurrency)
    preparation, notes = _preparation(setup, chosen, selection, options)
    return Forecast(
        questions=len(chosen),
        left=len(left),
        stages=tuple(stages.found),
        replies=replies.basis,
        batch=stages.by_batch,
        disk_bytes=_disk(answering, len(left), options),
        preparation=preparation,
        notes=notes,
    )


def _disk(answering: CallEstimate, left: int, options: RunOptions) -> float | None:
    """Return the bytes of prompts and answers."""
    if answering.prompt_tokens is None:
        return None
    saved = answering.prompt_tokens * _BYTES_OF_TOKEN if options.save_prompts else 0.0
    return saved + left * _ANSWER_BYTES


def _preparation(
    setup: AnswerSetup, chosen: Sequence[Question], selection: Selection, options: RunOptions
) -> tuple[PrepareReport | None, tuple[str, ...]]:
    """Return the dry run of `prepare` if fixtures are missing, and its notes."""
    try:
        PreparedFixtures(setup.dataset, setup.prepared, setup.where, setup.configuration).hashes(chosen)
    except FixtureError:
        given: dict[str, Any] = {"name": setup.prepared, "dry_run": True, "api_base": options.model_options.api_base}
        if setup.embedder:
            given["embedder"] = setup.embedder
        try:
            report = prepare(
                setup.dataset,
                [setup.configuration],
                selection=selection,
                options=PrepareOptions(**given),
                where=setup.where,
            )
        except HarnessError as error:
            return None, (f"the fixtures are not as the run needs them: {error}",)
        return report, report.notes
    return None, ()
