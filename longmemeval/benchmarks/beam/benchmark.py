"""The specification of BEAM (Tavakoli et al. 2026)."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from longmemeval.benchmarks.retrieval_protocols import GoldRule, RetrievalRules, evidence_rule
from longmemeval.benchmarks.spec import Benchmark, OfficialAnswering
from longmemeval.core.on_demand import on_demand
from longmemeval.judges.plants.planting import SAID_OF_NOTHING, Kind, Planting
from longmemeval.judges.question_types import OTHER, QuestionTypes

if TYPE_CHECKING:
    from longmemeval.measures.notation import Granularity


KINDS = {
    "nuggets": Kind(True, "every nugget is stated"),
    "polite": Kind(True, "every nugget is stated inside a long, polite answer"),
    "answered": Kind(True, "nuggets that are stated, where others are left out"),
    "in-order": Kind(True, "the events in their order, a line each"),
    "declines": Kind(True, "an unanswerable question is declined"),
    "left-out": Kind(False, "nuggets that are left out, where others are stated"),
    "other-question": Kind(False, "the nuggets of another question of the same ability"),
    "changed-number": Kind(False, "the one nugget with another number"),
    "changed-date": Kind(False, "the one nugget with another day, month or year"),
    "reversed": Kind(False, "the events in reverse order, a line each"),
    "refusal": Kind(False, "an answerable question is declined"),
    "answers-unanswerable": Kind(False, "an unanswerable question gets an answer"),
    **SAID_OF_NOTHING,
}

PLANTING = Planting(
    on=on_demand("longmemeval.benchmarks.beam.plants:planted_on"),
    kinds=KINDS,
    graded_by=on_demand("longmemeval.benchmarks.beam.plants:graded_by"),
)


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

_claims_folder = on_demand("longmemeval.benchmarks.beam.format:claims_folder")


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
    quirks=on_demand("longmemeval.benchmarks.beam.loader:beam_quirks"),
    copy=lambda dataset: "cut where the official run reads cut texts" if dataset.text == "official" else "whole texts",
)
