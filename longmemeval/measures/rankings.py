"""Rankings of a history and their scores: the records that `retrieval` stores."""

from typing import Literal

from msgspec import Struct

from longmemeval.measures.aggregate import Mean

Granularity = Literal["session", "turn"]
RetrievalProtocol = Literal["standard", "official"]
Difference = Literal["ids", "order", "text", "error"]
"""Difference between two recalls for one question: other items, another order, another text, or one of them failed."""


class Ranked(Struct, frozen=True, gc=False):
    """One item of a ranking."""

    id: str
    """Message id of a turn, thread id of a session; under an official protocol with its own corpus the id there."""
    score: float | None
    """None for an item that was recalled without being ranked."""


class Ranking(Struct, frozen=True, omit_defaults=True):
    """One line of `rankings.jsonl`, best item first."""

    question_id: str
    level: Granularity
    ranked: tuple[Ranked, ...]
    unknown: bool = False
    """True if the memory gives no provenance on this level: no measure has a value."""
    error: str = ""
    """Reason why the recall failed. It counts as having found nothing."""
    second: tuple[Difference, ...] | None = None
    """Differences when the same question was recalled a second time; None if it was recalled once."""


class RetrievalResult(Struct, frozen=True, rename={"gold_rule": "gold"}):
    """The scores of one memory against one kind of gold over one denominator."""

    memory: str
    protocol: RetrievalProtocol
    granularity: str
    """`session` or `turn`; `turn2session` for an official ranking of turns that is scored as sessions."""
    gold_rule: str
    """Description of what counted as right."""
    denominator: str
    """Description of what the means are over."""
    measures: dict[str, Mean]
    by_type: dict[str, dict[str, Mean]]
    without_labels: tuple[str, ...] = ()
    """Official protocol: ids of the questions in the denominator whose evidence turns are not labelled."""
    notes: tuple[str, ...] = ()
    """Notes on the memory to print under a table."""
