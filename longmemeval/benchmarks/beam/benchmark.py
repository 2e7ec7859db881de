"""The specification of BEAM (Tavakoli et al. 2026)."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from longmemeval.benchmarks.beam.planting import PLANTING
from longmemeval.benchmarks.retrieval_protocols import GoldRule, RetrievalRules, evidence_rule
from longmemeval.benchmarks.spec import Benchmark, OfficialAnswering
from longmemeval.core.on_demand import on_demand
from longmemeval.judges.question_types import OTHER, QuestionTypes

if TYPE_CHECKING:
    from longmemeval.measures.rankings import Granularity

CITATION = """@misc{tavakoli2025beam,
  title = {Beyond a Million Tokens: Benchmarking and Enhancing Long-Term Memory in LLMs},
  author = {Tavakoli, Mohammad and others},
  year = {2025},
  eprint = {2510.27246},
  archivePrefix = {arXiv}
}"""

ABILITIES = {
    "abstention": "abstention",
    "contradiction_resolution": "knowledge-update",
    "event_ordering": "temporal",
    "information_extraction": "fact-recall",
    "instruction_following": "preference",
    "knowledge_update": "knowledge-update",
    "multi_session_reasoning": "multi-hop",
    "preference_following": "preference",
    "summarization": OTHER,
    "temporal_reasoning": "temporal",
}
"""BEAM's ten abilities, in the order of its files, mapped to those that all benchmarks share."""


MAX_TOKENS = 2048
"""Maximum tokens of an answer under the official protocol."""

_claims_folder = on_demand("longmemeval.benchmarks.beam.layout:claims_folder")


def _rules(level: "Granularity") -> Sequence[GoldRule]:
    return [
        evidence_rule(
            level,
            turns="evidence messages (repaired ids)",
            sessions="sessions of the evidence messages",
            denominator="all but those without evidence (abstention, empty labels)",
        )
    ]


BEAM = Benchmark(
    name="beam",
    title="BEAM",
    claims=lambda data: data.is_folder and _claims_folder(data.path),
    load=on_demand("longmemeval.benchmarks.beam.loader:BeamDataset"),
    shape="a folder chats/<size> with <n>/chat.json and <n>/probing_questions/probing_questions.json",
    options=frozenset({"text", "markers"}),
    licence="none stated",
    citation=CITATION,
    catalogue=Path(__file__).with_name("catalogue.json"),
    types=QuestionTypes(order=tuple(ABILITIES), abilities=ABILITIES, average_needs=frozenset(ABILITIES)),
    default_judge="openai/gpt-4.1-mini",
    prompts="beam",
    planting=PLANTING,
    answering=OfficialAnswering(
        record=on_demand("longmemeval.benchmarks.beam.protocol:protocol_record"),
        note=on_demand("longmemeval.benchmarks.beam.protocol:protocol_note"),
        compose=on_demand("longmemeval.benchmarks.beam.protocol:compose"),
        max_tokens=MAX_TOKENS,
    ),
    retrieval=RetrievalRules(level="turn", rules=_rules),
    quirks=on_demand("longmemeval.benchmarks.beam.quirks:beam_quirks"),
    copy=lambda dataset: "cut where the official run reads cut texts" if dataset.text == "official" else "whole texts",
)
