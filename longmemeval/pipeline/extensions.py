"""All extension points together, for `plugins`."""

from collections.abc import Sequence
from typing import Any

from longmemeval.benchmarks.catalogue import BENCHMARK_SPECS
from longmemeval.core.executors.registry import EXECUTORS
from longmemeval.embedding.registry import EMBEDDERS
from longmemeval.judges.definition import JUDGE_DEFINITIONS
from longmemeval.memory.configuration import MEMORIES
from longmemeval.memory.engram.stores.kinds import STORES
from longmemeval.memory.products.known import all_adapters
from longmemeval.pipeline.claims.catalogue import CLAIM_FOLDERS
from longmemeval.plugins import MEMORY, Plugin, Registry, unreadable_packages

REGISTRIES: tuple[Registry[Any], ...] = (
    MEMORIES,
    BENCHMARK_SPECS,
    JUDGE_DEFINITIONS,
    EXECUTORS,
    EMBEDDERS,
    STORES,
    CLAIM_FOLDERS,
)
"""The registry of each extension point."""


def all_plugins(*, check_built_in: bool = False) -> list[Plugin]:
    """Return everything that is registered, and the packages whose entry points cannot be read.

    Args:
        check_built_in: True if the objects of this package are loaded too.
    """
    found = [plugin for registry in REGISTRIES for plugin in registry.plugins(check_built_in=check_built_in)]
    return found + unreadable_packages()


def remarks_on(plugins: Sequence[Plugin]) -> dict[tuple[str, str], str]:
    """Return remarks on memory products and on the stores among `plugins`, by group and name."""
    remarks = {(MEMORY, adapter.name): adapter.description.remark for adapter in all_adapters()}
    usable = [plugin.name for plugin in plugins if plugin.group == STORES.group and not plugin.problem]
    return remarks | {(STORES.group, name): STORES.get(name).remark for name in usable}
