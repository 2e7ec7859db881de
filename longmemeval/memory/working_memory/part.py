"""The part `working-memory`: the document about a person that is kept while sessions are ingested."""

from typing import Any

import msgspec
from msgspec import Struct

from longmemeval.memory.working_memory.build import WorkingMemoryUpdater, build_working_memory
from longmemeval.memory.working_memory.chat import MAX_TOKENS, chat_updater
from longmemeval.memory.working_memory.document import load_template
from longmemeval.memory.working_memory.rules import rules_updater
from longmemeval.storage.part_files import FORMAT, decode_versioned
from longmemeval.storage.parts import ModelPart, PartInput, PartOutput, PartTools, Stored


class _File(Struct, frozen=True):
    format: int
    document: str


class DocumentPart(ModelPart[str]):
    """The document, markdown."""

    name = "working-memory"
    option = "working_memory_model"
    title = "working memory"
    figure_names = ("sessions for the working-memory model", "tokens of those sessions")
    # The document is shown with every session; 500 tokens are a usual size. A reply of edits has about 150.
    prompt_tokens, reply_tokens, most_reply_tokens = 1000, 150, MAX_TOKENS
    share, empty_bytes = 0.03, 800

    def recipe(self, tools: PartTools) -> dict[str, Any]:
        """Return the recipe of the updater: its template and versions."""
        return self._updater(tools).recipe

    def make(self, source: PartInput, tools: PartTools) -> PartOutput:
        """Add all sessions to one document, oldest first."""
        update = build_working_memory(source.haystack, self._updater(tools))
        file = msgspec.json.encode(_File(FORMAT, update.document))
        return PartOutput(msgspec.json.format(file, indent=2) + b"\n", notes=update.notes)

    def open(self, stored: Stored) -> str:
        """Return the document.

        Raises:
            FixtureError: the part is damaged.
        """
        return decode_versioned(stored.data(), _File, stored.where).document

    def shown(self, stored: Stored) -> str:
        """Return the document."""
        return stored.part(self)

    def _updater(self, tools: PartTools) -> WorkingMemoryUpdater:
        template: str | None = load_template(tools.options.working_memory_template)
        model = tools.options.working_memory_model
        return rules_updater(template) if model == "rules" else chat_updater(tools.chat_model(model), template)


DOCUMENT = DocumentPart()
