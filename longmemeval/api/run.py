"""A run for Python users: its answers, and the verbs that grade them."""

import warnings
from collections.abc import Callable, Coroutine
from functools import cached_property, wraps
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from longmemeval.api.data import Data, Memory, as_data, as_memory
from longmemeval.core.arguments import P, checked
from longmemeval.core.defaults import CONCURRENCY
from longmemeval.core.event_loop import run_blocking
from longmemeval.core.files import safe_name, sha256_bytes
from longmemeval.core.tables.showing import Showing
from longmemeval.core.text.figures import count_of
from longmemeval.dataset import Dataset
from longmemeval.errors import HarnessError
from longmemeval.llm.costs import SPENDING, Account, limit_beside
from longmemeval.llm.options import SpendingLimit
from longmemeval.llm.registry import load_chat_model
from longmemeval.pipeline.evaluate.evaluate import evaluate as grade
from longmemeval.pipeline.options import EvaluateOptions, PrepareOptions
from longmemeval.pipeline.prepare.prepare import prepare
from longmemeval.pipeline.run.answering import RunReport
from longmemeval.pipeline.run.plan import RunOptions, RunPlan
from longmemeval.pipeline.run.run import run as answer
from longmemeval.records import Answer
from longmemeval.results.graded.graded_run import Evaluation, RunCosts, RunLatency, latency_of, recalls_of, run_costs
from longmemeval.results.listing import RunFilter, list_runs
from longmemeval.results.manifest import RunManifest, check_run_id, run_folder
from longmemeval.results.run_files import RunFiles
from longmemeval.settings import Folders


class Run(Showing):
    """The answers of one memory and one model, read from the run's folder.

    Args:
        run_id: the id of the run, which is the name of its folder.
        folders: the folders; None: from the environment.
        report: the report of `run`, if this process made the run.

    Raises:
        HarnessError: the run is unknown; names the nearest id.
    """

    @checked()
    def __init__(self, run_id: str, folders: Folders | None = None, report: RunReport | None = None) -> None:
        self.folders = folders or Folders()
        self.report = report
        self.files = RunFiles(run_folder(self.folders.results_dir, run_id))

    @classmethod
    @checked()
    def open(cls, run_id: str, *, folders: Folders | None = None) -> "Run":
        """Return an existing run; arguments and errors as for the class."""
        return cls(run_id, folders)

    def __repr__(self) -> str:
        settings, total = self.manifest.settings, len(self.manifest.question_ids)
        answered = sum(answer.status == "ok" for answer in self.answers.values())
        by = ", ".join(filter(None, (settings.memory_name, settings.model_name)))
        return f"Run({self.id!r}, {by}, {answered} of {count_of(total, 'question')} answered, {self.status})"

    @property
    def id(self) -> str:
        """The id of the run, which every command accepts."""
        return self.files.folder.name

    @property
    def manifest(self) -> RunManifest:
        """All settings that determine the answers: `run.json`."""
        return self.files.manifest

    @property
    def status(self) -> str:
        """`completed`, `incomplete`, `interrupted`, `failed` or `running`."""
        return self.manifest.status

    @property
    def answers(self) -> dict[str, Answer]:
        """Answers by question id; unanswered questions are absent."""
        return self.files.answers

    @property
    def recalls(self) -> dict[str, tuple[str, ...]]:
        """Ids of the messages that reached the prompt, by question id."""
        return recalls_of(self.answers)

    @cached_property
    def cost(self) -> RunCosts:
        """Cost of preparing, analysing questions and answering; unknown dollars are None."""
        return run_costs(self.manifest, self.files.answer_lines, None, self.folders.prepared_dir)

    @property
    def latency(self) -> RunLatency:
        """Milliseconds of recall, model and both, per answered question."""
        own = self.manifest.kind == "run"
        return latency_of([answer for answer in self.answers.values() if own and answer.status == "ok"])

    @checked()
    def evaluate(
        self,
        judge: str | None = None,
        *,
        max_cost: float | None = None,
        concurrency: int = CONCURRENCY,
        options: EvaluateOptions = EvaluateOptions(),
    ) -> Evaluation:
        """Grade the answers; existing labels of this judge are reused. See `evaluate`."""
        return evaluate(self, judge, max_cost=max_cost, concurrency=concurrency, options=options, folders=self.folders)


@checked(run_id="evaluate(run, judge='offline/lexical')")
def evaluate(
    run: Run | str,
    judge: str | None = None,
    *,
    max_cost: float | None = None,
    concurrency: int = CONCURRENCY,
    options: EvaluateOptions = EvaluateOptions(),
    folders: Folders | None = None,
) -> Evaluation:
    """Grade the answers of a run; answers stay unchanged, and existing labels of this judge are reused.

    Args:
        run: a run or its id.
        judge: a model, `SET@MODEL`, `offline/lexical`, or the id of a judge that graded before; None: the benchmark's
            own.
        max_cost: maximum cost of judging in US dollars, over all starts; None: no limit.
        concurrency: maximum concurrent model calls.
        options: votes, batches, endpoint and more.
        folders: the folders; None: from the environment.

    Raises:
        HarnessError: the run or judge is unknown, or the dataset is not the one that the run answered.
        IntegrityError: the run's files have changed.
        FatalModelError: no judge call can succeed; labels so far are saved.
        SpendingLimitError, EndpointDownError: grading stopped early; labels so far are saved.
    """
    if options.judge is not None or options.spending is not None:
        raise HarnessError(
            "evaluate(options=) sets values that have their own arguments",
            fix="Write evaluate(run, judge='offline/lexical', max_cost=2)",
        )
    run_id = run.id if isinstance(run, Run) else run
    chosen_options = structs.replace(
        options,
        judge=judge,
        concurrency=concurrency,
        spending=None if max_cost is None else SpendingLimit(max_cost),
    )
    return grade(run_id, options=chosen_options, folders=folders or (run.folders if isinstance(run, Run) else None))


@checked()
def runs(
    *,
    dataset: str | None = None,
    memory: str | None = None,
    model: str | None = None,
    status: str | None = None,
    since: str | None = None,
    folders: Folders | None = None,
) -> list[Run]:
    """Return all runs, newest first; arguments may be patterns such as `hybrid*`.

    Args:
        dataset: name of the dataset.
        memory: name of the memory.
        model: the answering model.
        status: as in `Run.status`.
        since: a date, or a date and a time: 2026-11-22, 2026-11-22T09:30.
        folders: the folders; None: from the environment.

    Raises:
        HarnessError: `since` is not a date.
    """
    place = folders or Folders()
    found = list_runs(place.results_dir, RunFilter(dataset, memory, model, status, since))
    return [Run(listed.run, place) for listed in found]


# Answer questions with a memory and a model in one call: prepare what is missing, and reuse what exists.

PREPARED_FOR = "spending-prepare.jsonl"
"""The account of preparing for a run, next to the run's own account: `max_cost` limits both together."""


@checked(
    selection="run(data.sample(50), 'bm25', model='offline/extractive')",
    dataset="run(data, 'bm25', model='offline/extractive')",
    model_spec="run(data, 'bm25', model='offline/extractive')",
    memory="run(data, Memory('hybrid', top_k=20), model='offline/extractive'), or give a name or a class of yours",
    run_id="run(data, 'bm25', model='offline/extractive', name='my-run')",
    limit="run(data.first(20), 'bm25', model='offline/extractive')",
    sample="run(data.sample(50), 'bm25', model='offline/extractive')",
    seed="run(data.sample(50, seed=1), 'bm25', model='offline/extractive')",
    judge="run(data, 'bm25', model='offline/extractive').evaluate(judge='offline/lexical')",
    reading="run(data, 'bm25', model='offline/extractive', options=RunOptions(reading=ReadingOptions(method='con')))",
    budget="run(data, Memory('hybrid', budget=2000), model='offline/extractive')",
    top_k="run(data, Memory('hybrid', top_k=20), model='offline/extractive')",
    embedder="run(data, 'hybrid', model='offline/extractive', prepare_options=PrepareOptions(embedder='hashing:256'))",
    api_base="run(data, 'hybrid', model='openai/local', options=RunOptions(model_options=ModelOptions(api_base='http://"
    "localhost:8000/v1')))",
)
def run(
    data: Data | Dataset | str | Path,
    memory: Memory | type | str,
    model: str,
    *,
    max_cost: float | None = None,
    concurrency: int = CONCURRENCY,
    name: str | None = None,
    fresh: bool = False,
    options: RunOptions = RunOptions(),
    prepare_options: PrepareOptions | None = None,
    folders: Folders | None = None,
) -> Run:
    """Answer questions with a memory and a model; missing fixtures are prepared first.

    If a run with the same data, memory, model and options exists, it is returned or resumed.

    Args:
        data: a dataset, or an argument of `load_dataset`.
        memory: a `Memory`, a class, or a value of `--memory`.
        model: the answering model, such as `openai/gpt-4o` or `offline/extractive`.
        max_cost: maximum cost of preparing and answering in US dollars, over all starts; None: no limit.
        concurrency: maximum concurrent model calls.
        name: the id of the run; None: composed of data, memory, model and a hash of all settings.
        fresh: make another run with the same settings.
        options: reading, protocol, endpoint and more.
        prepare_options: embedder, models of the memory and more; its `name` is the preparation.
        folders: the folders; None: from the environment.

    Raises:
        HarnessError: an argument is invalid, or the run of that name has other settings.
        FatalModelError: no call can succeed; answers so far are saved.
        SpendingLimitError, EndpointDownError: the work stopped early; the same call continues it.
    """
    if options.run_id is not None or options.spending is not None:
        raise HarnessError(
            "run(options=) sets values that have their own arguments",
            fix="Write run(data, memory, model='offline/extractive', name='my-run', max_cost=2)",
        )
    chosen, used, place = as_data(data), as_memory(memory), folders or Folders()
    if used.unhashed:
        what = (
            f"{used.name} uses something that cannot be hashed and is prepared again in every process: {used.unhashed}"
        )
        warnings.warn(what, stacklevel=2)
    making = prepare_options or PrepareOptions(name=options.prepared)
    options = structs.replace(options, prepared=making.name)
    usual = _usual_id(chosen, used, model, options, making, place)
    run_id = check_run_id(name or usual)
    run_id = _another(run_id, place) if fresh else run_id
    folder = place.results_dir / run_id
    paid_for = (folder / PREPARED_FOR).absolute()
    if options.batch is None:  # Refused before preparing is paid for.
        account = Account(folder / SPENDING, None if max_cost is None else SpendingLimit(max_cost))
        load_chat_model(model, options.model_options, account=account)
    if max_cost is not None:
        left = limit_beside(SpendingLimit(max_cost), [folder / SPENDING])
        making = making.replaced(spending=left, account_file=paid_for)
    prepare(
        chosen.dataset,
        [used.configuration],
        selection=chosen.selection,
        options=in_process(making, [used]),
        folders=place,
    )
    limit = None if max_cost is None else limit_beside(SpendingLimit(max_cost), [paid_for])
    chosen_options = structs.replace(options, run_id=run_id, concurrency=concurrency, spending=limit)
    report = answer(
        chosen.dataset, used.configuration, model, selection=chosen.selection, options=chosen_options, folders=place
    )
    return Run(run_id, place, report)


def _awaited(work: Callable[P, Run]) -> Callable[P, Coroutine[Any, Any, Run]]:
    """Return a function of the same arguments that does the work without blocking the event loop."""

    @wraps(work)
    async def call(*args: P.args, **kwargs: P.kwargs) -> Run:
        return await run_blocking(lambda: work(*args, **kwargs))

    call.__name__ = call.__qualname__ = f"a{work.__name__}"
    call.__doc__ = "Do what `run` does without blocking the event loop; after cancelling, finished work is saved."
    return call


arun = checked()(_awaited(run))


def in_process(options: PrepareOptions, memories: list[Memory]) -> PrepareOptions:
    """Return options for preparing with classes of this process, which other processes do not have.

    Raises:
        HarnessError: the options request workers.
    """
    if not any(memory.in_process for memory in memories):
        return options
    if options.executor or (options.jobs or 1) > 1:
        raise HarnessError(
            "A class that was passed as an object runs in this process, without workers",
            fix="Leave out executor and jobs, or put the class into a module and name it: Memory('module:Class')",
        )
    return options.replaced(jobs=1)


def _usual_id(
    data: Data, memory: Memory, model: str, options: RunOptions, making: PrepareOptions, folders: Folders
) -> str:
    """Return the id of the run that these settings give: readable, with a hash of all that decides its answers."""
    plan = RunPlan(
        data=data.dataset,
        configuration=memory.configuration,
        model=model,
        selection=data.selection,
        options=options,
        folders=folders,
    )
    decisive = [
        data.dataset.content_sha256,
        [question.question_id for question in plan.questions],
        plan.settings.plain,
        # An index that nobody chose is hashed as it always was, whatever this machine takes.
        making.of_parts.model_dump(mode="json") | {"index": making.index or "hnsw"},
        options.query_model,
    ]
    digest = sha256_bytes(msgspec.json.encode(decisive, order="sorted"))[:8]
    parts = (data.name, memory.name, model)
    readable = "_".join(safe_name(part.replace("/", "-").replace(":", "-")) for part in parts)
    return f"{readable.replace('%', '-').replace('~', '-')[:100]}_{digest}"


def _another(run_id: str, folders: Folders) -> str:
    number = 1
    while (folders.results_dir / (run_id if number == 1 else f"{run_id}-{number}")).exists():
        number += 1
    return run_id if number == 1 else f"{run_id}-{number}"
