"""The specification of LongMemEval (Wu et al. 2025)."""

from pathlib import Path

from longmemeval.benchmarks.retrieval_protocols import OfficialRanking, RetrievalRules, evidence_rule
from longmemeval.benchmarks.spec import Benchmark, Sniffed
from longmemeval.core.on_demand import on_demand
from longmemeval.judges.plants.answers import answer_planting
from longmemeval.judges.question_types import QuestionTypes

CITATION = """@inproceedings{wu2025longmemeval,
  title = {LongMemEval: Benchmarking Chat Assistants on Long-Term Interactive Memory},
  author = {Wu, Di and Wang, Hongwei and Yu, Wenhao and Zhang, Yuwei and Chang, Kai-Wei and Yu, Dong},
  booktitle = {International Conference on Learning Representations},
  year = {2025},
  eprint = {2410.10813},
  archivePrefix = {arXiv}
}"""

ORDER = (
    "single-session-user",
    "single-session-preference",
    "single-session-assistant",
    "multi-session",
    "temporal-reasoning",
    "knowledge-update",
)
"""The question types in the order in which the official script prints them."""

_OWN_KEYS = frozenset({"haystack_dates", "haystack_session_ids", "haystack_sessions", "answer_session_ids"})


def _claims(data: Sniffed) -> bool:
    """Return whether data has keys that no other has: these, a question's id and type, or only the id (cut off)."""
    return bool(data.keys & _OWN_KEYS) or {"question_id", "question_type"} <= data.keys or data.keys == {"question_id"}


LONGMEMEVAL = Benchmark(
    name="longmemeval",
    title="LongMemEval",
    claims=_claims,
    load=on_demand("longmemeval.benchmarks.longmemeval.loader:LongMemEvalDataset"),
    shape="records with question_id, question, haystack_sessions and more",
    licence="MIT",
    citation=CITATION,
    catalogue=Path(__file__).with_name("catalogue.json"),
    audits=Path(__file__).with_name("audits.json"),
    types=QuestionTypes(
        order=ORDER,
        abilities={
            "single-session-user": "fact-recall",
            "single-session-assistant": "fact-recall",
            "single-session-preference": "preference",
            "multi-session": "multi-hop",
            "temporal-reasoning": "temporal",
            "knowledge-update": "knowledge-update",
        },
        average_needs=frozenset(ORDER),
        official_figures=on_demand("longmemeval.benchmarks.longmemeval.official.scoring:official_figures"),
    ),
    default_judge="openai/gpt-4o-2024-08-06",
    prompts="longmemeval",
    # Its prompts accept a text that contains the answer, so a judge may rightly accept it next to a wrong answer.
    planting=answer_planting(described=("single-session-preference",), without=("both",), judged_in="sample"),
    log_judge="gpt-4o-2024-08-06",
    unit=lambda dataset, question: dataset.units[question.question_id],
    retrieval=RetrievalRules(
        rules=lambda level: [evidence_rule(level, turns="evidence turns (any role)", sessions="answer_session_ids")]
    ),
    official_retrieval=OfficialRanking(
        level="session",
        ranker=on_demand("longmemeval.benchmarks.longmemeval.official.retrieval:official_ranker"),
        score=on_demand("longmemeval.benchmarks.longmemeval.official.scoring:scored_again"),
        gold_ids=on_demand("longmemeval.benchmarks.longmemeval.official.measures:official_gold"),
        shown_cutoffs=(5, 10),
        notes=on_demand("longmemeval.benchmarks.longmemeval.official.retrieval:notes"),
    ),
    quirks=on_demand("longmemeval.benchmarks.longmemeval.quirks:longmemeval_quirks"),
)
