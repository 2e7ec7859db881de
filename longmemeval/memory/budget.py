"""A budget of tokens for a recall, counted as the answering model will read it."""

from collections.abc import Callable, Sequence

from longmemeval.core.text.quantities import weekday_of
from longmemeval.records import ItemKind, RecalledItem

_HEADINGS: dict[ItemKind, str] = {
    "working-memory": "# What is known about the user\n\n\n\n",
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

    def fitting(self, items: Sequence[RecalledItem]) -> int:
        """Take `items` in their order until one does not fit, and return how many were taken."""
        return next((place for place, item in enumerate(items) if not self.take(item)), len(items))

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
            texts.append(f"- {item.date:%Y-%m-%d}: {item.text.strip()}\n" if item.date else f"- {item.text.strip()}\n")
        return sum(self._count(text) for text in texts)
