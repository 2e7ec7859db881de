"""`longmemeval run`."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from longmemeval.cli import next_step
from longmemeval.cli.estimates import show_run, show_sample_size
from longmemeval.cli.interrupts import continue_with
from longmemeval.cli.options import shared
from longmemeval.cli.options.batch import Batch
from longmemeval.cli.options.completion import complete_run
from longmemeval.cli.options.groups import add_verb
from longmemeval.cli.options.like import LikeAnother
from longmemeval.cli.options.panels import ADVANCED, LIMITS, MODEL, OUTPUT
from longmemeval.cli.options.progress import Shown
from longmemeval.cli.output import err, out, print_json, printable
from longmemeval.core.text.plural import count_of

if TYPE_CHECKING:
    from longmemeval.benchmarks.spec import Benchmark
    from longmemeval.dataset import Dataset
    from longmemeval.pipeline.run.answering import RunReport
    from longmemeval.pipeline.run.like import RunRequest
    from longmemeval.pipeline.run.run import RunOptions
    from longmemeval.settings import Folders


def register(app: typer.Typer) -> None:
    """Add the verb."""
    add_verb(app, "run", run, example="longmemeval run -d sample -m hybrid --model offline/extractive")


@dataclass(frozen=True, kw_only=True)
class Reading:
    """From a recall to a prompt."""

    reading: Annotated[
        Literal["direct", "con", "con-separate", "short", "memories", "evidence"] | None,
        typer.Option(
            metavar="METHOD",
            rich_help_panel=MODEL,
            help="direct, con, con-separate, short, memories, evidence.",
        ),
    ] = None
    max_tokens: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", rich_help_panel=LIMITS, help="Longest answer [default: 500; con 800]."),
    ] = None
    abstain_below: Annotated[
        float | None,
        typer.Option(
            metavar="SCORE",
            rich_help_panel=ADVANCED,
            help="Abstain, without a model call, where the best recall score is lower.",
        ),
    ] = None
    history_format: Annotated[
        Literal["nl", "json", "official-nl", "official-json"],
        typer.Option(
            metavar="FORMAT",
            rich_help_panel=ADVANCED,
            help="How the prompt shows the history: nl, json, official-nl or official-json.",
        ),
    ] = "nl"
    template: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=ADVANCED,
            help="Your own prompt, with {history}, {question_date} and {question}; .yaml or .json: the texts of "
            "an official protocol (docs/grading.md).",
        ),
    ] = None
    note_template: Annotated[
        Path | None,
        typer.Option(metavar="FILE", rich_help_panel=ADVANCED, help="Your own note prompt for con-separate."),
    ] = None
    on_overflow: Annotated[
        Literal["error", "drop-oldest", "drop-newest"],
        typer.Option(
            metavar="POLICY",
            rich_help_panel=ADVANCED,
            help="When a prompt exceeds the context window: error (the question fails), drop-oldest or drop-newest. "
            "Dropped messages are recorded.",
        ),
    ] = "error"
    context_window: Annotated[
        int | None,
        typer.Option(
            "--context-window",
            min=1,
            metavar="TOKENS",
            rich_help_panel=ADVANCED,
            help="The model's context window [default: from LiteLLM's table].",
        ),
    ] = None

    def of(self, data: "Dataset", options: "RunOptions") -> "RunOptions":
        """Return the options with how the model is asked; the official protocol asks in its own way."""
        from msgspec import structs

        from longmemeval.benchmarks.specs import benchmark_of
        from longmemeval.reading.reader import reading_configuration

        given = {field.name: getattr(self, field.name) for field in fields(self)}
        texts, answering = None, benchmark_of(data).answering
        if answering and answering.load_texts and self.template and self.template.suffix in answering.text_endings:
            texts, given["template"] = answering.load_texts(self.template), None
        given.pop("reading")
        official = answering if options.protocol == "official" else None
        method = self.reading or (official.reading if official else "direct")
        given["max_tokens"] = self.max_tokens or (official.max_tokens if official else None)
        return structs.replace(options, reading=reading_configuration(method, **given), protocol_texts=texts)


@dataclass(frozen=True, kw_only=True)
class Which:
    """The name and number of this run."""

    repeat: Annotated[
        int, typer.Option(min=1, metavar="N", rich_help_panel=OUTPUT, help="Make N runs, RUN-r1 to RUN-rN.")
    ] = 1
    run_id: Annotated[
        str | None,
        typer.Option(metavar="RUN", rich_help_panel=OUTPUT, help="Name the run, or continue it if unfinished."),
    ] = None
    resume: Annotated[
        str | None,
        typer.Option(
            metavar="RUN",
            autocompletion=complete_run,
            rich_help_panel=OUTPUT,
            help="Continue this run, with the same settings.",
        ),
    ] = None
    extend: Annotated[
        str | None,
        typer.Option(
            metavar="RUN",
            autocompletion=complete_run,
            rich_help_panel=ADVANCED,
            help="Continue this run with more questions of the same sample (--sample 50 after --sample 20).",
        ),
    ] = None

    @property
    def named(self) -> str | None:
        """The run that is named."""
        given = {"--run-id": self.run_id, "--resume": self.resume, "--extend": self.extend}
        names = {option: name for option, name in given.items() if name}
        if len(set(names.values())) > 1:
            raise typer.BadParameter(f"{' and '.join(names)} name different runs")
        if self.repeat > 1 and (self.resume or self.extend):
            continued = "resume" if self.resume else "extend"
            raise typer.BadParameter(f"--{continued} continues one run; with --repeat give --run-id again")
        return next(iter(names.values()), None)

    def begun(self, name: str, shard: str, *, by_batch: bool) -> str:
        """Return the id of the run of a shard; an interrupt from here on tells how to go on with it."""
        from longmemeval.results.shards import sharded_id

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
    dataset: Annotated[str | None, shared.dataset_option("Data set: a catalogue name or a file.")] = None,
    memory: Annotated[
        str | None,
        shared.memory_option("Preset, module:Class, process:COMMAND, URL or YAML."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model", metavar="MODEL", rich_help_panel=MODEL, help="Such as openai/gpt-4o or offline/extractive."
        ),
    ] = None,
    again: LikeAnother,
    parameters: shared.Parameters,
    questions: shared.Questions,
    calls: shared.Calls,
    reading: Reading,
    places: shared.Places,
    which: Which,
    shown: Shown,
    batch: Batch,
    prepared: shared.Prepared = "default",
    query_model: shared.QueryModel = None,
    embedder: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC",
            rich_help_panel=ADVANCED,
            help="The fixtures' embedder under another name, for instance a model folder that has moved.",
        ),
    ] = None,
    protocol: Annotated[
        Literal["standard", "official"],
        typer.Option(
            metavar="NAME",
            rich_help_panel=ADVANCED,
            help="official: as the benchmark's authors ask their questions, where they have a protocol; what is "
            "drawn for it is set by --seed.",
        ),
    ] = "standard",
    no_save_prompts: Annotated[
        bool, typer.Option("--no-save-prompts", rich_help_panel=ADVANCED, help="Do not store the prompts.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", rich_help_panel=OUTPUT, help="Show the calls and their cost; do nothing.")
    ] = False,
    detect: Annotated[
        float | None,
        typer.Option(
            metavar="POINTS",
            rich_help_panel=ADVANCED,
            help="With --dry-run: how many questions, dollars and minutes it takes to tell a difference of so many "
            "points from noise, and what --max-cost allows.",
        ),
    ] = None,
    as_json: shared.Json = False,
) -> None:
    """Answer the questions from prepared fixtures.

    One run has one memory configuration and one model.
    """
    from msgspec import structs

    from longmemeval.benchmarks.registry import load_dataset
    from longmemeval.llm.options import ModelOptions
    from longmemeval.llm.registry import model_warning
    from longmemeval.memory.configuration import resolve_configuration
    from longmemeval.pipeline.run import run as pipeline
    from longmemeval.pipeline.run.like import RunRequest, run_like
    from longmemeval.results.manifest import default_run_id

    shown.apply()
    again.check(context)
    if detect is not None and not (dry_run and 0 < detect < 100):
        raise typer.BadParameter("--detect takes points between 0 and 100, and --dry-run beside it")
    named, repeat = which.named, which.repeat
    where = places.folders()
    if again.like:
        asked = run_like(again.like, where, strict=again.strict, tell=_tell, dataset=dataset)
    else:
        options = pipeline.RunOptions(
            prepared=prepared,
            model_options=ModelOptions(api_base=calls.api_base),
            query_model=query_model,
            protocol=protocol,
            seed=questions.seed,
            batch=batch.options(),
            save_prompts=not no_save_prompts,
        )
        configuration = resolve_configuration(memory or "", parameters.overrides())
        data = load_dataset(dataset or "", where.data_dir)
        asked = RunRequest(data, configuration, model or "", questions.selection(), reading.of(data, options))
    data, configuration, model, chosen = asked.dataset, asked.configuration, asked.model, asked.selection
    model_options = structs.replace(calls.model_options(where), api_base=asked.options.model_options.api_base)
    if warning := model_warning(model, model_options):
        err.print(f"Note: {printable(warning)}.")
    usual = default_run_id(where.results_dir, data.name, configuration.name, model)
    name = which.begun(named or usual, chosen.shard, by_batch=asked.options.batch is not None)
    options = structs.replace(
        asked.options,
        embedder=embedder,
        model_options=model_options,
        spending=shared.spending(calls.max_cost),
        **calls.concurrency_by_stage(),
        run_id=name,
        must_exist=bool(which.resume or which.extend),
        extend=which.extend is not None,
        tell=_tell,
    )
    if dry_run:
        _estimate(structs.replace(asked, options=options), repeat, where, detect, calls.max_cost, as_json=as_json)
        return
    asked = structs.replace(asked, options=options)
    _answer_and_show(asked, repeat, where, places, as_json=as_json)


def _estimate(
    asked: "RunRequest", repeat: int, where: "Folders", detect: float | None, max_cost: float | None, *, as_json: bool
) -> None:
    """Print what the run would take; first, where it is asked for, how many questions a difference takes."""
    from longmemeval.pipeline.run.estimate import estimate_run
    from longmemeval.pipeline.run.sample_size import sample_size

    data, chosen = asked.dataset, asked.selection
    estimate = estimate_run(
        data, asked.configuration, asked.model, selection=chosen, options=asked.options, where=where
    )
    size = None if detect is None else sample_size(data, detect, estimate, chosen.seed, max_cost)
    if as_json:
        print_json(estimate if size is None else {"forecast": estimate, "sample_size": size})
        return
    if size:
        show_sample_size(size)
    show_run(estimate, runs=repeat)


def _answer_and_show(
    asked: "RunRequest", repeat: int, where: "Folders", places: shared.Places, *, as_json: bool
) -> None:
    from longmemeval.benchmarks.specs import benchmark_of
    from longmemeval.pipeline.run import run as pipeline
    from longmemeval.pipeline.run.repeats import run_repeats

    data, configuration, model = asked.dataset, asked.configuration, asked.model
    if repeat > 1:
        reports = run_repeats(
            data, configuration, model, repeat, selection=asked.selection, options=asked.options, where=where
        )
    else:
        reports = [
            pipeline.run(data, configuration, model, selection=asked.selection, options=asked.options, where=where)
        ]
    if as_json:
        print_json(reports[0] if repeat == 1 else {"runs": reports})
    else:
        for report in reports:
            show(report)
        elsewhere = asked.options.model_options.api_base is not None
        out.next(_next(reports, model, benchmark_of(data), places, elsewhere=elsewhere))
    if any(report.answered < report.questions for report in reports):
        raise typer.Exit(1)


def _tell(line: str) -> None:
    err.print(printable(line))


def _next(
    reports: "list[RunReport]", model: str, benchmark: "Benchmark", places: shared.Places, *, elsewhere: bool
) -> str:
    """Return the command that goes on: the same for questions without an answer, else the judge's."""
    first = reports[0].run_id
    if any(report.answered < report.questions for report in reports):
        return next_step.resume(first) if len(reports) == 1 else next_step.repeat_again(first)
    named = first if len(reports) == 1 else f"{first.rpartition('-r')[0]}-r*"
    return next_step.grade(named, benchmark, model, places, elsewhere=elsewhere)


def show(report: "RunReport") -> None:
    """Print what the run did."""
    from longmemeval.report.tables.cells import usage_line

    done = f"{report.answered:,} of {count_of(report.questions, 'question')} answered"
    missing = report.questions - report.answered
    if report.newly_answered or missing:
        out.print(f"Run {report.run_id}: {done} in {report.seconds:.1f} s ({report.newly_answered} now)")
    else:
        out.print(f"Run {report.run_id} is finished already: {done}")
    out.print(f"Model use: {usage_line(report.usage)}")
    if report.shortened:
        shortened = count_of(report.shortened, "context")
        out.print(f"Shortened to fit the model's context window: {shortened} (see the notes in answers.jsonl)")
    if report.cut:
        out.print(f"Cut off at --max-tokens (finish reason: length): {count_of(report.cut, 'answer')}")
    if report.load:
        err.print(f"Note: {report.load}.")
    if report.failed:
        err.print(f"{count_of(report.failed, 'question')} failed:")
        for line in report.errors:
            err.print(f"  {printable(line)}")
    if report.empty:
        more = f" and {len(report.empty) - 10} more" if len(report.empty) > 10 else ""
        named = ", ".join(report.empty[:10])
        err.print(printable(f"Nothing but empty replies: {count_of(len(report.empty), 'question')}: {named}{more}"))
