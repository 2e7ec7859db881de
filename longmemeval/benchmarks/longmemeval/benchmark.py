"""The specification of LongMemEval (Wu et al. 2025)."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from longmemeval.benchmarks.longmemeval.loader import LongMemEvalDataset, Record
from longmemeval.benchmarks.longmemeval.official.figures import ORDER, official_figures
from longmemeval.benchmarks.longmemeval.quirks import longmemeval_quirks
from longmemeval.benchmarks.retrieval_protocols import (
    OfficialRanker,
    OfficialRanking,
    RankedRun,
    RankingRequest,
    RetrievalRules,
    evidence_rule,
)
from longmemeval.benchmarks.spec import Benchmark, Sniffed
from longmemeval.dataset import Dataset
from longmemeval.judges.plants.answers import answer_planting
from longmemeval.judges.question_types import QuestionTypes

if TYPE_CHECKING:
    from longmemeval.measures.rankings import Granularity, RetrievalResult

CITATION = """@inproceedings{wu2025longmemeval,
  title = {LongMemEval: Benchmarking Chat Assistants on Long-Term Interactive Memory},
  author = {Wu, Di and Wang, Hongwei and Yu, Wenhao and Zhang, Yuwei and Chang, Kai-Wei and Yu, Dong},
  booktitle = {International Conference on Learning Representations},
  year = {2025},
  eprint = {2410.10813},
  archivePrefix = {arXiv}
}"""

_OWN_KEYS = frozenset(name for name in Record.__struct_fields__ if "haystack" in name) | {"answer_session_ids"}


def _claims(data: Sniffed) -> bool:
    """Return whether data has keys that no other has: these, a question's id and type, or the id alone (cut off)."""
    return bool(data.keys & _OWN_KEYS) or {"question_id", "question_type"} <= data.keys or data.keys == {"question_id"}


# The official protocol of retrieval needs numpy and more: it is imported on demand.


def _ranker(request: RankingRequest) -> OfficialRanker:
    from longmemeval.benchmarks.longmemeval.official.retrieval import official_ranker

    return official_ranker(request)


def _score(
    dataset: Dataset, level: "Granularity", rankings: Mapping[str, Sequence[str]], memory: str
) -> "tuple[RetrievalResult, ...]":
    from longmemeval.benchmarks.longmemeval.official.scoring import scored_again

    return scored_again(dataset, level, rankings, memory)


def _gold_ids(ranked: Iterable[str]) -> Iterable[str]:
    from longmemeval.benchmarks.longmemeval.official.measures import official_gold

    return official_gold(ranked)


def _notes(runs: Sequence[RankedRun]) -> list[str]:
    from longmemeval.benchmarks.longmemeval.official.notes import notes

    return notes(runs)


LONGMEMEVAL = Benchmark(
    name="longmemeval",
    title="LongMemEval",
    claims=_claims,
    load=LongMemEvalDataset,
    shape="records with question_id, question, haystack_sessions and more",
    licence="MIT",
    citation=CITATION,
    catalogue=Path(__file__).with_name("catalogue.json"),
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
        official_figures=official_figures,
    ),
    default_judge="openai/gpt-4o-2024-08-06",
    prompts="longmemeval",
    # Its prompts accept what contains the answer, so that a judge may rightly accept it next to a wrong one.
    planting=answer_planting(described=("single-session-preference",), without=("both",)),
    log_judge="gpt-4o-2024-08-06",
    retrieval=RetrievalRules(
        rules=lambda level: [evidence_rule(level, turns="evidence turns (any role)", sessions="answer_session_ids")]
    ),
    official_retrieval=OfficialRanking(
        level="session",
        ranker=_ranker,
        score=_score,
        gold_ids=_gold_ids,
        shown_cutoffs=(5, 10),
        notes=_notes,
    ),
    quirks=longmemeval_quirks,
    published=Path(__file__).with_name("published.json"),
)
