"""A budget of tokens as the answering model reads them: lines, headings and speakers count, not the texts alone."""

from collections.abc import Callable, Sequence

from longmemeval.core.text.calendar_names import weekday_of
from longmemeval.records import Message, RecalledItem

_HEADINGS = "# Facts\n\n\n\n# Earlier messages\n\n"


class RenderedBudget:
    """The rest of a budget while a recall is assembled.

    Args:
        tokens: the budget; None: no bound.
        count: returns the tokens of a text.
    """

    def __init__(self, tokens: int | None, count: Callable[[str], int]) -> None:
        self._count, self._tokens = count, tokens
        self._spent = count(_HEADINGS)
        self._threads: set[str] = set()

    def take_fact(self, item: RecalledItem) -> bool:
        """Take a fact if it still fits, and tell whether it does."""
        return self._take(f"- {item.date:%Y-%m-%d}: {item.text}\n", 1.0)

    def take_messages(self, messages: Sequence[Message], share: float) -> bool:
        """Take messages that are shown together if they still fit `share` of the budget, and tell whether they do.

        The first message of a session adds the heading of its day.
        """
        begun = {
            message.thread_id: message.created_at for message in messages if message.thread_id not in self._threads
        }
        headings = (f"## {weekday_of(day)}, {day:%Y-%m-%d}\n\n{day:%H:%M}\n\n\n" for day in begun.values())
        said = (f"{message.speaker or message.role}: {message.content}\n" for message in messages)
        taken = self._take("".join((*headings, *said)), share)
        if taken:
            self._threads.update(begun)
        return taken

    def _take(self, text: str, share: float) -> bool:
        if self._tokens is None:
            return True
        spent = self._spent + self._count(text)
        if spent > share * self._tokens:
            return False
        self._spent = spent
        return True
