"""The part `working-memory`: the document about a person that is kept while sessions are ingested."""

from collections.abc import Sequence
from dataclasses import dataclass
from string import Template
from typing import Any

import msgspec
from msgspec import Struct

from longmemeval.core.event_loop import complete
from longmemeval.core.files import sha256_text
from longmemeval.core.text.quantities import weekday_of
from longmemeval.llm.json_reply import ask_for_list, mark_of, prompt_texts, recipe_of
from longmemeval.llm.protocol import ChatMessage, ChatModel
from longmemeval.memory.working_memory.document import (
    WorkingMemoryUpdate,
    WorkingMemoryUpdater,
    apply_edits,
    build_working_memory,
    iso_day,
    load_template,
    starting_document,
)
from longmemeval.memory.working_memory.rules import rules_updater
from longmemeval.records import Session, Turn, Usage
from longmemeval.storage.part_files import FORMAT, decode_versioned
from longmemeval.storage.parts import ModelPart, PartInput, PartOutput, PartTools, Stored

# The updater that asks a chat model for edits: one call per session, and one more if the reply is unreadable.

VERSION = 1
MAX_TOKENS = 1500


def chat_updater(model: ChatModel, template: str | None = None) -> WorkingMemoryUpdater:
    """Return the updater that asks `model` which edits a session calls for.

    The model sees the document and the session, never an id or a question, and never its own earlier replies. It
    cannot rewrite the document: edits that do not fit are skipped with a note. If a reply is unreadable, the model is
    asked once more. `update` runs an event loop of its own, so it must not be called inside a running one.

    Args:
        model: answers the calls; its errors pass through `update`.
        template: the initial document; None for the shipped one.

    Raises:
        HarnessError: the template is empty or has no `## ` section.
    """
    return _ChatUpdater(model, starting_document(template), prompt_texts(__package__, "system", "user", "repair"))


@dataclass(frozen=True)
class _ChatUpdater:
    model: ChatModel
    template: str
    prompts: dict[str, str]

    @property
    def recipe(self) -> dict[str, Any]:
        return {
            "updater": "chat",
            "version": VERSION,
            "template_sha256": sha256_text(self.template),
            **recipe_of(self.model, self.prompts, MAX_TOKENS),
        }

    def update(self, document: str, *sessions: Session) -> WorkingMemoryUpdate:
        return complete(self._update_all(document, sessions))

    async def _update_all(self, document: str, sessions: Sequence[Session]) -> WorkingMemoryUpdate:
        usage, notes = Usage(), list[str]()
        for session in sessions:
            update = await self._update(document or self.template, session)
            document, usage = update.document, usage + update.usage
            notes += update.notes
        return WorkingMemoryUpdate(document, usage, tuple(notes))

    async def _update(self, document: str, session: Session) -> WorkingMemoryUpdate:
        messages = (
            ChatMessage("system", self.prompts["system"]),
            ChatMessage("user", self._question(document, session)),
        )
        reply = await ask_for_list(self.model, messages, "edits", self.prompts["repair"], max_tokens=MAX_TOKENS)
        if reply.items is None:
            what = f"session not taken into working memory, two replies unreadable: {reply.problem}"
            return WorkingMemoryUpdate(document, reply.usage, (f"{iso_day(session.date)}: {what}",))
        edited, notes = apply_edits(document, reply.items, session)
        return WorkingMemoryUpdate(edited, reply.usage, notes)

    def _question(self, document: str, session: Session) -> str:
        transcript = "\n\n".join(_shown(turn) for turn in session.turns)
        return Template(self.prompts["user"]).substitute(
            date=f"{iso_day(session.date)} ({weekday_of(session.date)})",
            document=document.strip("\n"),
            session=transcript,
            mark=mark_of(f"{document}\n{transcript}"),
        )


def _shown(turn: Turn) -> str:
    who = f"{turn.speaker} ({turn.role})" if turn.speaker else turn.role
    picture = f"\n[shares a picture: {turn.caption}]" if turn.caption else ""
    return f"{who}: {turn.content}{picture}"


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
