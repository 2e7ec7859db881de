"""The specification of LoCoMo-Plus (Li et al. 2026)."""

from collections.abc import Sequence
from pathlib import Path

from longmemeval.benchmarks.retrieval_protocols import GoldRule, RetrievalRules, evidence_rule
from longmemeval.benchmarks.spec import Benchmark, OfficialAnswering
from longmemeval.core.on_demand import on_demand
from longmemeval.judges.plants.planting import SAID_OF_NOTHING, Kind, Planting
from longmemeval.judges.question_types import QuestionTypes
from longmemeval.measures.notation import Granularity, mrr, recall_all, recall_any

KINDS = {
    "linked": Kind(True, "a reply that quotes the cue"),
    "retold": Kind(True, "a reply that says the cue in the words of the one who heard it"),
    "linked-late": Kind(True, "a long reply that comes to the cue at its end"),
    "other-cue": Kind(False, "a reply linked to the cue of another item"),
    "general": Kind(False, "a reply that anybody could give"),
    "forgets": Kind(False, "a reply that says it knows of nothing"),
    **SAID_OF_NOTHING,
}

PLANTING = Planting(
    on=on_demand("longmemeval.benchmarks.locomo_plus.protocol:planted_on"),
    kinds=KINDS,
)


CITATION = """@inproceedings{li2026locomoplus,
  title = {Locomo-Plus: Beyond-Factual Cognitive Memory Evaluation Framework for LLM Agents},
  author = {Li, Yifei and Guo, Weidong and Zhang, Lingling and Xu, Rongman and Huang, Muye and Liu, Hui and Xu, Lijiao \
and Xu, Yu and Liu, Jun},
  booktitle = {Proceedings of the 64th Annual Meeting of the Association for Computational Linguistics},
  year = {2026},
  eprint = {2602.10715},
  archivePrefix = {arXiv}
}"""
COGNITIVE = "cognitive"
"""The one type of question."""


def _rules(level: "Granularity") -> Sequence[GoldRule]:
    return [
        evidence_rule(
            level,
            turns="turns of the cue, one or two",
            sessions="the session of the cue",
            denominator="all triggers, every one has a cue",
        )
    ]


LOCOMO_PLUS = Benchmark(
    name="locomo-plus",
    title="LoCoMo-Plus",
    claims=lambda data: {"cue_dialogue", "trigger_query"} <= data.keys,
    load=on_demand("longmemeval.benchmarks.locomo_plus.loader:LocomoPlusDataset"),
    shape="records with cue_dialogue, trigger_query and time_gap, beside locomo10.json",
    options=frozenset({"captions"}),
    licence="none stated; the conversations are LoCoMo's, CC BY-NC 4.0",
    citation=CITATION,
    catalogue=Path(__file__).with_name("catalogue.json"),
    types=QuestionTypes(order=(COGNITIVE,), abilities={COGNITIVE: "inference"}),
    default_judge="openai/gpt-4o-mini",
    prompts="locomo-plus",
    planting=PLANTING,
    answering=OfficialAnswering(
        record=on_demand("longmemeval.benchmarks.locomo_plus.protocol:protocol_record"),
        note=on_demand("longmemeval.benchmarks.locomo_plus.protocol:protocol_note"),
        compose=on_demand("longmemeval.benchmarks.locomo_plus.protocol:compose"),
        max_tokens=1024,
        temperature=0.3,
    ),
    retrieval=RetrievalRules(
        level="turn", kinds=(recall_any, recall_all), cutoffs=(5, 10, 25, 50), whole=(mrr,), rules=_rules
    ),
    quirks=on_demand("longmemeval.benchmarks.locomo_plus.loader:locomo_plus_quirks"),
)
