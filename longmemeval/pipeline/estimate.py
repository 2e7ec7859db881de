"""What a preparation would take: texts to embed, sessions to read, and their price."""

from collections.abc import Iterable

from longmemeval.embedding.cache import CachedEmbedder
from longmemeval.embedding.registry import is_remote
from longmemeval.llm.tokens import CharacterCounter
from longmemeval.pipeline.build import UpdaterConfiguration
from longmemeval.pipeline.embedded_parts import texts_to_embed
from longmemeval.pipeline.making import Pending
from longmemeval.pipeline.wording import Wording
from longmemeval.prices import price
from longmemeval.records import Haystack
from longmemeval.retrieval.expansion import is_vectors_part
from longmemeval.storage.messages import haystack_messages


def estimate(
    haystacks: Iterable[tuple[Haystack, Pending]],
    embedder: CachedEmbedder | None,
    wording: Wording,
    updater: UpdaterConfiguration | None,
) -> dict[str, float]:
    """Count the work.

    Args:
        haystacks: each with what is missing.
        embedder: the embedder, if vectors are needed.
        wording: what is embedded of a message.
        updater: the working-memory updater, if one is needed.

    Returns:
        Figures by name, in the order they are shown. Tokens are characters / 4; prices are there when known. Keys that
        are to be embedded but are not made yet have texts nobody knows: their haystacks are counted.
    """
    counter = CharacterCounter()
    texts: dict[str, int] = {}
    figures: dict[str, float] = {"messages": 0}
    sessions = session_tokens = without_keys = 0
    for haystack, pending in haystacks:
        messages = haystack_messages(haystack)
        figures["messages"] += len(messages)
        parts = texts_to_embed(pending.missing, haystack, pending.folder, pending.meta, wording)
        texts |= {text: counter.count(text) for part in parts.values() for text in part.texts}
        without_keys += any(is_vectors_part(name) and name not in parts for name in pending.missing)
        if updater and "db" in pending.missing:
            sessions += len(haystack.sessions)
            session_tokens += sum(counter.count(message.content) for message in messages)
    if embedder:
        new = embedder.missing(texts)
        tokens = sum(texts[text] for text in new)
        figures |= {"distinct texts": len(texts), "texts not in the cache": len(new), "tokens to embed": tokens}
        if is_remote(embedder.spec):
            figures |= _price("embedding, USD", embedder.spec.removeprefix("openai:"), tokens, 0)
    if without_keys:
        figures["haystacks whose keys are embedded too, not counted yet"] = without_keys
    if updater and updater.model != "rules":
        figures |= {"sessions for the working-memory model": sessions, "tokens of those sessions": session_tokens}
        # The document is shown with every session; 500 tokens are a usual size. A reply of edits has about 150.
        prompts, replies = session_tokens + 1000 * sessions, 150 * sessions
        figures |= _price("working memory, USD (about)", updater.model, prompts, replies)
    return figures


def _price(name: str, model: str, prompt_tokens: int, completion_tokens: int) -> dict[str, float]:
    """The price by LiteLLM's table; nothing when the model is not in it."""
    dollars = price(model, prompt_tokens, completion_tokens)
    return {} if dollars is None else {name: dollars}
