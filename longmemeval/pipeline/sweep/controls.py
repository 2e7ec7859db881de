"""The controls that `controls: true` adds to a sweep: what no memory system is, but what every one is seen beside."""

from collections.abc import Iterator, Sequence

from longmemeval.llm.controls import LAST_SESSION, PARROT, REFUSE
from longmemeval.memory.configuration import MemoryConfiguration, resolve_configuration
from longmemeval.memory.definition import MEMORIES


def control_pairs(
    memories: Sequence[MemoryConfiguration], models: Sequence[str]
) -> Iterator[tuple[MemoryConfiguration, str]]:
    """Memories and answering models of the controls that a sweep does not have yet.

    Args:
        memories: of the sweep; `offline/parrot` repeats what the first of them recalls that is no
            control.
        models: specs of the sweep's answering models, each of which answers under every memory that is a control.
    """
    controls = [name for name in MEMORIES.built_in if MEMORIES.get(name).control]
    there = {configuration.name for configuration in memories}
    for spec in models:
        yield from ((resolve_configuration(name), spec) for name in controls if name not in there)
    floor = next(name for name in controls if MEMORIES.get(name).control == "floor")
    whole = next(name for name in controls if MEMORIES.get(name).recalls_everything)
    yield resolve_configuration(floor), REFUSE
    yield next((one for one in memories if one.preset not in controls), memories[0]), PARROT
    yield resolve_configuration(whole), LAST_SESSION
