"""The specification of our made-up lives, which probe the behaviour of a memory over time."""

from collections.abc import Sequence

from longmemeval.benchmarks.retrieval_protocols import GoldRule, RetrievalRules, change_rule, evidence_rule
from longmemeval.benchmarks.spec import Benchmark
from longmemeval.core.on_demand import on_demand
from longmemeval.judges.plants.answers import answer_planting
from longmemeval.judges.question_types import QuestionTypes
from longmemeval.measures.notation import Granularity, current_first, current_recall, stale_shown

ABILITIES = {
    "update": "knowledge-update",
    "as of a day": "temporal",
    "two people": "fact-recall",
    "hostile text": "fact-recall",
    "in the noise": "fact-recall",
}


def _rules(level: "Granularity") -> Sequence[GoldRule]:
    if level == "session":
        return [evidence_rule(level)]
    return [change_rule("statements of a made-up life", without="that nothing contradicts")]


LIVES = Benchmark(
    name="lives",
    title="Made-up lives",
    claims=lambda data: {"lives_seed", "lives", "sessions"} <= data.keys,
    load=on_demand("longmemeval.benchmarks.lives.making:LivesDataset"),
    shape="an object with lives_seed, lives and sessions, as `longmemeval probe` writes it",
    licence="ours",
    types=QuestionTypes(order=tuple(ABILITIES), abilities=ABILITIES),
    planting=answer_planting(),
    retrieval=RetrievalRules(
        level="turn", kinds=(current_first, current_recall, stale_shown), cutoffs=(10,), whole=(), rules=_rules
    ),
)
