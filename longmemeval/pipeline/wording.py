"""How stored messages and questions are put to the embedder."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import msgspec
from msgspec import Struct

from longmemeval.errors import HarnessError, nearest
from longmemeval.records import Message

EmbeddedText = Literal["content", "speaker", "dated", "neighbours"]


class Wording(Struct, frozen=True):
    """What is embedded of a message and of a question; part of the recipe of vectors."""

    text: EmbeddedText = "content"
    """`content`: what was said; `speaker`: who said it in front; `dated`: the day of the session in front;
    `neighbours`: between the turns before and after it in its session."""
    query_prefix: str = ""
    """Put before a question, for models that want one ("query: ")."""
    document_prefix: str = ""
    """Put before what is stored."""

    @property
    def prefixes(self) -> dict[str, str]:
        """The prefixes that are set; recipes name no others."""
        both = {"query_prefix": self.query_prefix, "document_prefix": self.document_prefix}
        return {name: prefix for name, prefix in both.items() if prefix}

    def check(self) -> None:
        """Refuse a kind of text that there is not.

        Raises:
            HarnessError: with the nearest name.
        """
        kinds = get_args(EmbeddedText)
        if self.text not in kinds:
            raise HarnessError(f"Nothing embeds '{self.text}' of a message", fix=nearest(self.text, kinds))

    def documents(self, messages: Sequence[Message]) -> list[tuple[Message, str]]:
        """The messages of one history that get a vector, all but blank ones, each with the text that is embedded."""
        return [
            (message, self.document_prefix + self._text(messages, place))
            for place, message in enumerate(messages)
            if message.content.strip()
        ]

    def _text(self, messages: Sequence[Message], place: int) -> str:
        message = messages[place]
        match self.text:
            case "content":
                return message.content
            case "speaker":
                return f"{message.speaker or message.role}: {message.content}"
            case "dated":
                return f"{message.created_at.date().isoformat()}: {message.content}"
            case "neighbours":
                around = messages[max(0, place - 1) : place + 2]
                return "\n".join(
                    one.content for one in around if one.thread_id == message.thread_id and one.content.strip()
                )


def wording_of(recipe: Mapping[str, Any]) -> Wording:
    """The wording that the recipe of a part of vectors tells."""
    return msgspec.convert(recipe, Wording)
