"""Options of checking a judge."""

from typing import Annotated

from longmemeval.core.arguments import Options
from longmemeval.core.defaults import CONCURRENCY
from longmemeval.core.options import Group
from longmemeval.llm.options import Concurrency, MaxCost, ModelOptions, Votes


class CheckOptions(Options, frozen=True):
    """Options of checking a judge."""

    votes: Votes = 1
    seed: int = 0
    """The seed of the plants."""
    model_options: Annotated[ModelOptions, Group()] = ModelOptions()
    concurrency: Concurrency = CONCURRENCY
    spending: MaxCost = None
