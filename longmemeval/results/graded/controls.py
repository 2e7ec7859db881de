"""Controls: runs that are no memory systems, because they understand nothing or have all that could be found."""

from collections.abc import Sequence

from longmemeval.errors import HarnessError
from longmemeval.llm.controls import CONTROL_MODELS
from longmemeval.memory.definition import MEMORIES, Control
from longmemeval.results.settings import ImportedSettings, RunSettings


def control_of(settings: RunSettings) -> Control | None:
    """What control a run is, by its answering model or its memory; None where it is none, or not known to be one."""
    if settings.model_name in CONTROL_MODELS:
        return "floor"
    if isinstance(settings, ImportedSettings):
        return None
    try:
        return MEMORIES.get(settings.memory.preset).control
    except HarnessError:  # Of a package that is not installed here.
        return None


def controls_last(controls: Sequence[Control | None]) -> list[int]:
    """The order in which runs are shown: controls after the others; the first stays first, marks refer to it."""
    return sorted(range(len(controls)), key=lambda place: place > 0 and controls[place] is not None)
