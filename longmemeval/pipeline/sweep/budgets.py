"""Give the memories of a sweep equal budgets of tokens, so that none wins by showing the model more."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from longmemeval.memory.configuration import MemoryConfiguration, chosen_parameters, configuration_of, definition_of
from longmemeval.pipeline.sweep.file import EQUAL_TOKENS

_BOUNDS = ("budget", "limit", "top_k")


def budgeted(
    configurations: Sequence[tuple[MemoryConfiguration, Collection[str]]], budget: object
) -> list[MemoryConfiguration]:
    """Return the configurations under each budget; those with a bound of their own, or without a budget, unchanged.

    Args:
        configurations: the file's configurations, in its order, each with the parameters that its entry names.
        budget: the file's budget: one or several limits in tokens; None: `EQUAL_TOKENS` if several memories have one;
            False: no budget.
    """
    taking = [_takes_budget(configuration, named) for configuration, named in configurations]
    tokens = (budget if isinstance(budget, list) else [budget]) if budget else []
    if budget is None and sum(taking) > 1:
        tokens = [EQUAL_TOKENS]
    return [
        under
        for (configuration, _), takes in zip(configurations, taking, strict=True)
        for under in (_with_budgets(configuration, tokens, named=bool(budget)) if takes and tokens else [configuration])
    ]


def _with_budgets(
    configuration: MemoryConfiguration, tokens: Sequence[Any], *, named: bool
) -> Iterator[MemoryConfiguration]:
    """Yield a configuration under each budget; its name includes the budget if the file gives one."""
    for most in tokens:
        name = f"{configuration.name} budget={most}" if named else configuration.name
        yield configuration_of(configuration.preset, {**chosen_parameters(configuration), "budget": most}, name=name)


def _takes_budget(configuration: MemoryConfiguration, named: Collection[str]) -> bool:
    """Return whether a memory has a budget and sets neither it nor another bound itself."""
    takes = "budget" in definition_of(configuration).parameters.model_fields
    return takes and not set(_BOUNDS) & {*named, *chosen_parameters(configuration)}
