"""Connect to a memory with `add`, and try adding to it and deleting from it."""

from collections.abc import Mapping

from longmemeval.benchmarks.lives.making import Life
from longmemeval.core.event_loop import complete
from longmemeval.llm.costs import SPENDING, Account
from longmemeval.llm.model_calls import CALLS
from longmemeval.llm.options import SpendingLimit
from longmemeval.llm.registry import ModelAccess
from longmemeval.memory.configuration import MemoryConfiguration
from longmemeval.memory.external.connect import connect
from longmemeval.memory.external.contract_check import service_part_of
from longmemeval.pipeline.options import PrepareOptions
from longmemeval.pipeline.probe.lifecycle import Lifecycle, WritableMemory, lifecycle
from longmemeval.records import Haystack
from longmemeval.settings import Folders


def lifecycle_of(
    configuration: MemoryConfiguration,
    lives: Mapping[str, tuple[Haystack, Life]],
    *,
    options: PrepareOptions,
    spending: SpendingLimit | None,
    folders: Folders,
) -> Lifecycle:
    """Add lives to a memory, search for statements, and delete some; unknown for a memory that makes its own parts.

    Args:
        lives: histories with their truth, by id.
        options: the models that the memory may call.
        spending: the most that these calls may cost.

    Raises:
        HarnessError: no model can be called any more.
    """
    part = service_part_of(configuration)
    if part is None:
        return Lifecycle()
    folder = (folders.data_dir / "probes" / part.name).absolute()
    # Every call of the memory is recorded there.
    folder.mkdir(parents=True, exist_ok=True)
    access = ModelAccess(
        chat_model=options.of_parts.memory_model,
        embedder=options.embedder,
        options=options.model_options.connection,
        cache_dir=folders.cache_dir.absolute(),
        account=Account(folder / SPENDING, spending),
    )
    service = connect(part.spec, keys=access.chat_model is None)
    memory = WritableMemory(
        service,
        part.given(),
        lambda scope: part.offered(scope, "prepare", access, folder / CALLS),
        str(folder),
    )
    try:
        return lifecycle(memory, lives)
    finally:
        complete(service.close())
