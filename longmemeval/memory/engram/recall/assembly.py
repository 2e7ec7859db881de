"""Select the ranked facts, messages and summaries that fit a budget, counted as they will be rendered."""

from collections.abc import Callable, Iterable
from datetime import datetime

from longmemeval.core.text.calendar_names import weekday_of
from longmemeval.memory.engram.predicates import definition
from longmemeval.memory.engram.recall.summaries import Summary
from longmemeval.memory.engram.records import Fact
from longmemeval.memory.items import Hit
from longmemeval.records import ItemKind, RecalledItem

_HEADINGS: dict[ItemKind, str] = {
    "fact": "# Facts\n\n\n\n",
    "summary": "# Summaries\n\n\n\n",
    "message": "# Earlier messages\n\n",
}


class Budget:
    """Tokens left for a recall in the history format `nl`, with its headings, days, speakers and dates.

    Args:
        tokens: the budget; None: no bound.
        count: returns the tokens of a text.
    """

    def __init__(self, tokens: int | None, count: Callable[[str], int]) -> None:
        self._left = tokens
        self._count = count
        self._shown = set[object]()

    def take(self, *items: RecalledItem) -> bool:
        """Take `items` and return True if all of them fit beside what was taken before."""
        if self._left is None:
            return True
        shown = set(self._shown)
        cost = sum(self._cost(item, shown) for item in items)
        if cost > self._left:
            return False
        self._left -= cost
        self._shown = shown
        return True

    def _cost(self, item: RecalledItem, shown: set[object]) -> int:
        texts = []
        if item.kind not in shown:
            shown.add(item.kind)
            texts.append(_HEADINGS[item.kind])
        if item.kind == "message":
            texts.append(f"{item.speaker}: {item.text.strip()}\n")
            if item.thread_ids not in shown:
                shown.add(item.thread_ids)
                texts.append(
                    f"## {weekday_of(item.date)}, {item.date:%Y-%m-%d}\n\n{item.date:%H:%M}\n\n" if item.date else ""
                )
        else:
            texts.append(f"- {item.date:%Y-%m-%d}: {item.text.strip()}\n")
        return sum(self._count(text) for text in texts)


def fact_item(fact: Fact, siblings: int, said: datetime, hit: Hit) -> RecalledItem:
    """Return a fact as a line: the day it was last said, its text, and whether it still holds if its slot has changed.

    Args:
        fact: the version to show.
        siblings: number of facts of its slot, itself included.
        said: the moment it was last said.
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
        date=said,
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
