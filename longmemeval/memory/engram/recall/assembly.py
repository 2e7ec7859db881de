"""The items that the engine recalls: facts and summaries as lines, and their order."""

from collections.abc import Callable, Iterable
from datetime import datetime

from longmemeval.memory.engram.predicates import definition
from longmemeval.memory.engram.recall.summaries import Summary
from longmemeval.memory.engram.records import Fact
from longmemeval.memory.items import Hit
from longmemeval.records import RecalledItem


def fact_item(fact: Fact, siblings: int, said_at: datetime, hit: Hit) -> RecalledItem:
    """Return a fact as a line: the day it was last said, its text, and whether it still holds if its slot has changed.

    Args:
        fact: the version to show.
        siblings: number of facts of its slot, including itself.
        said_at: the moment it was last said.
        hit: its rank and score.
    """
    mark = ""
    if fact.disputed:
        mark = " [disputed]"
    elif fact.invalid_at is not None:
        mark = f" [until {fact.invalid_at:%Y-%m-%d}]"
    elif siblings > 1 and definition(fact.predicate).functional:
        mark = " [current]"
    return RecalledItem(
        kind="fact",
        text=fact.text + mark,
        date=said_at,
        message_ids=fact.episode_ids,
        thread_ids=tuple(dict.fromkeys(episode.rpartition(":")[0] for episode in fact.episode_ids)),
        rank=hit.rank,
        score=hit.score,
    )


def summary_item(summary: Summary, date: datetime) -> RecalledItem:
    """Return a summary as a line under the day of its session."""
    return RecalledItem("summary", summary.text, date, "", summary.message_ids, (summary.thread_id,))


def in_order(items: Iterable[RecalledItem], positions: Callable[[str], int]) -> list[RecalledItem]:
    """Return facts and summaries in their order, then messages in the history's order."""
    listed = list(items)
    messages = [item for item in listed if item.kind == "message"]
    messages.sort(key=lambda item: positions(item.message_ids[0]))
    return [item for item in listed if item.kind != "message"] + messages
