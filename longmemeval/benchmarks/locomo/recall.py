"""LoCoMo's own retrieval recall, from `task_eval/` in the official repository, and the scoring of rankings by it.

The official code ranks the turns of a conversation ("dialog"), or summaries of its sessions, by a dense retriever. The
units and their scoring are the protocol, but the retriever is not: here any memory may rank.
"""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from longmemeval.benchmarks.retrieval_protocols import GoldRule, OfficialScoring, RetrievalRules, evidence
from longmemeval.measures.compute import compute, recall
from longmemeval.measures.notation import Measure
from longmemeval.measures.notation import recall as recall_at
from longmemeval.records import Gold

if TYPE_CHECKING:
    from longmemeval.measures.rankings import Granularity

TURN_CUTOFFS = (5, 10, 25, 50)
SESSION_CUTOFFS = (2, 5, 10)
"""Cutoffs of the paper's Table 3."""


def locomo_recall(evidence: Sequence[str], retrieved: Sequence[str]) -> float:
    """Return the official recall of one question, rounded to 3 decimals like the official one.

    Evidence counts as in the data: a repeated id counts twice, and a malformed one is never found. The reported means
    are over all questions, and a question without evidence counts as 0, which is its value here.

    Args:
        evidence: the raw evidence strings, such as `D1:3`.
        retrieved: ids of the units within the cutoff, flattened: an observation made from three turns adds three ids.
            If the first begins with `S`, the units are sessions (`S1`), and evidence is found by its session.

    Returns:
        A fraction between 0 and 1.
    """
    if not evidence:
        return 0.0
    if retrieved and retrieved[0].startswith("S"):
        evidence = [f"S{_session_number(turn_id)}" for turn_id in evidence]
    ids = frozenset(retrieved)
    return round(sum(identifier in ids for identifier in evidence) / len(evidence), 3)


def locomo_recall_strict(evidence: Collection[str], retrieved: Sequence[str]) -> float | None:
    """Return the recall of repaired evidence, over distinct existing ids and not rounded; None without evidence.

    Args:
        evidence: repaired ids of the same level (turns or sessions) as `retrieved`.
        retrieved: ids of the units within the cutoff, flattened.
    """
    return recall(retrieved, evidence, len(retrieved)) if evidence else None


def _session_number(turn_id: str) -> str:
    """Return `1` for `D1:3`."""
    return turn_id.partition(":")[0][1:]


def _summary_id_of(thread_id: str) -> str:
    """Return LoCoMo's id of a session: `session_3` → `S3`."""
    return "S" + thread_id.removeprefix("session_")


def official_rule(level: "Granularity") -> GoldRule:
    """Return the rule that scores raw evidence strings by `locomo_recall`."""
    from longmemeval.benchmarks.locomo.format import dia_id_of

    name = dia_id_of if level == "turn" else _summary_id_of

    def score(measure: Measure, ranked: Sequence[str], gold: Gold, _: Sequence[str]) -> float | None:
        return locomo_recall(gold.evidence_raw, [name(identifier) for identifier in ranked[: measure.cutoff]])

    return GoldRule(
        "locomo official",
        "all categories, those without evidence counted as 0",
        score,
        measures=lambda measure: measure.name == "recall",
    )


def strict_rule(level: "Granularity") -> GoldRule:
    """Return the rule that scores repaired evidence; a question without evidence has no value."""

    def score(measure: Measure, ranked: Sequence[str], gold: Gold, history: Sequence[str]) -> float | None:
        if measure.name == "recall":
            return locomo_recall_strict(evidence(gold, level), ranked[: measure.cutoff])
        return compute(measure, ranked, evidence(gold, level), history)

    return GoldRule("locomo strict (repaired evidence)", "all categories", score)


STANDARD = RetrievalRules(
    level="turn",
    kinds=(recall_at,),
    cutoffs=TURN_CUTOFFS,
    whole=(),
    rules=lambda level: (official_rule(level), strict_rule(level)),
)
"""Both rules: the official recall first, if a recall is among the measures."""

OFFICIAL_RECALL = OfficialScoring(
    level="turn",
    measures={
        "turn": tuple(recall_at @ cutoff for cutoff in TURN_CUTOFFS),
        "session": tuple(recall_at @ cutoff for cutoff in SESSION_CUTOFFS),
    },
    rules=lambda level: (official_rule(level),),
    notes=("Official recall: raw evidence ids, questions without evidence count as 0. Any memory may rank.",),
)
