"""A run for Python users: its answers, and the verbs that grade them."""

from functools import cached_property

from msgspec import structs

from longmemeval.core.arguments import checked
from longmemeval.core.defaults import CONCURRENCY
from longmemeval.core.tables.showing import Showing
from longmemeval.core.text.figures import count_of
from longmemeval.errors import HarnessError
from longmemeval.llm.options import SpendingLimit
from longmemeval.pipeline.evaluate.evaluate import evaluate as grade
from longmemeval.pipeline.options import EvaluateOptions
from longmemeval.pipeline.run.answering import RunReport
from longmemeval.records import Answer
from longmemeval.results.graded.graded_run import Evaluation, RunCosts, RunLatency, latency_of, recalls_of, run_costs
from longmemeval.results.listing import RunFilter, list_runs
from longmemeval.results.manifest import RunManifest, run_folder
from longmemeval.results.run_files import RunFiles
from longmemeval.settings import Folders


class Run(Showing):
    """The answers of one memory and one model, read from the run's folder.

    Args:
        run_id: its id, the name of its folder.
        folders: the folders; None: from the environment.
        report: the report of `run`, if this process answered it.

    Raises:
        HarnessError: there is no such run; names the nearest id.
    """

    @checked()
    def __init__(self, run_id: str, folders: Folders | None = None, report: RunReport | None = None) -> None:
        self.folders = folders or Folders()
        self.report = report
        self.files = RunFiles(run_folder(self.folders.results_dir, run_id))

    @classmethod
    @checked()
    def open(cls, run_id: str, *, folders: Folders | None = None) -> "Run":
        """Return a run that exists; arguments and errors as for the class."""
        return cls(run_id, folders)

    def __repr__(self) -> str:
        settings, total = self.manifest.settings, len(self.manifest.question_ids)
        answered = sum(answer.status == "ok" for answer in self.answers.values())
        by = ", ".join(filter(None, (settings.memory_name, settings.model_name)))
        return f"Run({self.id!r}, {by}, {answered} of {count_of(total, 'question')} answered, {self.status})"

    @property
    def id(self) -> str:
        """The id of the run, by which every verb finds it."""
        return self.files.folder.name

    @property
    def manifest(self) -> RunManifest:
        """Everything that decided its answers: `run.json`."""
        return self.files.manifest

    @property
    def status(self) -> str:
        """`completed`, `incomplete`, `interrupted`, `failed` or `running`."""
        return self.manifest.status

    @property
    def answers(self) -> dict[str, Answer]:
        """The answer that counts, by question id; questions without one are absent."""
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
        """Grade the answers; labels that this judge has given before are reused. See `evaluate`."""
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
    """Grade the answers of a run; the answers are not touched, and labels that this judge has given are reused.

    Args:
        run: a run or its id.
        judge: a model, `SET@MODEL`, `offline/lexical`, or the id of a judge that graded before; None: the benchmark's
            own.
        max_cost: the most that judging may cost, US dollars, all starts together; None: no limit.
        concurrency: calls in flight at one time.
        options: votes, batches, endpoint and more.
        folders: the folders; None: from the environment.

    Raises:
        HarnessError: there is no such run or judge, or the data set is not the one the run answered.
        IntegrityError: the run's files are not as it left them.
        FatalModelError: no judge call can succeed; labels so far are kept.
        SpendingLimitError, EndpointDownError: the rest has to wait; labels so far are kept.
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
    """Return all runs, the newest first; texts may be patterns such as `hybrid*`.

    Args:
        dataset: name of the data set.
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
