"""What a benchmark says of the types of its questions, as far as scores and tables need it."""

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from longmemeval.judges.protocol import JudgeIdentity
from longmemeval.records import Gold

ABILITIES = ("fact-recall", "multi-hop", "temporal", "inference", "preference", "knowledge-update", "abstention")
"""The vocabulary all benchmarks share: what ability a question asks for. In the order tables show them."""
OTHER = "other"


class OfficialFigures(Struct, frozen=True):
    """What a benchmark's own script prints: fractions rounded as it does, None where it prints NaN."""

    by_type: dict[str, float | None]
    task_averaged: float | None
    overall: float | None
    abstention: float | None


class Labels(Struct, frozen=True):
    """What one judge says of a run, for a benchmark's own script."""

    judge: JudgeIdentity
    official: bool
    """Whether it is the benchmark's own judge, by the server's word too."""
    golds: Sequence[Gold]
    """Of all selected questions."""
    labels: Mapping[str, bool]
    """By question id; those that were not evaluated are absent."""
    times: Mapping[str, int] | None = None
    """How often a question is in an imported log, where that is not once."""


class QuestionTypes(Struct, frozen=True):
    """The types of a benchmark's questions."""

    order: tuple[str, ...] = ()
    """In the order of the authors' tables; types that grading derives from others included. Others follow by name."""
    abilities: Mapping[str, str] = {}
    """Type to one of `ABILITIES`."""
    several_evidence: tuple[str, ...] = ()
    """Types whose questions have one or several evidence messages (`Gold.facets["evidence"]`), and may then have
    prompts of their own."""
    multi_hop_by_evidence: frozenset[str] = frozenset()
    """Types that ask for one fact or, with several evidence messages, for several together."""
    average_needs: frozenset[str] = frozenset()
    """Types without all of which there is no mean over the types."""
    official_figures: Callable[[Labels], OfficialFigures | None] | None = None
    """What the benchmark's own script prints of the same labels; None where it would refuse them."""

    def ability_of(self, gold: Gold) -> str:
        """One of `ABILITIES`, `OTHER` for a type that says none.

        An unanswerable question asks for abstention, whatever its type.
        """
        if gold.abstention:
            return "abstention"
        if gold.question_type in self.multi_hop_by_evidence and gold.facets.get("evidence", 1) > 1:
            return "multi-hop"
        return self.abilities.get(gold.question_type, OTHER)


ANY_TYPES = QuestionTypes()
"""Of data about which nothing is known."""
