"""The part `working-memory`: the document about a person that is kept while sessions are ingested."""

from typing import Any

import msgspec
from msgspec import Struct

from longmemeval.core.part_options import PartOptions
from longmemeval.llm.tokens import CharacterCounter
from longmemeval.memory.working_memory.build import WorkingMemoryUpdater, build_working_memory
from longmemeval.memory.working_memory.chat import MAX_TOKENS, chat_updater
from longmemeval.memory.working_memory.document import load_template
from longmemeval.memory.working_memory.rules import rules_updater
from longmemeval.storage.format import FORMAT, decode_versioned
from longmemeval.storage.parts import Expected, Part, PartInput, PartOutput, PartTools, Stored

_SHARE, _TEMPLATE_BYTES = 0.03, 800
"""The size of the document as a share of a haystack's characters, and the bytes of an empty one."""

# The document is shown with every session; 500 tokens are a usual size. A reply of edits has about 150.
_DOCUMENT_TOKENS, _REPLY_TOKENS = 1000, 150


class _File(Struct, frozen=True):
    format: int
    document: str


class DocumentPart(Part[str]):
    """The document, markdown."""

    name = "working-memory"
    calls_models = True

    def models(self, options: PartOptions) -> tuple[str, ...]:
        """Return the chat model that writes the document, unless rules do."""
        return () if options.working_memory_model == "rules" else (options.working_memory_model,)

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

    def expected(self, source: PartInput, options: PartOptions) -> Expected | None:
        """Estimate the calls: one for each session."""
        if not self.models(options):
            return None
        sessions = len(source.haystack.sessions)
        tokens = sum(CharacterCounter().count(message.content) for message in source.messages)
        return Expected(
            "working memory",
            options.working_memory_model,
            calls=sessions,
            prompt_tokens=tokens + _DOCUMENT_TOKENS * sessions,
            completion_tokens=_REPLY_TOKENS * sessions,
            most_completion_tokens=MAX_TOKENS * sessions,
            figures={"sessions for the working-memory model": sessions, "tokens of those sessions": tokens},
        )

    def size(self, source: PartInput, options: PartOptions, dimension: int) -> float:
        """Estimate the size: the template and a share of the history."""
        return _SHARE * source.characters + _TEMPLATE_BYTES

    def flags(self, stored: Stored | None) -> dict[str, str]:
        """Return the chat model that writes the document as an option, if one does."""
        recipe = stored.info.recipe if stored and stored.info else {}
        return {"working_memory_model": str(recipe["model"])} if "model" in recipe else {}

    def shown(self, stored: Stored) -> str:
        """Return the document."""
        return stored.part(self)

    def _updater(self, tools: PartTools) -> WorkingMemoryUpdater:
        template: str | None = load_template(tools.options.working_memory_template)
        model = tools.options.working_memory_model
        return rules_updater(template) if model == "rules" else chat_updater(tools.chat_model(model), template)


DOCUMENT = DocumentPart()
