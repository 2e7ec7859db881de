"""`longmemeval run`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from longmemeval.cli import options as shared
from longmemeval.cli.output import err, out, print_json, printable

if TYPE_CHECKING:
    from longmemeval.benchmarks.dataset_protocol import Benchmark
    from longmemeval.pipeline.answer.answering import RunReport


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("run")(run)


def run(
    dataset: shared.DatasetName,
    memory: Annotated[
        str, typer.Option("--memory", "--memory-config", "-m", help="A preset, module:Class or a YAML file.")
    ],
    model: Annotated[
        str,
        typer.Option(help="LiteLLM's spec (openai/gpt-4o), offline/extractive or offline/scripted:FILE."),
    ],
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="key=value for a parameter of the memory (listed in docs/parameters.md); repeat for several."
        ),
    ] = None,
    reranker: Annotated[str | None, typer.Option(help="Short for --set reranker=SPEC.")] = None,
    budget: Annotated[int | None, typer.Option(help="Short for --set budget=TOKENS: most tokens to recall.")] = None,
    query_model: Annotated[
        str | None,
        typer.Option(
            help="Who analyses the questions under decompose=model or time_range_by=model [default: --model]."
        ),
    ] = None,
    prepared: Annotated[str, typer.Option(help="Name of the preparation to read.")] = "default",
    embedder: Annotated[
        str | None, typer.Option(help="The fixtures' embedder under another name (a moved model folder).")
    ] = None,
    reading: Annotated[
        Literal["direct", "con", "con-separate", "short"] | None,
        typer.Option(
            help="direct; con: notes, then the answer, in one call; con-separate: one note call per session; short: a "
            "short phrase, as LoCoMo asks for [default: direct, under the official protocol short]."
        ),
    ] = None,
    protocol: Annotated[
        Literal["standard", "official"],
        typer.Option(
            help="official, for LoCoMo: date hints, and the two options of an adversarial question (order by --seed)."
        ),
    ] = "standard",
    abstain_below: Annotated[
        float | None,
        typer.Option(help="Answer that it is not known, without a call, where the best recall score is lower."),
    ] = None,
    repeat: Annotated[int, typer.Option(min=1, help="Make N runs of the same, <run id>-r1 to -rN.")] = 1,
    max_cost: shared.MaxCost = None,
    history_format: Annotated[
        Literal["nl", "json", "official-nl", "official-json"], typer.Option(help="How the history is written out.")
    ] = "nl",
    template: Annotated[
        Path | None,
        typer.Option(
            help="Your prompt, with {history} {question_date} {question}; .yaml or .json: the texts of LoCoMo's "
            "protocol (docs/grading.md)."
        ),
    ] = None,
    note_template: Annotated[Path | None, typer.Option(help="Your own note prompt for con-separate.")] = None,
    max_tokens: Annotated[int | None, typer.Option(min=1, help="Longest answer [default: 500, con 800].")] = None,
    on_overflow: Annotated[
        Literal["error", "drop-oldest", "drop-newest"],
        typer.Option(help="When a prompt exceeds the window: fail the question, or drop messages and say so."),
    ] = "error",
    window: Annotated[
        int | None,
        typer.Option("--context-window", min=1, help="Tokens the model takes [default: by LiteLLM's table]."),
    ] = None,
    run_id: Annotated[str | None, typer.Option(help="Name of the run; an unfinished one is continued.")] = None,
    resume: Annotated[str | None, typer.Option(help="Continue this run; refused if settings changed.")] = None,
    concurrency: shared.Concurrency = 8,
    timeout: shared.Timeout = 120.0,
    max_attempts: shared.MaxAttempts = 6,
    give_up_after: shared.GiveUpAfter = 120.0,
    api_base: shared.ApiBase = None,
    no_save_prompts: Annotated[bool, typer.Option("--no-save-prompts", help="Do not keep prompts.")] = False,
    limit: shared.Limit = None,
    sample: shared.Sample = None,
    seed: shared.Seed = 0,
    question_id: shared.QuestionIds = None,
    data_dir: shared.DataDir = None,
    prepared_dir: shared.PreparedDir = None,
    results_dir: shared.ResultsDir = None,
    as_json: shared.Json = False,
) -> None:
    """Answer the questions from prepared fixtures under one memory configuration."""
    from longmemeval.benchmarks.locomo.texts import FILE_ENDINGS, load_texts
    from longmemeval.benchmarks.registry import load_dataset
    from longmemeval.llm.options import ModelOptions
    from longmemeval.llm.registry import model_warning
    from longmemeval.memory.configuration import given_parameters, resolve_configuration
    from longmemeval.pipeline.answer import run as pipeline
    from longmemeval.pipeline.answer.repeats import run_repeats
    from longmemeval.reading.reader import reading_configuration
    from longmemeval.settings import folders
    from longmemeval.spending import SpendingLimit

    if run_id and resume and run_id != resume:
        raise typer.BadParameter("--run-id and --resume name different runs")
    if resume and repeat > 1:
        raise typer.BadParameter("--resume continues one run; with --repeat give --run-id again")
    where = folders(data_dir=data_dir, prepared_dir=prepared_dir, results_dir=results_dir)
    model_options = ModelOptions(
        api_base=api_base, timeout_s=timeout, max_attempts=max_attempts, give_up_after_s=give_up_after
    )
    if warning := model_warning(model, model_options):
        err.print(f"Note: {printable(warning)}.")
    data = load_dataset(dataset, where.data_dir)
    chosen = shared.selection(limit, sample, seed, question_id)
    configuration = resolve_configuration(
        memory, [*(settings or []), *given_parameters(reranker=reranker, budget=budget)]
    )
    method = reading or ("short" if protocol == "official" else "direct")
    texts = load_texts(template) if template and template.suffix in FILE_ENDINGS else None
    options = pipeline.RunOptions(
        reading=reading_configuration(
            method,
            history_format=history_format,
            template=None if texts else template,
            note_template=note_template,
            max_tokens=max_tokens,
            on_overflow=on_overflow,
            context_window=window,
            abstain_below=abstain_below,
        ),
        prepared=prepared,
        embedder=embedder,
        model_options=model_options,
        query_model=query_model,
        protocol=protocol,
        protocol_texts=texts,
        seed=seed,
        spending=None if max_cost is None else SpendingLimit(max_cost),
        concurrency=concurrency,
        run_id=resume or run_id,
        must_exist=resume is not None,
        save_prompts=not no_save_prompts,
        tell=lambda line: err.print(printable(line)),
    )
    if repeat > 1:
        reports = run_repeats(data, configuration, model, repeat, selection=chosen, options=options, where=where)
    else:
        reports = [pipeline.run(data, configuration, model, selection=chosen, options=options, where=where)]
    if as_json:
        print_json(reports[0] if repeat == 1 else {"runs": reports})
    else:
        for report in reports:
            show(report, _judge_option(model, data.benchmark))
    if any(report.answered < report.questions for report in reports):
        raise typer.Exit(1)


def _judge_option(model: str, benchmark: "Benchmark") -> str:
    """What `evaluate` needs to be told after an offline run, so that grading is offline too."""
    from longmemeval.evaluation.judges.lexical import LEXICAL_JUDGE
    from longmemeval.evaluation.registry import default_judge
    from longmemeval.llm.options import is_offline

    return f" --judge {LEXICAL_JUDGE}" if is_offline(model) and not is_offline(default_judge(benchmark)) else ""


def show(report: "RunReport", judge_option: str) -> None:
    """Print what the run did and what comes next."""
    from longmemeval.report.tables import usage_line

    done = f"{report.answered} of {report.questions} questions answered"
    missing = report.questions - report.answered
    if report.newly_answered or missing:
        out.print(f"Run {report.run_id}: {done} in {report.seconds:.1f} s ({report.newly_answered} now)")
    else:
        out.print(f"Run {report.run_id} is finished already: {done}")
    out.print(f"Model use: {usage_line(report.usage)}")
    if report.shortened:
        out.print(f"{report.shortened} contexts were shortened to fit the model's window (see notes in answers.jsonl)")
    if report.cut:
        out.print(f"{report.cut} answers were cut off at --max-tokens (finish reason: length)")
    if report.load:
        err.print(f"Note: {report.load}.")
    if report.failed:
        err.print(f"{report.failed} questions failed:")
        for line in report.errors:
            err.print(f"  {printable(line)}")
    if report.empty:
        more = f" and {len(report.empty) - 10} more" if len(report.empty) > 10 else ""
        named = ", ".join(report.empty[:10])
        err.print(printable(f"{len(report.empty)} of them got nothing but empty replies: {named}{more}"))
    if missing:
        out.print(f"Next: the same command with --resume {report.run_id} asks the {missing} questions again")
    else:
        out.print(f"Next: longmemeval evaluate {report.run_id}{judge_option}")
