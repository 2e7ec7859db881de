"""The vocabulary all benchmarks share: what ability a question asks for, whatever its benchmark calls the type."""

from longmemeval.benchmarks.locomo.format import OPEN_ABSTENTION
from longmemeval.records import Gold

ABILITIES = ("fact-recall", "multi-hop", "temporal", "inference", "preference", "knowledge-update", "abstention")
"""In the order tables show them."""
OTHER = "other"

_LONGMEMEVAL = {
    "single-session-user": "fact-recall",
    "single-session-assistant": "fact-recall",
    "single-session-preference": "preference",
    "multi-session": "multi-hop",
    "temporal-reasoning": "temporal",
    "knowledge-update": "knowledge-update",
}
_LOCOMO = {
    "single-hop": "fact-recall",
    "multi-hop": "multi-hop",
    "temporal": "temporal",
    "open-domain": "inference",
    "adversarial": "abstention",
    OPEN_ABSTENTION: "abstention",
}
_CONVOMEM = {
    "user-facts": "fact-recall",
    "assistant-facts": "fact-recall",
    "changing-facts": "knowledge-update",
    "abstention": "abstention",
    "preferences": "preference",
    "implicit-connections": "inference",
}
_ABILITIES = {**_LONGMEMEVAL, **_LOCOMO, **_CONVOMEM}
_MULTI_HOP_BY_EVIDENCE = {"user-facts", "assistant-facts"}
"""Types that ask for one fact or for several together, as the number of evidence messages says."""


def ability_of(gold: Gold) -> str:
    """One of `ABILITIES`, `OTHER` for a type of no known benchmark.

    An unanswerable question asks for abstention, whatever its type.
    """
    if gold.abstention:
        return "abstention"
    if gold.question_type in _MULTI_HOP_BY_EVIDENCE and gold.facets.get("evidence", 1) > 1:
        return "multi-hop"
    return _ABILITIES.get(gold.question_type, OTHER)
