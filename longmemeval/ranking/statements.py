"""Statements of messages, without questions and pleasantries, and their vectors: `vector-statements.json`."""

import re
from collections.abc import Collection, Sequence
from typing import Any

from msgspec.structs import replace

from longmemeval.core.part_options import PartOptions
from longmemeval.ranking.history import speaker_names
from longmemeval.ranking.message_vectors import MessageVectors, message_entries
from longmemeval.ranking.word_counts import SENTENCE
from longmemeval.records import Message
from longmemeval.storage.parts import PartInput
from longmemeval.storage.vector_index import VectorItem

_RULES = 1
"""Increase when the rules of `stated` change."""

_WORD = re.compile(r"\w+(?:'\w+)?")
_PLEASANT = frozenset(
    _WORD.findall(
        """
        a absolutely again agree agreed ah all always am amazing an and appreciate awesome be beautiful been
        best bye care catch cheers congrats congratulations cool definitely did do done exactly exciting fantastic
        for forward fun glad go going good goodbye great had haha happy has have hear hello here hey hi hope
        how i i'm im impressive incredible inspiring interesting is it it's its job keep kind later lol long
        look looking looks lot love loved lovely luck me mean means miss missed much my nice no of oh ok
        okay on problem proud really right see share sharing so soon sound sounds support supporting sure
        take talk thank thanks that that's the there this time to too totally true up very was way welcome well
        what with wonderful words work worries wow yeah yep yes you you're you've your
        """
    )
)


def stated(text: str, names: Collection[str] = ()) -> str:
    """Return the sentences of `text` that are not questions and have words besides greetings, thanks and praise.

    Args:
        names: names of people who may be greeted or thanked, in lower case.
    """
    sentences = (sentence.strip() for sentence in SENTENCE.findall(text))
    return " ".join(text for text in sentences if not text.endswith("?") and not _is_pleasantry(text, names))


def _is_pleasantry(sentence: str, names: Collection[str]) -> bool:
    words = _WORD.findall(sentence.replace("\u2019", "'").casefold())
    return all(word in _PLEASANT or word.removesuffix("'s") in names for word in words)


def stated_texts(messages: Sequence[Message]) -> list[str]:
    """Return the statements of each message of one history; empty if it only asks, greets, thanks or praises."""
    names = {name.casefold() for name in speaker_names(message.speaker for message in messages)}
    return [stated(message.content, names) for message in messages]


class StatementVectors(MessageVectors):
    """Vectors of the statements of messages, without a graph; none for messages without statements."""

    name = "vector-statements"
    index_name = "statements"

    def entries(self, source: PartInput, options: PartOptions) -> tuple[list[VectorItem], list[str]]:
        """Return the messages that state something, and the texts to embed."""
        pairs = zip(source.messages, stated_texts(source.messages), strict=True)
        return message_entries([replace(message, content=text) for message, text in pairs], options.embedded_text)

    def text_recipe(self, options: PartOptions) -> dict[str, Any]:
        """Return the recipe's entries about the texts, with the version of the rules."""
        return super().text_recipe(options) | {"statements": _RULES}


STATEMENT_VECTORS = StatementVectors()
