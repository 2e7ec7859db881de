"""Working memory: a document per resource that an updater maintains while sessions are ingested, oldest first."""

from longmemeval.memory.working_memory.document import (
    WorkingMemoryUpdate,
    WorkingMemoryUpdater,
    build_working_memory,
    load_template,
)
from longmemeval.memory.working_memory.part import chat_updater
from longmemeval.memory.working_memory.rules import rules_updater

__all__ = [
    "WorkingMemoryUpdate",
    "WorkingMemoryUpdater",
    "build_working_memory",
    "chat_updater",
    "load_template",
    "rules_updater",
]
