"""The part `vector`: an index over the messages, with the text embedded for each."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from longmemeval.core.part_options import EmbeddedText, PartOptions
from longmemeval.errors import FixtureError
from longmemeval.records import Message
from longmemeval.storage.messages_part import MESSAGES
from longmemeval.storage.part_files import REMAKE
from longmemeval.storage.parts import PartInput, PartTools, Stored
from longmemeval.storage.vector_index import VectorIndex, VectorItem
from longmemeval.storage.vectors_part import VectorsPart


class MessageVectors(VectorsPart):
    """The messages that are not blank."""

    name = "vector"
    index_name = "messages"

    def entries(self, source: PartInput, options: PartOptions) -> tuple[list[VectorItem], list[str]]:
        """Return the messages with their texts to embed."""
        return message_entries(source.messages, options.embedded_text)

    def text_recipe(self, options: PartOptions) -> dict[str, Any]:
        """Return the kind of text embedded for a message."""
        return {"text": options.embedded_text}

    def recipe(self, tools: PartTools) -> dict[str, Any]:
        """Return embedder, texts and prefixes; the search method belongs to the graph's recipe."""
        return {key: value for key, value in super().recipe(tools).items() if key != "index"}

    def open(self, stored: Stored) -> VectorIndex:
        """Open the index.

        Raises:
            FixtureError: it is damaged, or contains a message that is not stored.
        """
        opened = super().open(stored)
        known = stored.part(MESSAGES).positions
        unknown = next((item.id for item in opened.rows()[0] if item.id not in known), None)
        if unknown is not None:
            what = f"The index contains message '{unknown}', which db.json does not"
            raise FixtureError(what, where=stored.where, fix=REMAKE)
        return opened

    def flags(self, stored: Stored | None) -> dict[str, str]:
        """Return the options, including the kind of text embedded for a message."""
        recipe: Mapping[str, Any] = stored.info.recipe if stored and stored.info else {}
        return super().flags(stored) | ({"embedded_text": str(recipe["text"])} if "text" in recipe else {})


VECTORS = MessageVectors()


def message_entries(messages: Sequence[Message], kind: EmbeddedText) -> tuple[list[VectorItem], list[str]]:
    """Return an item for each message that gets a vector, and the texts; see `embedded_texts`."""
    documents = list(embedded_texts(messages, kind))
    items = [VectorItem(message.message_id, message.thread_id, message.index) for message, _ in documents]
    return items, [text for _, text in documents]


def embedded_texts(messages: Sequence[Message], kind: EmbeddedText) -> Iterator[tuple[Message, str]]:
    """Iterate over the messages of one history that are not blank, with their texts to embed.

    Args:
        messages: all messages of the history, in order.
        kind: `content`: the message alone; `speaker`: preceded by the speaker; `dated`: preceded by the day of the
            session; `neighbours`: between the turns before and after it in its session.
    """
    for place, message in enumerate(messages):
        if message.content.strip():
            yield message, _text(messages, place, kind)


def _text(messages: Sequence[Message], place: int, kind: EmbeddedText) -> str:
    message = messages[place]
    match kind:
        case "content":
            return message.content
        case "speaker":
            return f"{message.speaker or message.role}: {message.content}"
        case "dated":
            return f"{message.created_at.date().isoformat()}: {message.content}"
        case "neighbours":
            around = messages[max(0, place - 1) : place + 2]
            near = (turn.content for turn in around if turn.thread_id == message.thread_id and turn.content.strip())
            return "\n".join(near)
