"""`longmemeval run`."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from longmemeval.cli import next_step
from longmemeval.cli import options as shared
from longmemeval.cli.estimates import show_run, show_sample_size
from longmemeval.cli.main import continue_with
from longmemeval.cli.options import Batch, LikeAnother, Shown
from longmemeval.cli.output import err, out, print_documents, print_json, printable, warn
from longmemeval.core.options import MODEL, OUTPUT, Flag
from longmemeval.core.text.figures import count_of, listed
from longmemeval.pipeline.options import AnsweringOptions
from longmemeval.reading.options import ReadingOptions
from longmemeval.results.selection import Selection, sharded_id

if TYPE_CHECKING:
    from longmemeval.cli.output import Step
    from longmemeval.pipeline.run.answering import RunReport
    from longmemeval.pipeline.run.plan import RunPlan


EXAMPLE = "longmemeval run -d sample -m hybrid --model offline/extractive"


@dataclass(frozen=True, kw_only=True)
class Which:
    """The number of runs, or the one to continue."""

    repeat: Annotated[int, Flag(OUTPUT, "N", minimum=1)] = 1
    """Number of runs to make, RUN-r1 to RUN-rN."""
    resume: Annotated[str | None, Flag(OUTPUT, "RUN")] = None
    """Run to continue with the same settings."""
    extend: Annotated[str | None, Flag(metavar="RUN")] = None
    """Run to continue with more questions of its sample.

    Such as --sample 50 after --sample 20.
    """

    def named(self, run_id: str | None) -> str | None:
        """Return the run named by --run-id, --resume or --extend; None if none of them is given."""
        options = {"--run-id": run_id, "--resume": self.resume, "--extend": self.extend}
        names = {option: name for option, name in options.items() if name}
        if len(set(names.values())) > 1:
            raise typer.BadParameter(f"{' and '.join(names)} name different runs")
        if self.repeat > 1 and (self.resume or self.extend):
            continued = "resume" if self.resume else "extend"
            raise typer.BadParameter(f"--{continued} continues one run; with --repeat give --run-id again")
        return next(iter(names.values()), None)

    def resumable_id(self, name: str, shard: str, *, by_batch: bool) -> str:
        """Return the id of the run of a shard; from here on, an interrupt shows the command that continues it."""
        name = sharded_id(name, shard) if self.repeat == 1 else name
        if self.extend:
            again = next_step.same_again()
        else:
            again = next_step.resume(name) if self.repeat == 1 else next_step.repeat_again(f"{name}-r1")
        continue_with(again, with_provider=by_batch)
        return name


def run(
    context: typer.Context,
    *,
    dataset: Annotated[str | None, shared.dataset_option("Dataset: a catalogue name or a file.")] = None,
    memory: Annotated[str | None, shared.memory_option("Preset, module:Class, process:COMMAND, URL or YAML.")] = None,
    model: Annotated[
        str | None, Flag(MODEL, "MODEL", "Model: openai/gpt-4o, offline/extractive, command:PROGRAM.")
    ] = None,
    again: LikeAnother,
    parameters: shared.Parameters,
    selection: Selection,
    reading: ReadingOptions,
    options: AnsweringOptions,
    rates: shared.Rates,
    places: shared.Places,
    which: Which,
    shown: Shown,
    batch: Batch,
    dry_run: shared.DryRun = False,
    detect: Annotated[
        float | None,
        Flag(
            metavar="POINTS",
            help="Difference in points for which --dry-run plans questions.",
        ),
    ] = None,
    as_json: shared.Json = False,
) -> None:
    """Answer questions with a memory and a model.

    One run has one memory configuration and one model.
    """
    from msgspec import structs

    from longmemeval.llm.options import GENERATION
    from longmemeval.llm.registry import model_warning
    from longmemeval.pipeline.run.like import run_like
    from longmemeval.pipeline.run.plan import RunOptions, plan_run
    from longmemeval.results.manifest import default_run_id

    shown.apply()
    again.check(context)
    if detect is not None and not (dry_run and 0 < detect < 100):
        raise typer.BadParameter("--detect takes points between 0 and 100, and needs --dry-run")
    named = which.named(options.run_id)
    folders = places.folders()
    if again.like:
        plan = run_like(again.like, folders, strict=again.strict, tell=warn, dataset=dataset)
    else:
        plan = plan_run(
            dataset or "",
            memory or "",
            model or "",
            parameters=parameters.overrides(),
            selection=selection,
            reading=reading,
            options=RunOptions(**structs.asdict(options), batch=batch.options()),
            folders=folders,
        )
    planned = {name: getattr(plan.options.model_options, name) for name in ("api_base", *GENERATION)}
    model_options = structs.replace(rates.on(options.model_options, folders), **planned)
    if warning := model_warning(plan.model, model_options):
        err.print(f"Note: {printable(warning)}.")
    default_id = default_run_id(folders.results_dir, plan.dataset.name, plan.configuration.name, plan.model)
    plan = plan.with_options(
        embedder=options.embedder,
        model_options=model_options,
        spending=options.spending,
        **rates.file.concurrency.of_run(options.concurrency),
        run_id=which.resumable_id(named or default_id, plan.selection.shard, by_batch=plan.options.batch is not None),
        must_exist=bool(which.resume or which.extend),
        extend=which.extend is not None,
        tell=warn,
    )
    if dry_run:
        _estimate(plan, which.repeat, detect, as_json=as_json)
    else:
        _answer_and_show(plan, which.repeat, places, as_json=as_json)


def _estimate(plan: "RunPlan", repeat: int, detect: float | None, *, as_json: bool) -> None:
    """Print the estimate of the run, and before it, with --detect, the sample size that a difference needs."""
    from longmemeval.pipeline.run.estimate import estimate_run
    from longmemeval.pipeline.run.sample_size import sample_size

    estimate, limit = estimate_run(plan), plan.options.spending
    dollars = limit.dollars if limit else None
    size = None if detect is None else sample_size(plan.dataset, detect, estimate, plan.selection.seed, dollars)
    if as_json:
        print_json(estimate if size is None else {"forecast": estimate, "sample_size": size})
        return
    if size:
        show_sample_size(size)
    show_run(estimate, runs=repeat)


def _answer_and_show(plan: "RunPlan", repeat: int, places: shared.Places, *, as_json: bool) -> None:
    from longmemeval.pipeline.run.repeats import run_repeats
    from longmemeval.pipeline.run.run import execute

    reports = run_repeats(plan, repeat) if repeat > 1 else [execute(plan)]
    if as_json:
        print_documents(reports)
    else:
        for report in reports:
            show(report)
        out.next(*_next(reports, plan, places))
    if any(report.answered < report.questions for report in reports):
        raise typer.Exit(1)


def _next(reports: "list[RunReport]", plan: "RunPlan", places: shared.Places) -> "list[Step]":
    """Return the next steps: the same command if questions have no answer, else grading.

    None if every question failed for one reason: asking again would fail again.
    """
    first = reports[0].run_id
    if all(report.failures.alike == report.questions for report in reports):
        return []
    if any(report.answered < report.questions for report in reports):
        again = next_step.resume(first) if len(reports) == 1 else next_step.repeat_again(first)
        return [(again, "answer the questions that failed")]
    named = first if len(reports) == 1 else f"{first.rpartition('-r')[0]}-r*"
    return next_step.grade(named, plan.dataset, plan.model, places, api_base=plan.options.model_options.api_base)


def show(report: "RunReport") -> None:
    """Print what the run did."""
    from longmemeval.report.tables.runs import usage_line

    done = f"{report.answered:,} of {count_of(report.questions, 'question')} answered"
    missing = report.questions - report.answered
    if report.newly_answered or missing:
        out.print(f"Run {report.run_id}: {done} in {report.seconds:.1f} s ({report.newly_answered} now)")
    else:
        out.print(f"Run {report.run_id} is already complete: {done}")
    out.print(f"Model use: {usage_line(report.usage)}")
    if report.shortened:
        shortened = count_of(report.shortened, "context")
        out.print(f"Shortened to fit the model's context window: {shortened} (see the notes in answers.jsonl)")
    if report.truncated:
        truncated = count_of(report.truncated, "prompt")
        out.print(f"Probably truncated by the server: {truncated} (see `asked` in answers.jsonl)")
    if report.cut:
        out.print(f"Cut off at --max-tokens (finish reason: length): {count_of(report.cut, 'answer')}")
    for reason, number in report.broke_off.items():
        out.print(f"Broken off (finish reason: {printable(reason)}): {count_of(number, 'answer')}, kept as they are")
    if report.load:
        err.print(f"Note: {report.load}.")
    if report.failed == report.failures.alike > 0:
        err.print(printable(report.failures.told))
    elif report.failed:
        err.print(f"{count_of(report.failed, 'question')} failed:")
        for line in report.errors:
            err.print(f"  {printable(line)}")
    if report.empty:
        empty = f"{count_of(len(report.empty), 'question')}: {listed(report.empty, 10)}"
        warn(f"Only empty replies: {empty}")
