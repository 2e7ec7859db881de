"""The specification of ConvoMem (Pakhomov, Nijkamp and Xiong 2025)."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from longmemeval.benchmarks.retrieval_protocols import GoldRule, RetrievalRules, evidence_rule
from longmemeval.benchmarks.spec import Benchmark, Sniffed
from longmemeval.core.on_demand import on_demand
from longmemeval.judges.definition import JudgeDefinition
from longmemeval.judges.plants.answers import answer_planting
from longmemeval.judges.question_types import QuestionTypes

if TYPE_CHECKING:
    from longmemeval.measures.notation import Granularity


CITATION = """@misc{pakhomov2025convomem,
  title = {ConvoMem Benchmark: Why Your First 150 Conversations Don't Need RAG},
  author = {Pakhomov, Egor and Nijkamp, Erik and Xiong, Caiming},
  year = {2025},
  eprint = {2511.10523},
  archivePrefix = {arXiv}
}"""

ABILITIES = {
    "abstention": "abstention",
    "assistant-facts": "fact-recall",
    "changing-facts": "knowledge-update",
    "implicit-connections": "inference",
    "preferences": "preference",
    "user-facts": "fact-recall",
}
TYPES = QuestionTypes(
    order=tuple(ABILITIES),
    abilities=ABILITIES,
    several_evidence=("user-facts", "assistant-facts", "changing-facts", "preferences", "implicit-connections"),
    multi_hop_by_evidence=frozenset({"user-facts", "assistant-facts"}),
)


_claims_folder = on_demand("longmemeval.benchmarks.convomem.format:claims_folder")


def _claims(data: Sniffed) -> bool:
    return _claims_folder(data.path) if data.is_folder else bool(data.keys & {"evidence_items", "evidenceItems"})


def _rules(level: "Granularity") -> Sequence[GoldRule]:
    return [
        evidence_rule(
            level,
            turns="messages that say an evidence text",
            sessions="the question's evidence conversations",
        )
    ]


CONVOMEM = Benchmark(
    name="convomem",
    title="ConvoMem",
    claims=_claims,
    load=on_demand("longmemeval.benchmarks.convomem.loader:ConvoMemDataset"),
    shape="evidence_items or evidenceItems, in files <category>/<n>_evidence/*.json",
    licence="CC BY-NC 4.0",
    citation=CITATION,
    catalogue=Path(__file__).with_name("catalogue.json"),
    types=TYPES,
    default_judge="gemini/gemini-2.5-flash",
    prompts="convomem",
    planting=answer_planting(described=("preferences", "implicit-connections")),
    retrieval=RetrievalRules(rules=_rules),
    quirks=on_demand("longmemeval.benchmarks.convomem.loader:convomem_quirks"),
    stand_in_dates=True,
)


# ConvoMem's own judge.

PROMPTS = JudgeDefinition(prompt_set=Path(__file__).with_name("judge_prompts.json"))
"""Our wording of the rules by which its authors have Gemini 2.5 Flash grade."""
