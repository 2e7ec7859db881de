"""The options of the verbs, which the command line, YAML, Python and manifests share."""

from collections.abc import Callable
from dataclasses import InitVar
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec.structs import replace
from pydantic import ConfigDict, Field, ModelWrapValidatorHandler, ValidationError, model_validator

from longmemeval.core.arguments import Options, check_fields
from longmemeval.core.defaults import CONCURRENCY
from longmemeval.core.executors.local import ExecutorName, Jobs
from longmemeval.core.options import OUTPUT, WHAT, Flag, Group
from longmemeval.core.part_options import CHAT_MODELS, PartOptions, refusal
from longmemeval.errors import HarnessError
from longmemeval.llm.options import (
    CONNECTION,
    GENERATION,
    Concurrency,
    MaxCost,
    ModelOptions,
    QueryModel,
    Votes,
    takes_options,
    with_options,
)
from longmemeval.measures.notation import Granularity, RetrievalProtocol

if TYPE_CHECKING:
    from longmemeval.llm.rates import RateLimits

# Options of `prepare`.


class PrepareOptions(PartOptions):
    """Options of `prepare`."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    name: Annotated[str, Flag(WHAT, "NAME", name="--prepared --name")] = "default"
    """Name of the preparation."""
    model_options: Annotated[ModelOptions, Group(("api_base", "give_up_after_s", "embed_batch", *GENERATION))] = (
        ModelOptions()
    )
    """The connection to chat models and embedders. Its fields are keywords here too: `PrepareOptions(api_base=…)`.

    Those that decide replies are for all chat models of the preparation, and recorded with their names (`of_parts`).
    """
    if TYPE_CHECKING:  # Keywords for `model_options` (`_checked`).
        api_base: InitVar[str | None] = None
        give_up_after_s: InitVar[float] = 0.0
        embed_batch: InitVar[int] = 0
        temperature: InitVar[float | None] = None
        top_p: InitVar[float | None] = None
        model_seed: InitVar[int | None] = None
        reasoning_effort: InitVar[str | None] = None
        reasoning_budget: InitVar[int | None] = None
        max_tokens: InitVar[int | None] = None
        model_option: InitVar[tuple[str, ...]] = ()
        rates: InitVar[RateLimits] = RateLimits()
    spending: MaxCost = None
    """The most that embeddings and chat models may cost over all starts of this preparation; None: no limit."""
    account_file: Path | None = None
    """The file that records the costs; None: next to the fixtures."""
    jobs: Jobs = None
    """Workers; None: one per core if there is enough work, as many as a memory service accepts, else none."""
    executor: ExecutorName = None
    """The executor of the workers; None: `processes`, if there are to be workers."""
    force: Annotated[bool, Flag()] = False
    """Remake parts that exist."""
    compress: Annotated[Literal["zstd"] | None, Flag()] = None
    """Compression of parts (extra `zstd`); hashes stay the same.

    `zstd` stores them as .json.zst, half the size or less.
    """
    dry_run: Annotated[bool, Flag(OUTPUT)] = False
    """Estimate the work and its cost without doing it."""
    measure: Annotated[int, Flag(metavar="N", minimum=0, shown=False)] = Field(default=0, ge=0)
    """Number of histories to prepare for a measured --dry-run.

    They stay prepared; what they took is scaled to the rest.
    """

    @model_validator(mode="wrap")
    @classmethod
    def _checked(cls, value: object, handler: ModelWrapValidatorHandler["PrepareOptions"]) -> "PrepareOptions":
        """Turn pydantic errors into `HarnessError`.

        Raises:
            HarnessError: there is no such option, or it does not accept this value.
        """
        try:
            options = handler(_with_connection(value))
        except ValidationError as error:
            known = [*cls.model_fields, *ModelOptions.__struct_fields__]
            raise refusal(error, known, "option of `prepare`") from error
        check_fields(options.model_options)
        return options

    def replaced(self, **changes: object) -> "PrepareOptions":
        """Return the options with some values replaced."""
        return PrepareOptions.model_validate(dict(self) | changes)

    @property
    def of_parts(self) -> PartOptions:
        """The options that decide the bytes of parts; paths are absolute, for workers in other folders.

        Raises:
            HarnessError: there is no chat model for what is to decide its replies, or an option of one is wrong.
        """
        values = {name: getattr(self, name) for name in PartOptions.model_fields}
        values |= {name: value.absolute() for name, value in values.items() if isinstance(value, Path)}
        named = {name: values[name] for name in CHAT_MODELS if values[name] not in (None, "rules")}
        called = {name: with_options(spec, self.model_options) for name, spec in named.items() if takes_options(spec)}
        if self.model_options.recorded and not called:
            raise HarnessError(
                f"No chat model is called, so {' and '.join(self.model_options.recorded)} would have no effect",
                fix=f"Name one with {' or '.join(f'--{name}'.replace('_', '-') for name in CHAT_MODELS)}",
            )
        return PartOptions.model_validate(values | called)


def _with_connection(values: object) -> object:
    """Return the values of `PrepareOptions` with the keywords of `ModelOptions` put into `model_options`."""
    if not isinstance(values, dict):
        return values
    given = {name: values[name] for name in ModelOptions.__struct_fields__ if name in values}
    rest = {name: value for name, value in values.items() if name not in given}
    connection = rest.get("model_options", ModelOptions())
    return rest | {"model_options": replace(connection, **given)} if isinstance(connection, ModelOptions) else rest


# Options of answering that a command line can give.

OF_ANSWERS = tuple(name for name in GENERATION if name != "max_tokens")
"""`ReadingOptions` has the limit of answers."""
Protocol = Literal["standard", "official"]
Prepared = Annotated[str, Flag(metavar="NAME", help="Name of the preparation to read.")]
RunId = Annotated[str | None, Flag(OUTPUT, "RUN", "Name of the run; an unfinished one continues.")]


class AnsweringOptions(Options, frozen=True):
    """Options of answering that a command line can give."""

    prepared: Prepared = "default"
    """The name of the preparation to read."""
    model_options: Annotated[ModelOptions, Group((*CONNECTION, "embed_batch", *OF_ANSWERS))] = ModelOptions()
    concurrency: Concurrency = CONCURRENCY
    """Calls in flight at one time: for answers, and by default for analysing questions and for memories."""
    spending: MaxCost = None
    """The most that all calls of models and remote embedders may cost over all starts of the run; None: no limit."""
    query_model: QueryModel = None
    """The model that analyses questions for memories that use a chat model for it; None: the answering model."""
    embedder: Annotated[str | None, Flag(metavar="SPEC")] = None
    """New name of the fixtures' embedder, such as a moved folder.

    It must have the same fingerprint.
    """
    protocol: Annotated[Protocol, Flag(metavar="NAME")] = "standard"
    """Answering protocol: standard, or official (the authors').

    The random choices of an official one follow --seed.
    """
    save_prompts: Annotated[bool, Flag(name="--no-save-prompts", help="Do not store the prompts.")] = True
    """Store the prompts."""
    run_id: RunId = None


# Options of a stage whose calls go by batch.


class BatchOptions(Options, frozen=True):
    """Options for calls through the provider's batch endpoint."""

    poll_s: Annotated[float | None, Flag(metavar="SECONDS", name="--batch-poll", minimum=1.0)] = None
    """Seconds between status checks of a batch [default: 5 s at first, growing to a minute]."""


# Options of grading.


class EvaluateOptions(Options, frozen=True):
    """Options of grading."""

    judge: str | None = None
    """A judge's spec (`benchmarks/registry.py`), or the id of one that has graded this run, whose labels are then
    scored without asking it; None: the benchmark's own."""
    votes: Votes = 1
    """The number of times a chat model is asked about each answer; the majority is the label."""
    rejudge: Annotated[bool, Flag(OUTPUT)] = False
    """Grade everything again, into a new file."""
    model_options: Annotated[ModelOptions, Group((*CONNECTION, *GENERATION))] = ModelOptions()
    concurrency: Concurrency = CONCURRENCY
    batch: BatchOptions | None = None
    """Ask through the provider's batch endpoints; None: directly."""
    spending: MaxCost = None
    """The most that judging this run may cost, all judges and all starts together; None: no limit."""
    dataset: Annotated[
        str | None, Flag(WHAT, "DATA", "Dataset of --hypotheses, or of a run if it has moved.", name="--dataset -d")
    ] = None
    """The location of the gold if the run's dataset has moved: a catalogue name or a file."""
    tell: Callable[[str], None] | None = None
    """Receives notes before the first call, such as labels that exist and cannot be used."""


# Options of checking a judge.


class CheckOptions(Options, frozen=True):
    """Options of checking a judge."""

    votes: Votes = 1
    seed: int = 0
    """The seed of the plants."""
    model_options: Annotated[ModelOptions, Group((*CONNECTION, *GENERATION))] = ModelOptions()
    concurrency: Concurrency = CONCURRENCY
    spending: MaxCost = None


# Options of `retrieval`.


class RetrievalOptions(Options, frozen=True):
    """Options of `retrieval`."""

    protocol: Annotated[RetrievalProtocol, Flag(WHAT, "NAME")] = "standard"
    """standard, or official (the benchmark authors').

    `standard` ranks from prepared fixtures.
    """
    granularity: Annotated[Granularity | None, Flag(WHAT, "UNIT")] = None
    """Ranked unit: session or turn [default: by protocol]."""
    measures: Annotated[tuple[str, ...], Flag(OUTPUT, "NAME", name="--measure")] = ()
    """Measure, such as recall_any@5; repeatable [default: the usual ones].

    See `chosen_measures`; official protocols have their own.
    """
    cutoffs: Annotated[tuple[int, ...], Flag(OUTPUT, "N", name="--k")] = ()
    """Cutoff for measures named without one; repeatable."""
    prepared: Prepared = "default"
    """The name of the preparation to read."""
    embedder: Annotated[str | None, Flag(metavar="SPEC")] = None
    """New name of the fixtures' embedder, such as a moved folder.

    Under --protocol official: the embedder of semantic-recall; by default hashing.
    """
    run_id: RunId = None
    """The id of the run, followed by `-<memory>` if there are several memories. A run that exists is continued."""
    log: Annotated[Path | None, Flag(metavar="FILE")] = None
    """File for the official log, with --protocol official."""
    expansion_cache: Annotated[Path | None, Flag(metavar="FILE")] = None
    """File of official expansions, with --protocol official [default: the preparation's]."""
    query_model: QueryModel = None
    """Chat model that analyses the questions, for memories that use one (`decompose=model`)."""
    model_options: Annotated[ModelOptions, Group(("api_base", "give_up_after_s", "embed_batch"))] = ModelOptions()
    """Connection options; a remote embedder is looked for at the same endpoint."""
    spending: MaxCost = None
    """The most that calls about questions and of a remote embedder may cost, all starts and memories together;
    None: no limit.
    """
    jobs: Jobs = None
    """Workers; None: one per core if there are enough haystacks, else none. An official protocol with a corpus of
    its own uses one.
    """
    executor: ExecutorName = None
    """The executor of the workers; None: `processes`, if there are to be workers."""
    twice: Annotated[bool, Flag(WHAT)] = False
    """Ask each question twice; report changes in recall."""
    tell: Callable[[str], None] | None = None
    """Receives notes before the first question is ranked."""
