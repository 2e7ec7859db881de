"""Options of grading."""

from collections.abc import Callable
from typing import Annotated

from longmemeval.core.arguments import Options
from longmemeval.core.defaults import CONCURRENCY
from longmemeval.core.options import OUTPUT, WHAT, Flag, Group
from longmemeval.llm.options import Concurrency, MaxCost, ModelOptions, Votes
from longmemeval.pipeline.batches.options import BatchOptions


class EvaluateOptions(Options, frozen=True):
    """Options of grading."""

    judge: str | None = None
    """A judge's spec (`benchmarks/registry.py`), or the id of one that has graded this run, whose labels are then
    scored without asking it; None: the benchmark's own."""
    votes: Votes = 1
    """The number of times a chat model is asked about each answer; the majority is the label."""
    rejudge: Annotated[bool, Flag(OUTPUT)] = False
    """Judge everything again, into a new file."""
    model_options: Annotated[ModelOptions, Group()] = ModelOptions()
    concurrency: Concurrency = CONCURRENCY
    batch: BatchOptions | None = None
    """Ask through the provider's batch endpoints; None: directly."""
    spending: MaxCost = None
    """The most that judging this run may cost, all judges and all starts together; None: no limit."""
    dataset: Annotated[
        str | None, Flag(WHAT, "DATA", "Data set of --hypotheses, or a run's if it moved.", name="--dataset -d")
    ] = None
    """The location of the gold if the run's data set has moved: a catalogue name or a file."""
    tell: Callable[[str], None] | None = None
    """Receives notes before the first call, such as labels that exist and cannot be used."""
