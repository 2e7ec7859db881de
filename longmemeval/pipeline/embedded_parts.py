"""The parts of a fixture that hold vectors, and the texts behind them."""

from collections.abc import Collection
from pathlib import Path

from msgspec import Struct

from longmemeval.pipeline.wording import Wording
from longmemeval.records import FixtureMeta, Haystack
from longmemeval.retrieval.expansion import decode, is_vectors_part, keys_part, keys_to_embed
from longmemeval.retrieval.expansion.vectors import INDEX_NAME as KEYS_INDEX
from longmemeval.storage.fixture import Fixture
from longmemeval.storage.messages import haystack_messages
from longmemeval.storage.vector_store import VectorItem

VECTOR_PART = "vector"
_MESSAGES_INDEX = "messages"


class TextsToEmbed(Struct, frozen=True):
    """What a part that holds vectors is to hold."""

    index: str
    """The name of the index."""
    items: list[VectorItem]
    texts: list[str]
    """One per item, as the embedder gets them."""


def texts_to_embed(
    missing: Collection[str], haystack: Haystack, folder: Path, meta: FixtureMeta | None, wording: Wording
) -> dict[str, TextsToEmbed]:
    """The texts behind the vectors that one fixture lacks, by part.

    Args:
        missing: the parts that are to be made; vectors of keys only where the keys are there.
        haystack: what the fixture is made of.
        folder: the fixture's.
        meta: what the fixture holds; None: nothing yet.
        wording: what is embedded of a message.

    Raises:
        FixtureError: the fixture's keys are damaged.
    """
    found: dict[str, TextsToEmbed] = {}
    if VECTOR_PART in missing:
        documents = wording.documents(haystack_messages(haystack))
        items = [VectorItem(message.message_id, message.thread_id, message.index) for message, _ in documents]
        found[VECTOR_PART] = TextsToEmbed(_MESSAGES_INDEX, items, [text for _, text in documents])
    for part in filter(is_vectors_part, missing):
        if meta and keys_part(part) in meta.parts:
            found[part] = _keys(Fixture(folder, meta), keys_part(part), wording)
    return found


def _keys(fixture: Fixture, part: str, wording: Wording) -> TextsToEmbed:
    keys = decode(fixture.read_part(part), f"{fixture.path}, part {part}")
    items, texts = keys_to_embed(keys)
    return TextsToEmbed(KEYS_INDEX, items, [wording.document_prefix + text for text in texts])
