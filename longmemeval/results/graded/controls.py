"""Controls: runs that are not memory systems, because they understand nothing or are given everything to be found."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from longmemeval.errors import HarnessError
from longmemeval.llm.offline import CONTROL_MODELS
from longmemeval.memory.configuration import MEMORIES
from longmemeval.memory.definition import Control, MemoryDefinition, is_service
from longmemeval.results.settings import ImportedSettings, RunSettings

R = TypeVar("R")
_CONTROLS = "longmemeval.memory.built_in."
"""The modules of this package that define controls."""


def control_of(settings: RunSettings) -> Control | None:
    """Return the kind of control of a run, by its answering model or memory; None if it is not known to be one."""
    if settings.model_name in CONTROL_MODELS:
        return "floor"
    memory = _memory_of(settings)
    return memory.control if memory else None


def is_full_history(settings: RunSettings) -> bool:
    """Return whether a reading model answered from every message: the run that a memory must beat."""
    memory = None if settings.model_name in CONTROL_MODELS else _memory_of(settings)
    return memory is not None and memory.recalls_everything


def _memory_of(settings: RunSettings) -> MemoryDefinition[Any] | None:
    """Return the definition of a run's memory; None if it cannot be that of a control, of which nothing is imported."""
    # The name of an imported memory is not one of ours.
    if settings.memory is None or isinstance(settings, ImportedSettings) or _is_under_test(settings.memory.preset):
        return None
    try:
        return MEMORIES.get(settings.memory.preset)
    except HarnessError:  # Its package is not installed.
        return None


def _is_under_test(preset: str) -> bool:
    """Return whether a preset is a service, a product, or an engine of this package, whose controls are `built_in`."""
    if is_service(preset) or preset.partition(":")[0] in MEMORIES.further:
        return True
    return not MEMORIES.built_in.get(preset, _CONTROLS).startswith(_CONTROLS)


def controls_last(runs: Sequence[R], control: Callable[[R], Control | None]) -> list[R]:
    """Return runs in the order shown: controls last, but the first stays first, since marks refer to it."""
    return [*runs[:1], *sorted(runs[1:], key=lambda run: control(run) is not None)]
