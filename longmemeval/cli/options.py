"""Options that verbs share: groups, panels of `--help`, completion."""

import inspect
import typing
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from types import GenericAlias
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer
from msgspec import NODEFAULT
from typer.models import ParameterInfo

from longmemeval.cli.output import err, reserve_output, warn_omitted
from longmemeval.cli.panels import Verb, show_all
from longmemeval.core.options import (
    ADVANCED,
    LIMITS,
    MODEL,
    OUTPUT,
    WHAT,
    Flag,
    Group,
    Option,
    groups_of,
    is_settings,
    options_of,
    words_of,
)
from longmemeval.errors import HarnessError
from longmemeval.pipeline.options import BatchOptions

if TYPE_CHECKING:
    from longmemeval.llm.options import ModelOptions
    from longmemeval.llm.rates import LimitsFile, RateLimits
    from longmemeval.settings import Folders

__path__: list[str] = []
"""Names of version 0.2 below this one are found (`core/moved.py`)."""


# Options that several verbs share and that only a command line has; `groups.add_verb` spreads them over a verb.


def dataset_option(help: str) -> Flag:
    """Return the option --dataset of a verb, with the verb's own help."""
    return Flag(WHAT, "DATA", help, name="--dataset -d")


def memory_option(help: str) -> Flag:
    """Return the option --memory of a verb, with the verb's own help."""
    return Flag(WHAT, "MEMORY", help, name="--memory -m --memory-config")


DatasetName = Annotated[str, dataset_option("Dataset: a catalogue name or a file.")]
Memories = Annotated[list[str], memory_option("Preset, product, module:Class, process:COMMAND, URL, YAML.")]
PartsOf = Annotated[list[str] | None, memory_option("Unregistered memory whose parts to check; repeatable.")]
DataDir = Annotated[
    Path | None, Flag(metavar="DIR", help="Folder of datasets [env: LONGMEMEVAL_DATA_DIR; default: data].")
]
Sweep = Annotated[str | None, Flag(WHAT, "SWEEP", "Sweep whose runs to use.")]
Json = Annotated[bool, Flag(OUTPUT, help="Print one JSON document.", name="--json")]
DryRun = Annotated[bool, Flag(OUTPUT, help="Estimate calls and cost without running anything.")]


@dataclass(frozen=True, kw_only=True)
class Runs:
    """Runs by name, by pattern or by sweep."""

    run_ids: Annotated[list[str] | None, Flag(metavar="RUN", argument=True)] = None
    """Run ids, or patterns such as 'demo-*'."""
    sweep: Sweep = None

    def named(self, folders: "Folders", *, rankings: bool = False) -> list[str]:
        """Return the ids; patterns and sweeps leave out runs of `retrieval` unless `rankings`."""
        from longmemeval.results.listing import named_runs

        if not self.run_ids and self.sweep is None:
            raise typer.BadParameter("name a RUN, a pattern such as 'demo-*', or --sweep NAME")
        ids, results_dir = self.run_ids or (), folders.results_dir
        return named_runs(ids, results_dir, sweep=self.sweep, rankings=rankings, tell=warn_omitted)

    def compared(self, folders: "Folders", baseline: str | None = None, *, or_newest: bool = False) -> list[str]:
        """Return the ids to compare, the baseline first (the rule is in `results/compared.py`).

        Args:
            baseline: id of the requested baseline, which need not be among the named runs.
            or_newest: if no run is named, take the newest graded run and those like it.
        """
        from longmemeval.results.compared import baseline_first, in_order_named, newest_alike
        from longmemeval.results.listing import is_pattern

        if or_newest and not self.run_ids and self.sweep is None and (ids := newest_alike(folders.results_dir)):
            err.print("No runs given; comparing the newest graded run with all runs on the same questions and judge.")
        else:
            ids = self.named(folders)
        if baseline is None and self.run_ids and not is_pattern(self.run_ids[0]):
            return in_order_named(ids, folders.results_dir)
        return baseline_first(ids, folders.results_dir, baseline)


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """Parameters of memory configurations."""

    settings: Annotated[list[str] | None, Flag(WHAT, "KEY=VALUE", name="--set")] = None
    """Parameter of the memory; repeatable."""
    reranker: Annotated[str | None, Flag(metavar="SPEC")] = None
    """Short for --set reranker=SPEC."""
    budget: Annotated[int | None, Flag(LIMITS, "TOKENS")] = None
    """Maximum tokens to recall per question."""

    def overrides(self) -> list[str]:
        """Return all of them as `key=value`."""
        from longmemeval.memory.configuration import given_parameters

        return [*(self.settings or []), *given_parameters(reranker=self.reranker, budget=self.budget)]


@dataclass(frozen=True, kw_only=True)
class Rates:
    """Limits on the requests and tokens that are sent per minute."""

    rpm: Annotated[float | None, Flag(metavar="N", minimum=0.01)] = None
    """Maximum requests per minute and model.

    It holds for all commands with the same fixtures together.
    """
    tpm: Annotated[float | None, Flag(metavar="N", minimum=1)] = None
    """Maximum tokens per minute and model, prompts and replies."""
    limits: Annotated[Path | None, Flag(metavar="FILE")] = None
    """YAML file of rate limits; see docs/rate-limits.md.

    Requests and tokens per minute by model, and concurrency by stage.
    """

    def rates(self, folders: "Folders") -> "RateLimits":
        """Return the limits, which commands with the same fixtures share."""
        from longmemeval.llm.rates import rate_limits

        return rate_limits(self.file, rpm=self.rpm, tpm=self.tpm, folder=folders.cache_dir / "rates")

    def on(self, options: "ModelOptions", folders: "Folders") -> "ModelOptions":
        """Return the options of model calls with these limits."""
        from msgspec.structs import replace

        return replace(options, rates=self.rates(folders))

    @property
    def file(self) -> "LimitsFile":
        """The content of --limits; empty if it is not given."""
        from longmemeval.llm.rates import LimitsFile, read_limits

        return read_limits(self.limits) if self.limits else LimitsFile()


@dataclass(frozen=True, kw_only=True)
class PreparedPlaces:
    """The folders of datasets and fixtures."""

    data_dir: DataDir = None
    prepared_dir: Annotated[str | None, Flag(metavar="DIR")] = None
    """Folder of fixtures, or an s3://, gs:// or az:// address [env: LONGMEMEVAL_PREPARED_DIR; default:
    prepared-data]."""

    def words(self) -> list[str]:
        """Return the options that were given, as words of a command line."""
        return words_of(self)

    def folders(self) -> "Folders":
        """Return the folders these options name."""
        from longmemeval.settings import folders

        return folders(self.data_dir, self.prepared_dir)


@dataclass(frozen=True, kw_only=True)
class Places(PreparedPlaces):
    """The folders of datasets, fixtures and runs."""

    results_dir: Annotated[Path | None, Flag(metavar="DIR")] = None
    """Folder of runs [env: LONGMEMEVAL_RESULTS_DIR; default: results]."""

    def folders(self) -> "Folders":
        """Return the folders these options name."""
        from longmemeval.settings import folders

        return folders(self.data_dir, self.prepared_dir, self.results_dir)


# Complete datasets, presets, judges, runs and sweeps in the shell, without the network.


def complete_dataset(incomplete: str) -> list[str]:
    """Return names of the catalogue; the shell itself completes files."""
    from longmemeval.benchmarks.catalogue import catalogue

    return [name for name in catalogue() if name.startswith(incomplete)]


def complete_memory(incomplete: str) -> list[str]:
    """Return names of presets, including those of plugins."""
    from longmemeval.memory.configuration import MEMORIES

    return [name for name in MEMORIES.names() if name.startswith(incomplete)]


def complete_judge(incomplete: str) -> list[str]:
    """Return the judges that need no model."""
    from longmemeval.judges.definition import rule_names

    return [name for name in rule_names() if name.startswith(incomplete)]


def complete_sweep(incomplete: str) -> list[str]:
    """Return the sweeps that have runs in the results folder of the environment."""
    from longmemeval.results.listing import sweep_names
    from longmemeval.settings import Folders

    return [name for name in sweep_names(Folders().results_dir) if name.startswith(incomplete)]


def complete_run(incomplete: str) -> list[str]:
    """Return the runs in the results folder of the environment, newest first."""
    from longmemeval.results.manifest import runs_by_change
    from longmemeval.settings import Folders

    return [name for name in runs_by_change(Folders().results_dir) if name.startswith(incomplete)]


COMPLETIONS: dict[str, Callable[[str], list[str]]] = {
    "DATA": complete_dataset,
    "MEMORY": complete_memory,
    "JUDGE": complete_judge,
    "RUN": complete_run,
    "RUN|FILE": complete_run,
    "SWEEP": complete_sweep,
}
"""Functions that complete a value, by the value's name in the help."""


# Options of verbs: parameters and classes of settings become options, and the settings are put together again.

_ANNOTATED: Any = typing.__dict__["Annotated"]
"""`Annotated` for types that are known only at run time."""


class _Settings(NamedTuple):
    """A class of settings, some of whose fields are options."""

    group: type
    only: Collection[str] = ()

    def parameters(self) -> Iterator[inspect.Parameter]:
        """Yield a parameter for each option."""
        for option in options_of(self.group, self.only):
            yield _parameter(option)
        for _, settings in self._groups():
            yield from settings.parameters()

    def build(self, arguments: dict[str, object]) -> object:
        """Return the settings, taking their values out of the arguments of the command line."""
        values = {option.field: option.value(arguments.pop(option.key)) for option in options_of(self.group, self.only)}
        return self.group(**values | {field: settings.build(arguments) for field, settings in self._groups()})

    def _groups(self) -> "Iterator[tuple[str, _Settings]]":
        for field, group, only in groups_of(self.group):
            if not self.only or field in self.only:
                yield field, _Settings(group, only)


def add_verb(app: typer.Typer, name: str, verb: Callable[..., None], *, example: str, all_options: bool = True) -> None:
    """Add a verb whose settings are spread out into options.

    Args:
        verb: a function of arguments, options and classes of settings.
        example: one command line, shown under the help.
        all_options: True if `--help-all` explains the advanced options, if there are any.
    """
    app.command(name, cls=Verb, epilog=example)(spread(verb, all_options=all_options))


def spread(verb: Callable[..., None], *, all_options: bool = False) -> Callable[..., None]:
    """Return the verb with every parameter that is a class of settings replaced by the options in it.

    Args:
        verb: a function of arguments, options (see `core.options.Flag`) and instances of classes that have options.
        all_options: True if `--help-all` is added, if there are advanced options.
    """
    parameters: list[inspect.Parameter] = []
    single: dict[str, Option] = {}
    groups: dict[str, _Settings] = {}
    for parameter in inspect.signature(verb, eval_str=True).parameters.values():
        hint, *marks = typing.get_args(parameter.annotation) or [parameter.annotation]
        mark = next((mark for mark in marks if isinstance(mark, Flag | Group)), None)
        if isinstance(mark, Flag):
            option = Option(parameter.name, hint, parameter.default, mark, mark.help)
            single[parameter.name] = option
            parameters.append(_parameter(option, parameter.name))
        elif isinstance(mark, Group) or is_settings(hint):
            groups[parameter.name] = _Settings(hint, mark.only if mark else ())
            parameters += groups[parameter.name].parameters()
        else:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
    marks = [
        mark
        for keyword in parameters
        for mark in typing.get_args(keyword.annotation)
        if isinstance(mark, ParameterInfo)
    ]
    if all_options and any(mark.rich_help_panel == ADVANCED and not mark.hidden for mark in marks):
        parameters.append(_HELP_ALL)

    @wraps(verb)
    def flat(**arguments: object) -> None:
        arguments.pop(_HELP_ALL.name, None)
        whole = {name: settings.build(arguments) for name, settings in groups.items()}
        arguments |= {name: option.value(arguments[name]) for name, option in single.items()}
        reserve_output()
        verb(**arguments, **whole)

    flat.__dict__["__signature__"] = inspect.Signature(parameters)
    flat.__annotations__ = {keyword.name: keyword.annotation for keyword in parameters}
    del flat.__dict__["__wrapped__"]
    return flat


def _parameter(option: Option, name: str = "") -> inspect.Parameter:
    """Return the parameter of an option, with `name` or the name of the option."""
    flag, hint, default = option.flag, option.type, option.default
    if flag.read:
        hint = flag.read | None
    elif option.is_list:
        hint, default = GenericAlias(list, typing.get_args(hint)[:1]) | None, None
    elif option.is_inverted:
        default = False
    completion = COMPLETIONS.get(flag.metavar or "")
    if flag.argument:
        parameter = typer.Argument(metavar=flag.metavar, help=option.help, autocompletion=completion)
    else:
        parameter = typer.Option(
            *option.names,
            metavar=flag.metavar,
            rich_help_panel=flag.panel,
            help=option.help,
            min=flag.minimum,
            max=flag.maximum,
            autocompletion=completion,
            show_default=flag.shown,
            hidden=flag.hidden,
        )
    return inspect.Parameter(
        name or option.key,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if default is NODEFAULT else default,
        annotation=_ANNOTATED[hint, parameter],
    )


_HELP_ALL = inspect.Parameter(
    "help_all",
    inspect.Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[
        bool,
        typer.Option(
            "--help-all", is_eager=True, callback=show_all, rich_help_panel=ADVANCED, help="Explain every option."
        ),
    ],
)


# Options of model calls by batch.


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Calls through a provider's batch endpoints."""

    batch: Annotated[bool, Flag(MODEL)] = False
    """Use the batch API: half the price, results within 24 h."""
    details: Annotated[BatchOptions, Group()]

    def options(self) -> BatchOptions | None:
        """Return the options for the pipeline; None: calls are sent directly."""
        if self.details.poll_s is not None and not self.batch:
            raise typer.BadParameter("--batch-poll needs --batch")
        return self.details if self.batch else None


# Options with the address of the cluster that does the work.

ClusterAddress = Annotated[
    str | None,
    Flag(
        metavar="ADDRESS",
        name="--address --scheduler",
        help="Dask scheduler (tcp://host:8786) or Ray head (host:6379) [default: LONGMEMEVAL_DASK_SCHEDULER or "
        "RAY_ADDRESS, else local workers].",
    ),
]


def executor_spec(executor: str | None, address: str | None) -> str | None:
    """Return the executor with its address, for the pipeline.

    Raises:
        HarnessError: an address is given, but no executor.
    """
    if address is None:
        return executor
    if executor is None:
        raise HarnessError("--address needs a cluster executor", fix="Add --executor dask or --executor ray")
    return f"{executor}@{address}"


# Options of a run that repeats another one.

_BESIDE = (
    *("like", "strict", "run_id", "resume", "dry_run", "as_json", "progress"),
    *("dataset", "embedder", "data_dir", "prepared_dir", "results_dir"),
    *("concurrency", "max_cost", "timeout", "max_attempts", "give_up_after", "rpm", "tpm", "limits"),
)
"""Options that may be combined with --like: folders, the id of the new run, and limits."""


@dataclass(frozen=True, kw_only=True)
class LikeAnother:
    """The run that provides all settings, if options do not."""

    like: Annotated[str | None, Flag(metavar="RUN")] = None
    """Run to repeat with all its settings: id or run.json path."""
    recipe: Annotated[str | None, Flag(hidden=True)] = None
    strict: Annotated[bool, Flag()] = False
    """Refuse to start if anything differs from the --like run."""

    def check(self, context: typer.Context) -> None:
        """Refuse options that --like determines, and without --like require them."""
        if self.recipe is not None:
            context.fail(
                "--recipe is now --like: give the run.json of the run, which holds everything that a recipe did"
            )
        options = {name: parameter.opts for parameter in context.command.params if (name := parameter.name)}
        if self.like is None:
            if self.strict:
                context.fail("--strict needs --like RUN")
            for name in ("dataset", "memory", "model"):
                if context.params[name] is None:
                    context.fail(f"Missing option {' / '.join(map(repr, options[name]))}.")
            return
        sources = {name: context.get_parameter_source(name) for name in options.keys() - set(_BESIDE)}
        conflicting = [options[name][0] for name, source in sources.items() if source and source.name == "COMMANDLINE"]
        if conflicting:
            named = ", ".join(sorted(conflicting))
            context.fail(f"{named} cannot be combined with --like: that run determines the settings")


# The option for the style of progress, which every long-running verb has.


@dataclass(frozen=True, kw_only=True)
class Shown:
    """The way progress is shown."""

    progress: Annotated[Literal["auto", "json", "off"], Flag(metavar="STYLE")] = "auto"
    """Progress style: auto, json (an event per line) or off.

    auto: a bar in a terminal, else a line a minute.
    """

    def apply(self) -> None:
        """Show progress in this style from now on."""
        from longmemeval.pipeline.progress import show_progress

        show_progress(self.progress)
