"""Scores from replies, as in BEAM's official code: `src/evaluation/compute_metrics.py` in its repository, at b2a3ee8.

Nine abilities: the mean of the nuggets' scores. The code converts each to an integer first, so that partial compliance,
0.5, counts 0 (`official-code`); the prompt and the paper mean it to count (`paper`). Event ordering: the lines of the
answer, including blank ones and headings, are aligned with the nuggets, and Kendall's tau-b of the two orders, scaled
to 0 … 1, is the score. So an empty answer does not get 0 (.146 with three nuggets, .233 with six), and the first of
three items alone gets .908 (the first of six .789).
"""

import ast
import json
import math
import re
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

Credit = Literal["official-code", "paper"]

_FENCE = re.compile(r"^```(?:json)?\s*|\s*```$")
_NUMBER = r"\s*:\s*([\"']?)(-?\d+(?:\.\d+)?)"
_SCORES = (re.compile(rf"[{{,]\s*[\"'“]?score[\"'”]?{_NUMBER}"), re.compile(rf'"score"{_NUMBER}'))
"""Pattern for a key of an object, in any quotes or none; then for the word in double quotes anywhere."""


def nugget_score(reply: str, credit: Credit) -> float | None:
    """Return the score in a judge's reply, 0 to 1; None without one, where the official code ends in an error.

    The reply is a JSON object, alone, fenced or among other text. A Python literal is read as such, and a broken object
    counts by the number after its first key `score`: the official code repairs both with a library, json_repair, to the
    same effect.
    """
    value = _score_in(_FENCE.sub("", reply.strip()))
    if not isinstance(value, int | float | str):
        return None
    try:
        score = float(int(value) if credit == "official-code" else float(value))
    except (ValueError, OverflowError):
        return None
    return score if 0 <= score <= 1 else None


def _score_in(text: str) -> object:
    """Return the value of `score`; None if there is none."""
    try:
        document = json.loads(text)
    except ValueError:
        start = text.find("{")
        if start < 0:
            return None
        try:
            document, _ = json.JSONDecoder().raw_decode(text, start)
        except ValueError:
            document = _in_python(text[start : text.rfind("}") + 1])
            if document is None and (
                number := next(filter(None, (pattern.search(text, start) for pattern in _SCORES)), None)
            ):
                return number[2] if number[1] else float(number[2])
    return document.get("score") if isinstance(document, dict) else None


def _in_python(text: str) -> object:
    """Return the object if `text` is a Python literal; otherwise None."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


def question_score(scores: Sequence[float]) -> float:
    """Return the mean over the nuggets."""
    return sum(scores) / len(scores)


def same_event(reply: str) -> bool:
    """Return the official reading of a reply on whether two texts describe one event: "yes" anywhere, in any case."""
    return "yes" in reply.lower()


class Ordering(Struct, frozen=True):
    """The order of events in an answer, compared with the right one."""

    precision: float
    recall: float
    f1: float
    tau_norm: float
    """(tau-b + 1) / 2; NaN if there is only a single item."""
    final_score: float
    """`tau_norm` times `f1`."""


class Alignment:
    """The alignment of an answer's lines with the nuggets, one comparison at a time.

    Each line is compared with each unused nugget, both in order; the first match is used.
    """

    def __init__(self, rubric: Sequence[str], hypothesis: str) -> None:
        self._rubric = rubric
        self._lines = hypothesis.split("\n")
        self._used: set[int] = set()
        self._aligned: list[str] = []
        self._nugget = 0

    def pair(self) -> tuple[str, str] | None:
        """Return the nugget and the line to compare next; None when all lines are aligned."""
        while len(self._aligned) < len(self._lines):
            line = self._lines[len(self._aligned)]
            while self._nugget < len(self._rubric):
                if self._nugget not in self._used:
                    return self._rubric[self._nugget], line
                self._nugget += 1
            self._aligned.append(line)
            self._nugget = 0
        return None

    def record(self, same: bool) -> None:
        """Record whether the last pair describes the same event."""
        if not same:
            self._nugget += 1
            return
        self._used.add(self._nugget)
        self._aligned.append(self._rubric[self._nugget])
        self._nugget = 0

    def ordering(self) -> Ordering:
        """Return the figures; all lines must be aligned."""
        return event_ordering(self._rubric, self._aligned)


def event_ordering(reference: Sequence[str], system: Sequence[str]) -> Ordering:
    """Return the official figures of two lists; where both mean the same, the second has the words of the first."""
    # Imported here because scipy takes most of a second to load.
    from scipy.stats import kendalltau

    matched = len(set(reference) & set(system))
    wrong = sum(item not in reference for item in system)
    missed = sum(item not in system for item in reference)
    precision = matched / (matched + wrong) if matched + wrong else 0.0
    recall = matched / (matched + missed) if matched + missed else 0.0
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    union = list(dict.fromkeys([*reference, *system]))
    ranks = _ranks(reference, union), _ranks(system, union)
    tau = float(kendalltau(*ranks).statistic) if len(union) > 1 else math.nan
    tau_norm = (tau + 1) / 2
    return Ordering(precision, recall, f1, tau_norm, tau_norm * f1)


def _ranks(items: Sequence[str], union: Sequence[str]) -> list[int]:
    """Return the last position of each item, from 1; absent items get one more than the number of all items."""
    places = {item: place for place, item in enumerate(items, start=1)}
    return [places.get(item, len(union) + 1) for item in union]
