"""Ask a memory the same question a second time, and compare the recalls."""

from collections import Counter
from collections.abc import Hashable

from longmemeval.core.event_loop import complete
from longmemeval.errors import RecallError
from longmemeval.measures.notation import Difference
from longmemeval.memory.asking import errors_of, recall_of
from longmemeval.memory.protocol import MemorySystem, RankingMemory
from longmemeval.records import Question, Recall, RecalledItem
from longmemeval.storage.fixture import Fixture


def second_recall(
    system: MemorySystem, question: Question, fixture: Fixture, first: Recall | RecallError
) -> tuple[Difference, ...]:
    """Recall again, right after the first time, and return the differences.

    Args:
        first: the first recall, or its error.
    """
    again = recalled(system, question, fixture)
    if isinstance(first, RecallError) or isinstance(again, RecallError):
        return () if isinstance(first, RecallError) and isinstance(again, RecallError) else ("error",)
    return differences_of(first, again)


def recalled(system: MemorySystem, question: Question, fixture: Fixture) -> Recall | RecallError:
    """Return the recall of a memory, or its error."""
    try:
        return complete(recall_of(system, question, fixture))
    except RecallError as error:
        return error


def ranked_otherwise(system: RankingMemory, question: Question, fixture: Fixture, first: list[str]) -> bool:
    """Return whether a ranking of the whole history has another order than `first`, message ids."""
    with errors_of(system):
        return [message_id for unit in system.rank(question, fixture) for message_id in unit.message_ids] != first


def differences_of(first: Recall, again: Recall) -> tuple[Difference, ...]:
    """Return whether ids, order or texts of the items differ; empty if the recalls are alike.

    Scores are ignored: what a reader sees does not depend on them.
    """
    ids, ids_again = ([_identity(item) for item in recall.items] for recall in (first, again))
    found: list[Difference] = []
    if Counter(ids) != Counter(ids_again):
        found.append("ids")
    elif ids != ids_again:
        found.append("order")
    texts, texts_again = (_texts(recall) for recall in (first, again))
    if any(texts[identity] != texts_again[identity] for identity in texts.keys() & texts_again.keys()):
        found.append("text")
    return tuple(found)


def _identity(item: RecalledItem) -> Hashable:
    """Return an item's key: its kind and messages, or without messages its text."""
    return item.kind, item.message_ids, item.thread_ids, item.text if not (item.message_ids or item.thread_ids) else ""


def _texts(recall: Recall) -> dict[Hashable, list[str]]:
    """Return the sorted texts of the items of each identity."""
    found: dict[Hashable, list[str]] = {}
    for item in recall.items:
        found.setdefault(_identity(item), []).append(item.text)
    return {identity: sorted(texts) for identity, texts in found.items()}
