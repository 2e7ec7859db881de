"""Options that several verbs share, in groups; `groups.add_verb` spreads them over a verb."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from longmemeval.cli.options.completion import (
    complete_dataset,
    complete_judge,
    complete_memory,
    complete_run,
    complete_sweep,
)
from longmemeval.cli.options.panels import ADVANCED, LIMITS, MODEL, OUTPUT, WHAT
from longmemeval.core.defaults import CONCURRENCY, GIVE_UP_AFTER_S, MAX_ATTEMPTS, TIMEOUT_S

if TYPE_CHECKING:
    from longmemeval.llm.costs.spending import SpendingLimit
    from longmemeval.llm.options import ModelOptions
    from longmemeval.llm.rates.file import LimitsFile
    from longmemeval.llm.rates.limits import RateLimits
    from longmemeval.results.selection import Selection
    from longmemeval.settings import Folders


def dataset_option(help: str) -> object:
    """--dataset of a verb, which says what it is for."""
    return typer.Option(
        "--dataset", "-d", metavar="DATA", autocompletion=complete_dataset, rich_help_panel=WHAT, help=help
    )


def memory_option(help: str) -> object:
    """--memory of a verb, which says what it is for."""
    return typer.Option(
        "--memory",
        "-m",
        "--memory-config",
        metavar="MEMORY",
        autocompletion=complete_memory,
        rich_help_panel=WHAT,
        help=help,
    )


DatasetName = Annotated[str, dataset_option("Data set: a catalogue name or a file.")]
MovedDataset = Annotated[
    str | None,
    typer.Option(
        "--dataset", "-d", metavar="DATA", rich_help_panel=ADVANCED, help="The run's data set, if it has moved."
    ),
]
Memories = Annotated[
    list[str], memory_option("A preset, product, module:Class, process:COMMAND, address or YAML file; repeatable.")
]
PartsOf = Annotated[
    list[str] | None, memory_option("A memory that is not registered, whose parts are checked too; repeatable.")
]
JudgeId = Annotated[
    str | None,
    typer.Option(
        "--judge",
        metavar="JUDGE",
        autocompletion=complete_judge,
        rich_help_panel=MODEL,
        help="Id, its beginning, or model [default: official, else newest].",
    ),
]
Sweep = Annotated[
    str | None,
    typer.Option(
        "--sweep",
        metavar="NAME",
        autocompletion=complete_sweep,
        rich_help_panel=WHAT,
        help="All runs of this sweep.",
    ),
]
Prepared = Annotated[
    str, typer.Option("--prepared", metavar="NAME", rich_help_panel=WHAT, help="The preparation to read.")
]
QueryModel = Annotated[
    str | None,
    typer.Option(
        "--query-model",
        metavar="MODEL",
        rich_help_panel=ADVANCED,
        help="Chat model that analyses the questions, under decompose=model or time_range_by=model.",
    ),
]
ApiBase = Annotated[
    str | None,
    typer.Option("--api-base", metavar="URL", rich_help_panel=MODEL, help="An OpenAI-compatible endpoint."),
]
MaxCost = Annotated[
    float | None,
    typer.Option(
        "--max-cost",
        min=0.0,
        metavar="USD",
        rich_help_panel=LIMITS,
        help="Spend at most this, including earlier attempts.",
    ),
]
GiveUpAfter = Annotated[
    float,
    typer.Option(
        "--give-up-after",
        min=0.1,
        metavar="SECONDS",
        rich_help_panel=ADVANCED,
        help="How long an endpoint may return nothing but failures (5 s where it was never reached). After that the "
        "command ends; finished work is kept.",
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        min=1,
        metavar="N",
        rich_help_panel=LIMITS,
        help="Workers [default: one per core when it pays].",
    ),
]
ExecutorName = Annotated[
    str | None,
    typer.Option(
        "--executor",
        metavar="NAME",
        rich_help_panel=ADVANCED,
        help="What runs the workers: processes, threads, dask, ray or another package's [default: processes when it "
        "pays].",
    ),
]
Json = Annotated[bool, typer.Option("--json", rich_help_panel=OUTPUT, help="Print one JSON document.")]


@dataclass(frozen=True, kw_only=True)
class Runs:
    """Runs by name, by pattern or by sweep."""

    run_ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="RUN", autocompletion=complete_run, help="Runs, or patterns such as 'demo-*'."),
    ] = None
    sweep: Sweep = None

    def named(self, where: "Folders", *, rankings: bool = False) -> list[str]:
        """Return the ids; patterns and sweeps leave out runs of `retrieval` unless `rankings`."""
        from longmemeval.cli.output import tell_omitted
        from longmemeval.results.listing import named_runs

        if not self.run_ids and self.sweep is None:
            raise typer.BadParameter("name a RUN, a pattern such as 'demo-*', or --sweep NAME")
        ids, results_dir = self.run_ids or (), where.results_dir
        return named_runs(ids, results_dir, sweep=self.sweep, rankings=rankings, tell=tell_omitted)


@dataclass(frozen=True, kw_only=True)
class Questions:
    """The questions to ask."""

    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", rich_help_panel=WHAT, help="Only the first N questions.")
    ] = None
    sample: Annotated[
        int | None,
        typer.Option("--sample", metavar="N", rich_help_panel=WHAT, help="Only N questions, stratified by type."),
    ] = None
    question_id: Annotated[
        list[str] | None,
        typer.Option("--question-id", metavar="ID", rich_help_panel=WHAT, help="Only this question; repeatable."),
    ] = None
    seed: Annotated[
        int,
        typer.Option(
            "--seed",
            metavar="N",
            rich_help_panel=ADVANCED,
            help="Seed of --sample. With one seed, a smaller sample is inside a larger one.",
        ),
    ] = 0
    shard: Annotated[
        str,
        typer.Option(
            "--shard",
            metavar="I/N",
            rich_help_panel=ADVANCED,
            help="Only the I-th of N shards of the questions, such as 3/8; `longmemeval merge` puts them together.",
            show_default=False,
        ),
    ] = ""

    def given(self) -> list[str]:
        """Return the options that were given, as words of a command line."""
        numbers = {"--limit": self.limit, "--sample": self.sample, "--seed": self.seed or None}
        words = [word for name, number in numbers.items() if number is not None for word in (name, str(number))]
        words += ["--shard", self.shard] if self.shard else []
        return words + [word for one in self.question_id or () for word in ("--question-id", one)]

    def selection(self) -> "Selection":
        """Return the selection these options name."""
        from longmemeval.results.selection import Selection

        return Selection(self.limit, self.sample, self.seed, tuple(self.question_id or ()), self.shard)


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """Parameters of memory configurations."""

    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            rich_help_panel=WHAT,
            help="A parameter of the memory; repeatable.",
        ),
    ] = None
    reranker: Annotated[
        str | None,
        typer.Option("--reranker", metavar="SPEC", rich_help_panel=ADVANCED, help="Short for --set reranker=SPEC."),
    ] = None
    budget: Annotated[
        int | None,
        typer.Option("--budget", metavar="TOKENS", rich_help_panel=LIMITS, help="Recall at most this many tokens."),
    ] = None

    def overrides(self) -> list[str]:
        """Return all of them as `key=value`."""
        from longmemeval.memory.configuration import given_parameters

        return [*(self.settings or []), *given_parameters(reranker=self.reranker, budget=self.budget)]


@dataclass(frozen=True, kw_only=True)
class Rates:
    """The requests and tokens that providers take a minute."""

    rpm: Annotated[
        float | None,
        typer.Option(
            "--rpm",
            min=0.01,
            metavar="N",
            rich_help_panel=ADVANCED,
            help="Send each model at most N requests per minute, from all commands with the same fixtures together.",
        ),
    ] = None
    tpm: Annotated[
        float | None,
        typer.Option(
            "--tpm", min=1, metavar="N", rich_help_panel=ADVANCED, help="Likewise tokens, of prompts and replies."
        ),
    ] = None
    limits: Annotated[
        Path | None,
        typer.Option(
            "--limits",
            metavar="FILE",
            rich_help_panel=ADVANCED,
            help="YAML with requests and tokens per minute by model, and concurrency by stage (docs/rate-limits.md).",
        ),
    ] = None

    def rates(self, where: "Folders") -> "RateLimits":
        """Return the limits, which commands with the same fixtures share."""
        from longmemeval.llm.rates.file import rate_limits

        return rate_limits(self.file, rpm=self.rpm, tpm=self.tpm, folder=where.cache_dir / "rates")

    @property
    def file(self) -> "LimitsFile":
        """The content of --limits; an empty one where none is given."""
        from longmemeval.llm.rates.file import LimitsFile, read_limits

        return read_limits(self.limits) if self.limits else LimitsFile()


@dataclass(frozen=True, kw_only=True)
class Calls(Rates):
    """The way chat models are called, and the limit on their cost."""

    api_base: ApiBase = None
    concurrency: Annotated[
        int,
        typer.Option("--concurrency", min=1, metavar="N", rich_help_panel=MODEL, help="Model calls in flight."),
    ] = CONCURRENCY
    max_cost: MaxCost = None
    timeout: Annotated[
        float,
        typer.Option(
            min=0.1, metavar="SECONDS", rich_help_panel=ADVANCED, help="Time limit for one attempt of a model call."
        ),
    ] = TIMEOUT_S
    max_attempts: Annotated[
        int,
        typer.Option(
            min=1, metavar="N", rich_help_panel=ADVANCED, help="Attempts per model call, including the first."
        ),
    ] = MAX_ATTEMPTS
    give_up_after: GiveUpAfter = GIVE_UP_AFTER_S

    def concurrency_by_stage(self) -> dict[str, int]:
        """Return the calls in flight by stage, as options of `run`."""
        stages, usual = self.file.concurrency, self.concurrency
        return {
            "concurrency": stages.answers or usual,
            "question_concurrency": stages.questions or usual,
            "memory_concurrency": stages.memory or usual,
        }

    def model_options(self, where: "Folders") -> "ModelOptions":
        """Return what chat models take."""
        from longmemeval.llm.options import ModelOptions

        return ModelOptions(
            api_base=self.api_base,
            timeout_s=self.timeout,
            max_attempts=self.max_attempts,
            give_up_after_s=self.give_up_after,
            rates=self.rates(where),
        )


def spending(max_cost: float | None) -> "SpendingLimit | None":
    """Return the limit that --max-cost sets."""
    from longmemeval.llm.costs.spending import SpendingLimit

    return None if max_cost is None else SpendingLimit(max_cost)


DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        metavar="DIR",
        rich_help_panel=ADVANCED,
        help="Downloaded data sets [env: LONGMEMEVAL_DATA_DIR; default: data].",
    ),
]


PreparedDir = Annotated[
    str | None,
    typer.Option(
        "--prepared-dir",
        metavar="DIR",
        rich_help_panel=ADVANCED,
        help="Fixtures: a folder, or s3://bucket/prefix, gs://…, az://… (extras s3, gcs, azure), of which up to "
        "LONGMEMEVAL_REMOTE_CACHE_GB (10) are kept in LONGMEMEVAL_REMOTE_CACHE_DIR (remote-cache) "
        "[env: LONGMEMEVAL_PREPARED_DIR; default: prepared-data].",
    ),
]
ResultsDir = Annotated[
    Path | None,
    typer.Option(
        "--results-dir",
        metavar="DIR",
        rich_help_panel=ADVANCED,
        help="Runs [env: LONGMEMEVAL_RESULTS_DIR; default: results].",
    ),
]


@dataclass(frozen=True, kw_only=True)
class PreparedPlaces:
    """The folders of data sets and fixtures."""

    data_dir: DataDir = None
    prepared_dir: PreparedDir = None

    def given(self) -> list[str]:
        """Return the options that were given, as words of a command line."""
        named = {field.name.replace("_", "-"): getattr(self, field.name) for field in fields(self)}
        return [word for name, path in named.items() if path is not None for word in (f"--{name}", str(path))]

    def folders(self) -> "Folders":
        """Return the folders these options name."""
        from longmemeval.settings import folders

        return folders(**{field.name: getattr(self, field.name) for field in fields(self)})


@dataclass(frozen=True, kw_only=True)
class Places(PreparedPlaces):
    """The folders of data sets, fixtures and runs."""

    results_dir: ResultsDir = None
