"""What a preparation would take: texts to embed, sessions to read, their price, and room on the disk."""

from collections.abc import Sequence

from longmemeval.llm.tokens import CharacterCounter
from longmemeval.pipeline.disk import DiskEstimate, DiskNeed, free_bytes
from longmemeval.pipeline.embedded_parts import texts_to_embed
from longmemeval.pipeline.prepare_plan import Pending, PreparePlan
from longmemeval.prices import price, vector_length
from longmemeval.retrieval.expansion import is_vectors_part
from longmemeval.storage.messages import haystack_messages

_USUAL_DIMENSION = 1536


def survey(plan: PreparePlan, pending: Sequence[Pending]) -> tuple[dict[str, float], DiskNeed]:
    """Count the work, one haystack in memory at a time.

    Args:
        plan: of the preparation.
        pending: what is missing.

    Returns:
        Figures by name, in the order they are shown, and the disk they need. Tokens are characters / 4; prices are
        there when known. Keys that are to be embedded but are not made yet have texts nobody knows: their haystacks
        are counted.
    """
    counter = CharacterCounter()
    embedder, updater = plan.embedder, plan.updater
    disk = DiskEstimate(len(pending), _dimension(plan), exact=plan.options.index == "exact")
    seen = set[int]()
    messages = new = tokens = sessions = session_tokens = without_keys = 0
    for one in pending:
        haystack = plan.dataset.haystack(one.haystack_id)
        stored = haystack_messages(haystack)
        messages += len(stored)
        parts = texts_to_embed(one.missing, haystack, one.folder, one.meta, plan.wording)
        # Texts are told apart by a hash of 64 bits: those of a large data set would not fit into memory.
        texts = {hash(text): text for part in parts.values() for text in part.texts}
        first = [text for key, text in texts.items() if key not in seen]
        seen.update(texts)
        missing = embedder.missing(first) if embedder else []
        new += len(missing)
        tokens += sum(map(counter.count, missing))
        without_keys += any(is_vectors_part(name) and name not in parts for name in one.missing)
        if updater and "db" in one.missing:
            sessions += len(haystack.sessions)
            session_tokens += sum(counter.count(message.content) for message in stored)
        disk.add(haystack, one.missing, one.folder, parts, len(plan.question_ids[one.haystack_id]))
    figures: dict[str, float] = {"messages": messages}
    if embedder:
        figures |= {"distinct texts": len(seen), "texts not in the cache": new, "tokens to embed": tokens}
        if embedder.spec.startswith("openai:"):
            figures |= _price("embedding, USD", embedder.spec.removeprefix("openai:"), tokens, 0)
    if without_keys:
        figures["haystacks whose keys are embedded too, not counted yet"] = without_keys
    asks = updater is not None and updater.model != "rules"
    if updater and asks:
        figures |= {"sessions for the working-memory model": sessions, "tokens of those sessions": session_tokens}
        # The document is shown with every session; 500 tokens are a usual size. A reply of edits has about 150.
        prompts, replies = session_tokens + 1000 * sessions, 150 * sessions
        figures |= _price("working memory, USD (about)", updater.model, prompts, replies)
    need = disk.need(new, sessions if asks else 0)
    figures |= {"disk for fixtures, MB": need.fixtures / 1e6, "disk for the caches, MB": need.cache / 1e6}
    figures["free on that disk, MB"] = free_bytes(plan.root) / 1e6
    return figures, need


def _dimension(plan: PreparePlan) -> int:
    """Numbers in a vector, as far as that can be known without a call."""
    if plan.embedder is None:
        return 0
    return plan.embedder.known_dimension or vector_length(plan.embedder.spec.partition(":")[2]) or _USUAL_DIMENSION


def _price(name: str, model: str, prompt_tokens: int, completion_tokens: int) -> dict[str, float]:
    """The price by LiteLLM's table; nothing when the model is not in it."""
    dollars = price(model, prompt_tokens, completion_tokens)
    return {} if dollars is None else {name: dollars}
