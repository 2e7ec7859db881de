"""Rankings of a history and what they scored: the records that `retrieval` keeps."""

from typing import Literal

from msgspec import Struct

from longmemeval.measures.aggregate import Mean

Granularity = Literal["session", "turn"]
RetrievalProtocol = Literal["standard", "official"]
Difference = Literal["ids", "order", "text", "error"]
"""Of two recalls for one question: other items; the same in another order; the same with another text; one failed."""


class Ranked(Struct, frozen=True, gc=False):
    """One item of a ranking."""

    id: str
    """Message id of a turn, thread id of a session; under an official protocol with its own corpus the id there."""
    score: float | None
    """None for what was recalled without being ranked."""


class Ranking(Struct, frozen=True, omit_defaults=True):
    """One line of `rankings.jsonl`, best item first."""

    question_id: str
    level: Granularity
    ranked: tuple[Ranked, ...]
    unknown: bool = False
    """The memory does not say on this level where what it found is from: no measure has a value."""
    error: str = ""
    """Why the memory found nothing. It counts as that."""
    second: tuple[Difference, ...] | None = None
    """What was other when the memory was asked again; None: it was asked once."""


class RetrievalResult(Struct, frozen=True, rename={"gold_rule": "gold"}):
    """What one memory scored against one kind of gold over one denominator."""

    memory: str
    protocol: RetrievalProtocol
    granularity: str
    """`session` or `turn`; `turn2session` for an official ranking of turns that is scored as sessions."""
    gold_rule: str
    """What counted as right, in words."""
    denominator: str
    """What the means are over, in words."""
    measures: dict[str, Mean]
    by_type: dict[str, dict[str, Mean]]
    without_labels: tuple[str, ...] = ()
    """Official protocol: questions of the denominator of which the data does not say which turns are the evidence."""
    notes: tuple[str, ...] = ()
    """What has to be said of the memory under a table."""
