"""Estimate the calls, tokens, dollars, time and disk of a run, stage by stage, for `run --dry-run`."""

from collections.abc import Callable, Sequence
from shlex import join
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from longmemeval.benchmarks.catalogue import benchmark_of
from longmemeval.benchmarks.registry import load_judge
from longmemeval.core.options import words_of
from longmemeval.core.remote.places import as_given
from longmemeval.errors import FixtureError, HarnessError
from longmemeval.judges.protocol import Judge, JudgeIdentity
from longmemeval.llm.protocol import ChatModel
from longmemeval.llm.registry import check_batches
from longmemeval.llm.tokens import CallCounter
from longmemeval.pipeline.estimate.judging import AnswersToJudge, LoadJudge
from longmemeval.pipeline.estimate.stages import (
    ANSWER_BYTES,
    SAMPLED,
    TOKEN_BYTES,
    Pace,
    Stage,
    assumed_replies,
    expected_replies,
    stage,
)
from longmemeval.pipeline.evaluate.evaluate import unlabelled
from longmemeval.pipeline.options import PrepareOptions
from longmemeval.pipeline.prepare.prepare import PrepareReport, prepare
from longmemeval.pipeline.run.counted_prompts import analysing_work, answering_work
from longmemeval.pipeline.run.plan import RunOptions, RunPlan
from longmemeval.records import Answer
from longmemeval.results.manifest import planned_manifest
from longmemeval.results.run_files import RunFiles
from longmemeval.results.run_questions import RunQuestions

ANALYSIS, ANSWERS = "question analysis", "answers"


class RunEstimate(Struct, frozen=True):
    """The estimate of a run."""

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
    measured_by: str = ""
    """The command after which the same estimate counts prompts of fixtures; empty if it does, or need not."""


class JudgeChoice(Struct, frozen=True):
    """A judge that will grade a run."""

    spec: str
    identity: JudgeIdentity
    load: LoadJudge
    unlabelled: Sequence[str] = ()
    """The answered questions that it has yet to label."""


def run_stages(
    plan: RunPlan,
    run_questions: RunQuestions,
    answers: dict[str, Answer],
    judges: Sequence[JudgeChoice],
    *,
    analyse: bool = True,
) -> list[Stage]:
    """Estimate the remaining work of a run: analysing questions, answering and grading.

    Args:
        run_questions: all questions of the run.
        answers: the existing answers that count, by question id.
        judges: the judges that will grade it.
        analyse: True if a chat model analyses the questions first, if the memory uses one.
    """
    options, reading, results = plan.options, plan.reading, plan.folders.results_dir
    left = [question for name, question in run_questions.questions.items() if name not in answers]
    rates, batch = options.model_options.rates, options.batch is not None
    pace = Pace(rates, options.concurrency, batch)
    found = []
    if analyse and (work := analysing_work(plan, left)):
        own_pace = Pace(rates, options.question_concurrency or options.concurrency, batch)
        found.append(stage(ANALYSIS, work, assumed_replies(work), own_pace))
    replies = expected_replies(results, plan.model, reading.method, reading.max_tokens)
    rounds = {"con-separate": 2, "facts-first": 2, "files": 3}.get(reading.method, 1)
    found.append(stage(ANSWERS, answering_work(plan, left), replies, pace, rounds=rounds))
    to_judge = AnswersToJudge(run_questions, answers, results, pace, (replies.tokens, reading.max_tokens))
    for judge in judges:
        to_label = to_judge.to_label(judge.unlabelled)
        found.append(to_judge.stage(judge.identity.id, judge.spec, judge.load, to_label))
    return found


def estimate_run(
    plan: RunPlan,
    *,
    judge: str | None = None,
    prepare_options: PrepareOptions | None = None,
) -> RunEstimate:
    """Estimate a run and a judge after it. Nothing is called or written.

    Args:
        judge: spec of the judge; None: the benchmark's own.
        prepare_options: options for preparing missing parts; None: the defaults.

    Raises:
        HarnessError: anything that `run` would refuse before it reads fixtures.
    """
    options, chosen = plan.options, plan.questions
    manifest = planned_manifest(plan.dataset, plan.settings, chosen, plan.selection, plan.run_id)
    files = RunFiles(plan.folders.results_dir / plan.run_id, manifest=manifest) if plan.run_id else None
    answers = {name: answer for name, answer in files.answers.items() if answer.status == "ok"} if files else {}
    if options.batch:
        check_batches(plan.model)
    stages = run_stages(plan, RunQuestions(manifest, plan.dataset), answers, [_judge(plan, files, judge)])
    answering = next(row for row in stages if row.name == ANSWERS)
    preparation, notes = _preparation(plan, prepare_options)
    left = sum(question.question_id not in answers for question in chosen)
    return RunEstimate(
        questions=len(chosen),
        left=left,
        stages=tuple(stages),
        replies=answering.replies,
        batch=tuple(row.name for row in stages if row.by_batch),
        disk_bytes=_disk(answering, left, options),
        preparation=preparation,
        notes=notes,
        measured_by=_measured_by(plan, answering),
    )


def _measured_by(plan: RunPlan, answering: Stage) -> str:
    if answering.work.calls is not None and not answering.work.bounded:
        return ""
    first = plan.questions[0].haystack_id
    selection, few = plan.selection, min(SAMPLED, len(plan.questions))
    if selection.sample is not None and not selection.shard:
        selection = replace(selection, sample=few)
    elif not selection.question_ids and not selection.shard:
        selection = replace(selection, limit=few)
    return as_given(f"{plan.fixtures.prepare_command(first)} {join(words_of(selection))}")


def _judge(plan: RunPlan, files: RunFiles | None, named: str | None) -> JudgeChoice:
    """Return the named judge, or the benchmark's own."""
    benchmark, model_options, data_dir = (
        benchmark_of(plan.dataset),
        plan.options.model_options,
        plan.folders.data_dir,
    )
    spec = named or benchmark.default_judge

    def load(factory: Callable[[str], ChatModel]) -> Judge:
        return load_judge(spec, factory, benchmark=benchmark, options=model_options, data_dir=data_dir)

    identity = load(CallCounter).identity
    return JudgeChoice(spec, identity, load, unlabelled(files, identity) if files else ())


def _disk(answering: Stage, left: int, options: RunOptions) -> float | None:
    """Return the bytes of prompts and answers."""
    if answering.work.prompt_tokens is None:
        return None
    saved = answering.work.prompt_tokens * TOKEN_BYTES if options.save_prompts else 0.0
    return saved + left * ANSWER_BYTES


def _preparation(plan: RunPlan, making: PrepareOptions | None) -> tuple[PrepareReport | None, tuple[str, ...]]:
    """Return the dry run of `prepare` if fixtures are missing, and its notes."""
    options = plan.options
    try:
        plan.fixtures.hashes(plan.questions)
    except FixtureError:
        defaults: dict[str, Any] = {"name": options.prepared, "model_options": options.model_options.connection}
        if options.embedder:
            defaults["embedder"] = options.embedder
        making = making or PrepareOptions(**defaults)
        try:
            report = prepare(
                plan.dataset,
                [plan.configuration],
                selection=plan.selection,
                options=making.replaced(dry_run=True),
                folders=plan.folders,
            )
        except HarnessError as error:
            return None, (f"what preparing costs is not known: {error}",)
        return report, report.notes
    return None, ()
