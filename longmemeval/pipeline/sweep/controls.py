"""Add the controls of `controls: true` to a sweep: baselines that are not memory systems, shown next to every one."""

from collections.abc import Iterator, Sequence

from longmemeval.llm.offline import LAST_SESSION, PARROT, REFUSE
from longmemeval.memory.configuration import MEMORIES, MemoryConfiguration, resolve_configuration


def control_pairs(
    memories: Sequence[MemoryConfiguration], models: Sequence[str]
) -> Iterator[tuple[MemoryConfiguration, str]]:
    """Yield memories and answering models of the controls that a sweep does not have yet.

    Args:
        memories: the sweep's memories; `offline/parrot` repeats the recall of the first that is not a control.
        models: specs of the sweep's answering models, each of which answers with every memory that is a control.
    """
    controls = [name for name in MEMORIES.built_in if MEMORIES.get(name).control]
    present = {configuration.name for configuration in memories}
    for spec in models:
        yield from ((resolve_configuration(name), spec) for name in controls if name not in present)
    floor = next(name for name in controls if MEMORIES.get(name).control == "floor")
    whole = next(name for name in controls if MEMORIES.get(name).recalls_everything)
    yield resolve_configuration(floor), REFUSE
    yield (
        next((configuration for configuration in memories if configuration.preset not in controls), memories[0]),
        PARROT,
    )
    yield resolve_configuration(whole), LAST_SESSION
