"""The same question asked a second time: what of the recall is other."""

from collections import Counter
from collections.abc import Hashable

from longmemeval.core.event_loop import complete
from longmemeval.errors import RecallError
from longmemeval.measures.rankings import Difference
from longmemeval.memory.faults import errors_of, recall_of
from longmemeval.memory.protocol import MemorySystem, RankingMemory
from longmemeval.records import Question, Recall, RecalledItem
from longmemeval.storage.fixture import Fixture


def second_recall(
    system: MemorySystem, question: Question, fixture: Fixture, first: Recall | RecallError
) -> tuple[Difference, ...]:
    """What differs when the memory is asked again, right after the first time.

    Args:
        system: the memory.
        question: what it was asked.
        fixture: the history.
        first: what it recalled, or how it failed.
    """
    again = recalled(system, question, fixture)
    if isinstance(first, RecallError) or isinstance(again, RecallError):
        return () if isinstance(first, RecallError) and isinstance(again, RecallError) else ("error",)
    return differences_of(first, again)


def recalled(system: MemorySystem, question: Question, fixture: Fixture) -> Recall | RecallError:
    """What a memory recalls, or how it failed."""
    try:
        return complete(recall_of(system, question, fixture))
    except RecallError as error:
        return error


def ranked_otherwise(system: RankingMemory, question: Question, fixture: Fixture, first: list[str]) -> bool:
    """Whether a ranking of the whole history comes out in another order than `first`, message ids."""
    with errors_of(system):
        return [one for unit in system.rank(question, fixture) for one in unit.message_ids] != first


def differences_of(first: Recall, again: Recall) -> tuple[Difference, ...]:
    """Other items, another order, another text of the same items; nothing where the two are alike.

    Scores are not looked at: what a reader sees does not depend on them.
    """
    ids, ids_again = ([_identity(item) for item in recall.items] for recall in (first, again))
    found: list[Difference] = []
    if Counter(ids) != Counter(ids_again):
        found.append("ids")
    elif ids != ids_again:
        found.append("order")
    texts, texts_again = (_texts(recall) for recall in (first, again))
    if any(texts[one] != texts_again[one] for one in texts.keys() & texts_again.keys()):
        found.append("text")
    return tuple(found)


def _identity(item: RecalledItem) -> Hashable:
    """By what messages it is from; where it does not say so, by its text."""
    return item.kind, item.message_ids, item.thread_ids, item.text if not (item.message_ids or item.thread_ids) else ""


def _texts(recall: Recall) -> dict[Hashable, list[str]]:
    """The texts of the items of each identity; items that are from the same messages in any order."""
    found: dict[Hashable, list[str]] = {}
    for item in recall.items:
        found.setdefault(_identity(item), []).append(item.text)
    return {identity: sorted(texts) for identity, texts in found.items()}
