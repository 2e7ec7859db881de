"""Measures of memories whose content changes: whether the current message is found, and how overruled ones rank.

They need to know which messages were overruled by which: the `superseded` of a `ChangingGold`.
"""

from collections.abc import Collection, Sequence

from longmemeval.measures.compute import recall_all
from longmemeval.measures.notation import Measure
from longmemeval.records import Gold


class ChangingGold(Gold, frozen=True):
    """Gold of a question about something that changed. `evidence_turns` are the current messages."""

    superseded: tuple[tuple[str, str], ...] = ()
    """Pairs of message ids: an overruled message, and the current one in its place."""
    consistent: bool = True
    """False if the answer counted as right contradicts the current messages: no measure then has a value."""


def compute_change(measure: Measure, ranked: Sequence[str], gold: Gold) -> float | None:
    """Score one ranking of messages by a measure whose kind is `of_changes`.

    Args:
        ranked: message ids, best first.

    Returns:
        0 or 1; None if the gold does not say what changed, contradicts it or, for measures of overruled messages, none
        was overruled.
    """
    if not isinstance(gold, ChangingGold) or not gold.consistent or not gold.evidence_turns:
        return None
    if measure.name == "current_recall":
        return recall_all(ranked, gold.evidence_turns, measure.cutoff or len(ranked))
    if measure.name == "current_first":
        recall = recall_all(ranked, gold.evidence_turns, measure.cutoff or len(ranked))
        return recall * (1 - stale_first(ranked, gold.superseded))
    if not gold.superseded:
        return None
    if measure.name == "stale_shown":
        return stale_shown(ranked, [stale for stale, _ in gold.superseded], measure.cutoff or len(ranked))
    return stale_first(ranked, gold.superseded)


def stale_shown(ranked: Sequence[str], stale: Collection[str], cutoff: int) -> float:
    """Return 1 if an overruled message is among the first `cutoff`, else 0."""
    return float(not set(stale).isdisjoint(ranked[:cutoff]))


def stale_first(ranked: Sequence[str], superseded: Sequence[tuple[str, str]]) -> float:
    """Return 1 if an overruled message is above the current one in its place, or is ranked without it; else 0."""
    rank = {message_id: place for place, message_id in reversed(list(enumerate(ranked)))}
    last = len(ranked)
    return float(any(rank.get(stale, last) < rank.get(current, last) for stale, current in superseded))
