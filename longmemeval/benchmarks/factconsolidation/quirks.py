"""Counts of oddities in a file of FactConsolidation: they break no rule but can mislead."""

from msgspec import Struct

from longmemeval.benchmarks.factconsolidation.chunks import ENCODING
from longmemeval.benchmarks.factconsolidation.loader import FactConsolidationDataset
from longmemeval.llm.tokens import encoding_counter

OFFICIAL_LIMIT = 10


class FactConsolidationQuirks(Struct):
    """Counts of each oddity."""

    questions_without_known_facts: int = 0
    """Questions about another list than the published one, for which the measures of changes have no value."""
    answers_that_need_an_overruled_fact: int = 0
    """Official answers that contradict the rule of the benchmark that the newest fact wins."""
    of_those_multi_hop: int = 0
    questions_without_a_change: int = 0
    """Questions without an overruled fact, which world knowledge or chance may answer."""
    answers_beyond_the_limit: int = 0
    """Official answers of more than the official limit of 10 tokens."""


def factconsolidation_quirks(dataset: FactConsolidationDataset) -> FactConsolidationQuirks:
    """Count the oddities of a file."""
    quirks, count = FactConsolidationQuirks(), encoding_counter(ENCODING).count
    for question in dataset.questions():
        gold = dataset.fact_gold(question.question_id)
        quirks.questions_without_known_facts += not gold.evidence_turns
        quirks.answers_that_need_an_overruled_fact += not gold.consistent
        quirks.of_those_multi_hop += not gold.consistent and gold.question_type == "multi-hop"
        quirks.questions_without_a_change += bool(gold.evidence_turns) and not gold.superseded
        quirks.answers_beyond_the_limit += count(str(gold.answer)) > OFFICIAL_LIMIT
    return quirks
