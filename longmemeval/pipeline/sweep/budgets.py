"""Give the memories of a sweep equal budgets of tokens, so that none wins by showing the model more."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from longmemeval.memory.configuration import MemoryConfiguration, chosen_parameters, configuration_of, definition_of
from longmemeval.pipeline.sweep.file import EQUAL_TOKENS

_BOUNDS = ("budget", "limit", "top_k")


def budgeted(
    configurations: Sequence[tuple[MemoryConfiguration, Collection[str]]], budget: object
) -> list[MemoryConfiguration]:
    """Return the configurations under each budget; those with a bound of their own, or that take none, as they are.

    Args:
        configurations: of the file, in its order, each with the parameters that its entry names.
        budget: the file's: one or several limits in tokens; None: `EQUAL_TOKENS` where several memories take one;
            False: none.
    """
    taking = [_takes_budget(one, named) for one, named in configurations]
    tokens = (budget if isinstance(budget, list) else [budget]) if budget else []
    if budget is None and sum(taking) > 1:
        tokens = [EQUAL_TOKENS]
    return [
        under
        for (one, _), takes in zip(configurations, taking, strict=True)
        for under in (_under(one, tokens, named=bool(budget)) if takes and tokens else [one])
    ]


def _under(one: MemoryConfiguration, tokens: Sequence[Any], *, named: bool) -> Iterator[MemoryConfiguration]:
    """Yield a configuration under each budget; its name tells the budget where the file names it."""
    for most in tokens:
        name = f"{one.name} budget={most}" if named else one.name
        yield configuration_of(one.preset, {**chosen_parameters(one), "budget": most}, name=name)


def _takes_budget(one: MemoryConfiguration, named: Collection[str]) -> bool:
    """Tell whether a memory has a budget and sets neither it nor another bound itself."""
    takes = "budget" in definition_of(one).parameters.model_fields
    return takes and not set(_BOUNDS) & {*named, *chosen_parameters(one)}
