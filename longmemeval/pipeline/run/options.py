"""Options of answering that a command line can give."""

from typing import Annotated, Literal

from longmemeval.core.arguments import Options
from longmemeval.core.defaults import CONCURRENCY
from longmemeval.core.options import OUTPUT, WHAT, Flag, Group
from longmemeval.llm.options import Concurrency, MaxCost, ModelOptions, QueryModel

Protocol = Literal["standard", "official"]
Prepared = Annotated[str, Flag(WHAT, "NAME", "The preparation to read.")]
RunId = Annotated[str | None, Flag(OUTPUT, "RUN", "Name the run, or continue it if unfinished.")]


class AnsweringOptions(Options, frozen=True):
    """Options of answering that a command line can give."""

    prepared: Prepared = "default"
    """The name of the preparation to read."""
    model_options: Annotated[ModelOptions, Group()] = ModelOptions()
    concurrency: Concurrency = CONCURRENCY
    """Calls in flight at one time: for answers, and by default for analysing questions and for memories."""
    spending: MaxCost = None
    """The most that all calls of models and remote embedders may cost over all starts of the run; None: no limit."""
    query_model: QueryModel = None
    """The model that analyses questions for memories that use a chat model for it; None: the answering model."""
    embedder: Annotated[str | None, Flag(metavar="SPEC")] = None
    """The fixtures' embedder under another name, for instance a model folder that has moved.

    It must have the same fingerprint.
    """
    protocol: Annotated[Protocol, Flag(metavar="NAME")] = "standard"
    """official: the protocol of the benchmark's authors, if they have one; its random choices follow --seed."""
    save_prompts: Annotated[bool, Flag(name="--no-save-prompts", help="Do not store the prompts.")] = True
    """Store the prompts."""
    run_id: RunId = None
