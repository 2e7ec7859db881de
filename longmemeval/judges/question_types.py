"""Facts about the question types of a benchmark that scores and tables need."""

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from longmemeval.judges.protocol import JudgeIdentity
from longmemeval.records import Gold

ABSTENTION = "abstention"
ABILITIES = ("fact-recall", "multi-hop", "temporal", "inference", "preference", "knowledge-update", ABSTENTION)
"""The vocabulary of abilities that all benchmarks share, in the order of tables."""
OTHER = "other"


class OfficialFigures(Struct, frozen=True):
    """The output of a benchmark's own script: fractions rounded as it does, None where it prints NaN."""

    by_type: dict[str, float | None]
    task_averaged: float | None
    overall: float | None
    abstention: float | None


class Labels(Struct, frozen=True):
    """The labels of one judge for a run, as input of a benchmark's own script."""

    judge: JudgeIdentity
    official: bool
    """True if it is the benchmark's own judge, as confirmed by the server."""
    golds: Sequence[Gold]
    """Gold of all selected questions."""
    labels: Mapping[str, bool]
    """Labels by question id; questions that were not evaluated are absent."""
    times: Mapping[str, int] | None = None
    """Number of times a question is in an imported log, if not once."""


class QuestionTypes(Struct, frozen=True):
    """The types of a benchmark's questions."""

    order: tuple[str, ...] = ()
    """Order of the authors' tables, including types that grading derives from others. Others follow alphabetically."""
    abilities: Mapping[str, str] = {}
    """Type to one of `ABILITIES`."""
    several_evidence: tuple[str, ...] = ()
    """Types whose questions have one or several evidence messages (`Gold.facets["evidence"]`), and may then have
    prompts of their own."""
    multi_hop_by_evidence: frozenset[str] = frozenset()
    """Types that ask for one fact or, with several evidence messages, for several together."""
    average_needs: frozenset[str] = frozenset()
    """Types that must all be present for a mean over the types."""
    official_figures: Callable[[Labels], OfficialFigures | None] | None = None
    """Returns the output of the benchmark's own script for the same labels; None if it would refuse them."""

    def ability_of(self, gold: Gold) -> str:
        """Return one of `ABILITIES`, or `OTHER` for a type without one.

        An unanswerable question asks for abstention, whatever its type.
        """
        if gold.abstention:
            return ABSTENTION
        if gold.question_type in self.multi_hop_by_evidence and gold.facets.get("evidence", 1) > 1:
            return "multi-hop"
        return self.abilities.get(gold.question_type, OTHER)


ANY_TYPES = QuestionTypes()
"""Question types of data about which nothing is known."""
