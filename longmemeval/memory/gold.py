"""Access to the gold of a data set, for memories whose definition declares that they read it."""

from collections.abc import Callable

from longmemeval.dataset import Dataset
from longmemeval.memory.configuration import MemoryConfiguration, definition_of
from longmemeval.records import Gold


def gold_for(configuration: MemoryConfiguration, dataset: Dataset) -> Callable[[str], Gold] | None:
    """Return the function from a question's id to its gold, for the oracle; None for every other memory."""
    return dataset.gold if definition_of(configuration).reads_gold else None
