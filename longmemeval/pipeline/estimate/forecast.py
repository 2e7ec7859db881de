"""`run --dry-run`: calls, tokens, dollars, time and disk, stage by stage."""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from longmemeval.benchmarks.judges import load_judge
from longmemeval.benchmarks.specs import benchmark_of
from longmemeval.costs.prices import price
from longmemeval.dataset import Dataset
from longmemeval.errors import FixtureError, HarnessError
from longmemeval.evaluation.judges.protocol import Judge
from longmemeval.llm.call_counter import CallCounter
from longmemeval.llm.options import is_offline
from longmemeval.llm.protocol import ChatModel
from longmemeval.memory.configuration import MemoryConfiguration, as_configuration
from longmemeval.pipeline.answer.run import RunOptions, asked_of, reading_of, run_settings
from longmemeval.pipeline.estimate.answering import Asking, analysing_work, answering_work
from longmemeval.pipeline.estimate.judging import judging_work
from longmemeval.pipeline.estimate.measured import Replies, expected_replies
from longmemeval.pipeline.estimate.work import Work
from longmemeval.pipeline.fixtures.access import PreparedFixtures
from longmemeval.pipeline.fixtures.plan import PrepareOptions
from longmemeval.pipeline.fixtures.prepare import PrepareReport, prepare
from longmemeval.pipeline.grade.evaluate import unlabelled
from longmemeval.pipeline.runs.asked import AskedQuestions
from longmemeval.pipeline.runs.manifest import FORMAT, RunManifest, dataset_record
from longmemeval.pipeline.runs.run_files import RunFiles
from longmemeval.pipeline.runs.selection import Selection
from longmemeval.rates.limits import RateLimits
from longmemeval.records import Question
from longmemeval.settings import Folders

_LABEL_TOKENS = 3
"""Of a judge's reply, as a rule: yes or no."""
_BYTES_OF_TOKEN, _ANSWER_BYTES = 4.5, 1500


class Stage(Struct, frozen=True):
    """One kind of call; None: not known."""

    name: str
    work: Work
    """With replies as long as they may be: the upper end of the range."""
    reply_tokens: int | None
    """With replies as expected: the lower end, like `dollars`."""
    dollars: float | None
    seconds: float | None
    """At the given concurrency and limits, with replies as expected."""


class Forecast(Struct, frozen=True):
    """What a command would take."""

    questions: int
    left: int
    """Questions without an answer."""
    stages: tuple[Stage, ...]
    replies: str
    """What the expected length and time of replies come from."""
    disk_bytes: float | None
    preparation: PrepareReport | None = None
    """Of a dry run, where fixtures are missing."""
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
    """What `run` would take, and the benchmark's own judge after it; arguments as there. Nothing is called or written.

    Raises:
        HarnessError: what `run` would refuse without a look at fixtures.
    """
    configuration = as_configuration(configuration)
    chosen, protocol = asked_of(dataset, selection, options)
    reading = reading_of(dataset, options, model)
    asking = Asking(dataset, configuration, reading, model, options.prepared, options.embedder, where)
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
    answers = {name: one for name, one in files.answers.items() if one.status == "ok"} if files else {}
    left = [question for question in chosen if question.question_id not in answers]
    replies = expected_replies(where.results_dir, model, reading.method, reading.max_tokens)
    staged = _Stages(options.model_options.rates, replies)
    spec = options.query_model or model
    if analysing := analysing_work(asking, spec, left):
        staged.add("question analysis", analysing, options.question_concurrency or options.concurrency)
    staged.add("answers", answering_work(asking, left), options.concurrency)
    answering = staged.found[-1].work
    judge = benchmark_of(dataset).default_judge

    def load(factory: Callable[[str], ChatModel]) -> Judge:
        return load_judge(judge, factory, benchmark=benchmark_of(dataset), options=options.model_options)

    asked = AskedQuestions(manifest, dataset)
    done = unlabelled(files, load(CallCounter).identity) if files else []
    judging = judging_work(judge, load, asked, answers, done, reading.max_tokens)
    staged.add(f"judge {judging.model}", judging, options.concurrency, expected=_LABEL_TOKENS)
    preparation, notes = _preparation(asking, chosen, selection, options)
    known = answering.prompt_tokens
    saved = (known or 0) * _BYTES_OF_TOKEN if options.save_prompts else 0.0
    return Forecast(
        questions=len(chosen),
        left=len(left),
        stages=tuple(staged.found),
        replies=replies.basis,
        disk_bytes=None if known is None else saved + len(left) * _ANSWER_BYTES,
        preparation=preparation,
        notes=notes,
    )


class _Stages:
    """Stages with their ranges and times.

    Args:
        rates: the limits of providers.
        replies: how replies are expected to be.
    """

    def __init__(self, rates: RateLimits, replies: Replies) -> None:
        self._rates, self._replies = rates, replies
        self.found: list[Stage] = []

    def add(self, name: str, work: Work, concurrency: int, *, expected: float | None = None) -> None:
        """Take in a stage.

        Args:
            name: of it.
            work: its calls.
            concurrency: calls under way at one time.
            expected: tokens of a reply; None: as the answering model's.
        """
        if work.calls is None or work.prompt_tokens is None or work.completion_tokens is None:
            self.found.append(Stage(name, work, None, None, None))
            return
        most = work.completion_tokens
        tokens = min(most, round(work.calls * (self._replies.tokens if expected is None else expected)))
        dollars = work.dollars
        if dollars and work.calls:
            each = price(work.model, work.prompt_tokens // work.calls, tokens // work.calls)
            dollars = None if each is None else min(dollars, each * work.calls)
        self.found.append(Stage(name, work, tokens, dollars, self._seconds(work, tokens, concurrency)))

    def _seconds(self, work: Work, tokens: int, concurrency: int) -> float:
        if not work.calls or is_offline(work.model):
            return 0.0
        rate = self._rates.of(work.model)
        return max(
            work.calls * self._replies.seconds / min(concurrency, work.calls),
            (work.calls - 1) * 60.0 / rate.rpm if rate.rpm else 0.0,
            ((work.prompt_tokens or 0) + tokens) * 60.0 / rate.tpm if rate.tpm else 0.0,
        )


def _preparation(
    asking: Asking, chosen: Sequence[Question], selection: Selection, options: RunOptions
) -> tuple[PrepareReport | None, tuple[str, ...]]:
    """What `prepare` would do where fixtures are missing, and what it says."""
    try:
        PreparedFixtures(asking.dataset, asking.prepared, asking.where, asking.configuration).hashes(chosen)
    except FixtureError:
        given: dict[str, Any] = {"name": asking.prepared, "dry_run": True, "api_base": options.model_options.api_base}
        if asking.embedder:
            given["embedder"] = asking.embedder
        try:
            report = prepare(
                asking.dataset,
                [asking.configuration],
                selection=selection,
                options=PrepareOptions(**given),
                where=asking.where,
            )
        except HarnessError as error:
            return None, (f"the fixtures are not as the run needs them: {error}",)
        return report, report.notes
    return None, ()
