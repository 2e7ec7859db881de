"""Options that several verbs share and that only a command line has; `groups.add_verb` spreads them over a verb."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from longmemeval.core.options import LIMITS, OUTPUT, WHAT, Flag, words_of

if TYPE_CHECKING:
    from longmemeval.llm.options import ModelOptions
    from longmemeval.llm.rates import LimitsFile, RateLimits
    from longmemeval.settings import Folders


def dataset_option(help: str) -> Flag:
    """Return the option --dataset of a verb, with the verb's own help."""
    return Flag(WHAT, "DATA", help, name="--dataset -d")


def memory_option(help: str) -> Flag:
    """Return the option --memory of a verb, with the verb's own help."""
    return Flag(WHAT, "MEMORY", help, name="--memory -m --memory-config")


DatasetName = Annotated[str, dataset_option("Data set: a catalogue name or a file.")]
Memories = Annotated[
    list[str], memory_option("A preset, product, module:Class, process:COMMAND, address or YAML file; repeatable.")
]
PartsOf = Annotated[
    list[str] | None, memory_option("A memory that is not registered, whose parts are checked too; repeatable.")
]
DataDir = Annotated[
    Path | None, Flag(metavar="DIR", help="Downloaded data sets [env: LONGMEMEVAL_DATA_DIR; default: data].")
]
Sweep = Annotated[str | None, Flag(WHAT, "SWEEP", "All runs of this sweep.")]
Json = Annotated[bool, Flag(OUTPUT, help="Print one JSON document.", name="--json")]
DryRun = Annotated[bool, Flag(OUTPUT, help="Show the calls and their cost; do nothing.")]


@dataclass(frozen=True, kw_only=True)
class Runs:
    """Runs by name, by pattern or by sweep."""

    run_ids: Annotated[list[str] | None, Flag(metavar="RUN", argument=True)] = None
    """Runs, or patterns such as 'demo-*'."""
    sweep: Sweep = None

    def named(self, folders: "Folders", *, rankings: bool = False) -> list[str]:
        """Return the ids; patterns and sweeps leave out runs of `retrieval` unless `rankings`."""
        from longmemeval.cli.output import warn_omitted
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
        from longmemeval.cli.output import err
        from longmemeval.results.compared import baseline_first, in_order_named, newest_alike
        from longmemeval.results.listing import is_pattern

        if or_newest and not self.run_ids and self.sweep is None and (ids := newest_alike(folders.results_dir)):
            err.print(
                "No run is named: taking the newest graded run and those with the same data, questions and judge."
            )
        else:
            ids = self.named(folders)
        if baseline is None and self.run_ids and not is_pattern(self.run_ids[0]):
            return in_order_named(ids, folders.results_dir)
        return baseline_first(ids, folders.results_dir, baseline)


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """Parameters of memory configurations."""

    settings: Annotated[list[str] | None, Flag(WHAT, "KEY=VALUE", name="--set")] = None
    """A parameter of the memory; repeatable."""
    reranker: Annotated[str | None, Flag(metavar="SPEC")] = None
    """Short for --set reranker=SPEC."""
    budget: Annotated[int | None, Flag(LIMITS, "TOKENS")] = None
    """Recall at most this many tokens."""

    def overrides(self) -> list[str]:
        """Return all of them as `key=value`."""
        from longmemeval.memory.configuration import given_parameters

        return [*(self.settings or []), *given_parameters(reranker=self.reranker, budget=self.budget)]


@dataclass(frozen=True, kw_only=True)
class Rates:
    """Limits on the requests and tokens that are sent per minute."""

    rpm: Annotated[float | None, Flag(metavar="N", minimum=0.01)] = None
    """Send each model at most N requests per minute, from all commands with the same fixtures together."""
    tpm: Annotated[float | None, Flag(metavar="N", minimum=1)] = None
    """Likewise N tokens, of prompts and replies."""
    limits: Annotated[Path | None, Flag(metavar="FILE")] = None
    """YAML with requests and tokens per minute by model, and concurrency by stage (docs/rate-limits.md)."""

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
    """The folders of data sets and fixtures."""

    data_dir: DataDir = None
    prepared_dir: Annotated[str | None, Flag(metavar="DIR")] = None
    """Fixtures: a folder, or s3://bucket/prefix, gs://…, az://… (extras s3, gcs, azure), of which up to
    LONGMEMEVAL_REMOTE_CACHE_GB (10) are kept in LONGMEMEVAL_REMOTE_CACHE_DIR (remote-cache)
    [env: LONGMEMEVAL_PREPARED_DIR; default: prepared-data]."""

    def words(self) -> list[str]:
        """Return the options that were given, as words of a command line."""
        return words_of(self)

    def folders(self) -> "Folders":
        """Return the folders these options name."""
        from longmemeval.settings import folders

        return folders(self.data_dir, self.prepared_dir)


@dataclass(frozen=True, kw_only=True)
class Places(PreparedPlaces):
    """The folders of data sets, fixtures and runs."""

    results_dir: Annotated[Path | None, Flag(metavar="DIR")] = None
    """Runs [env: LONGMEMEVAL_RESULTS_DIR; default: results]."""

    def folders(self) -> "Folders":
        """Return the folders these options name."""
        from longmemeval.settings import folders

        return folders(self.data_dir, self.prepared_dir, self.results_dir)
