"""The shape of a question, and answers that are computed from the dates of its evidence."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Literal

QuestionType = Literal[
    "single-session-user",
    "single-session-assistant",
    "single-session-preference",
    "multi-session",
    "knowledge-update",
    "temporal-reasoning",
]
Answer = str | int
FromDates = Callable[[date, Sequence[date]], Answer]
"""Computes an answer from the day of the question and the days of the evidence sessions, in the order listed."""


@dataclass(frozen=True)
class Question:
    """One question about one persona.

    Attributes:
        key: Names the question; its id and its random numbers come from it.
        text: The question.
        answer: The answer, a rubric (preferences), why there is none (abstention), or how the dates give it.
        evidence: Keys of the evidence chats, as `answer_session_ids` lists them.
        asked: When the question is asked, `YYYY/MM/DD HH:MM`.
        near: Keys of the persona's chats that come close to the question and always lie in its haystack.
        abstention: Whether the history holds no answer; `evidence` then names the chats that seem to.
        placed: Fillers with a date of their own, for the quirks of the real data.
        times_in_order: False leaves sessions of one day in the order they were placed.
    """

    key: str
    type: QuestionType
    text: str
    answer: Answer | FromDates
    evidence: tuple[str, ...]
    asked: str
    near: tuple[str, ...] = ()
    abstention: bool = False
    placed: Mapping[str, str] = field(default_factory=dict)
    times_in_order: bool = True


def days_between(_asked: date, days: Sequence[date]) -> Answer:
    """Days from the first evidence session to the second."""
    count = (days[1] - days[0]).days
    return f"{count} days. {count + 1} days (including the last day) is also acceptable."


def whole_weeks_between(_asked: date, days: Sequence[date]) -> Answer:
    """Weeks from the first evidence session to the second, as a number."""
    return _whole_weeks(days[0], days[1])


def weeks_ago(asked: date, days: Sequence[date]) -> Answer:
    """Weeks from the evidence session to the question."""
    return f"{_whole_weeks(days[0], asked)} weeks ago"


def which_first(first: str, second: str) -> FromDates:
    """Names the earlier of two events, called `first` and `second` in the order of their evidence."""

    def answer(_asked: date, days: Sequence[date]) -> Answer:
        return min(zip(days, (first, second), strict=True))[1]

    return answer


def in_order(*events: str) -> FromDates:
    """Lists `events`, given in the order of their evidence, from the earliest to the latest."""

    def answer(_asked: date, days: Sequence[date]) -> Answer:
        return ", then ".join(event for _, event in sorted(zip(days, events, strict=True)))

    return answer


def _whole_weeks(start: date, end: date) -> int:
    weeks, rest = divmod((end - start).days, 7)
    if rest:
        raise ValueError(f"{start} to {end} is not a whole number of weeks")
    return weeks
