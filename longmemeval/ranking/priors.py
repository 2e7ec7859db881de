"""Priors of a unit, independent of its match: its speaker, whether it states anything, its date.

All three depend only on the question and the history, and are in [0, 1], like a min-max score.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from datetime import datetime

import numpy as np

from longmemeval.core.text.quantities import MONTHS
from longmemeval.ranking.history import HistoryView, Scores

_FIRST_PERSON = re.compile(r"\b(?:i|me|my|mine|myself|we|us|our|ours|ourselves)\b", re.IGNORECASE)
_SECOND_PERSON = re.compile(r"\b(?:you|your|yours|yourself)\b", re.IGNORECASE)
_HALF = 5.0
"""Number of content words at which a unit gets half of the statement prior."""


def without_names(question: str, names: Sequence[str]) -> str:
    """Return `question` without the speakers' names.

    They are in half of the turns and say nothing about the content.
    """
    if not names:
        return question
    for name in names:
        question = re.sub(rf"\b{re.escape(name)}(?:['\u2019]s)?(?!\w)", "", question, flags=re.IGNORECASE)
    return re.sub(r"\s+([?.,!])", r"\1", " ".join(question.split()))


class Priors:
    """The priors of every unit of a history."""

    def __init__(self, history: HistoryView) -> None:
        self._history = history
        spoken = history.unit_of >= 0
        stated = history.words.stated[spoken]
        words = np.bincount(history.unit_of[spoken], weights=stated, minlength=len(history))
        self.statement: Scores = words / (words + _HALF)
        """Prior that grows with the words a unit has outside of questions: a speaker who asks seldom answers."""
        dates = [_date_words(thread.created_at) for thread in history.store.threads]
        counts = Counter(word for words_of_day in dates for word in words_of_day)
        self._idf = {word: math.log(1 + (len(dates) - n + 0.5) / (n + 0.5)) for word, n in counts.items()}
        self._dates: dict[str, list[int]] = {word: [] for word in counts}
        for number, words_of_thread in enumerate(dates):
            for word in words_of_thread:
                self._dates[word].append(number)
        self._threads = len(dates)

    def speaker(self, question: str) -> Scores:
        """Return 1 for units of speakers the question names, or, without names, refers to as I or you; else 0."""
        likely = self._history.names_in(question)
        named = {name for name in likely if re.search(rf"\b{re.escape(name)}\b", question, re.IGNORECASE)}
        if not self._history.names:
            named |= {"user"} if _FIRST_PERSON.search(question) else set()
            named |= {"assistant"} if _SECOND_PERSON.search(question) else set()
        speaks = np.zeros(len(self._history))
        if named:
            for name in named & self._history.speakers.keys():
                speaks[self._history.speakers[name]] = 1
        return speaks

    def date(self, question: str) -> Scores:
        """Return the share of the question's date words that the unit's session date matches, weighted by idf.

        Date words are months, years and days.
        """
        date_words = sorted(word for word in words_of_date(question) if word in self._idf)
        total = sum(self._idf[word] for word in date_words)
        if not total:
            return np.zeros(len(self._history))
        by_thread = np.zeros(self._threads)
        for word in date_words:
            by_thread[self._dates[word]] += self._idf[word]
        return (by_thread / total)[self._history.threads]


def words_of_date(text: str) -> set[str]:
    """Return the capitalised months, the years from 1900 to 2099, and the days next to a month."""
    found = {f"y{year}" for year in re.findall(r"\b(?:19|20)\d\d\b", text)}
    for number, month in enumerate(MONTHS, start=1):
        if re.search(rf"\b{month}\b", text):
            found.add(f"m{number}")
            day = r"(\d{1,2})(?:st|nd|rd|th)?"
            days = re.findall(rf"\b{day}(?: of)? {month}\b|\b{month} {day}\b", text)
            found.update(f"d{number}-{int(before or after)}" for before, after in days)
    return found


def _date_words(date: datetime) -> set[str]:
    return {f"y{date.year}", f"m{date.month}", f"d{date.month}-{date.day}"}
