"""The specification of FactConsolidation (Hu et al. 2025)."""

from collections.abc import Sequence
from pathlib import Path

from longmemeval.benchmarks.retrieval_protocols import GoldRule, RetrievalRules, change_rule, evidence_rule
from longmemeval.benchmarks.spec import Benchmark, OfficialAnswering
from longmemeval.core.on_demand import on_demand
from longmemeval.judges.plants.answers import answer_planting
from longmemeval.judges.question_types import QuestionTypes
from longmemeval.measures.notation import Granularity, current_recall, stale_first, stale_shown

CITATION = """@misc{hu2025memoryagentbench,
  title = {Evaluating Memory in LLM Agents via Incremental Multi-Turn Interactions},
  author = {Hu, Yuanzhe and Wang, Yu and McAuley, Julian},
  year = {2025},
  eprint = {2507.05257},
  archivePrefix = {arXiv}
}"""
_CONTROL = (
    "FactConsolidation's substring score: the whole list as the answer scores 100% (offline/parrot), and so does "
    "naming the old and the new value. Only the limit of 10 tokens under --protocol official prevents this."
)


def _rules(level: "Granularity") -> Sequence[GoldRule]:
    if level == "session":
        return [evidence_rule(level, sessions="sessions of the current facts")]

    without = "whose official answer contradicts the newest facts, or without an overruled fact,"
    return [change_rule("current facts", without=without)]


FACTCONSOLIDATION = Benchmark(
    name="factconsolidation",
    title="FactConsolidation",
    claims=lambda data: {"context", "questions", "answers", "metadata"} <= data.keys,
    load=on_demand("longmemeval.benchmarks.factconsolidation.loader:FactConsolidationDataset"),
    shape="records with context, questions, answers and metadata, the rows of MemoryAgentBench as Parquet or JSON",
    options=frozenset({"chunk_tokens"}),
    licence="MIT",
    audits=Path(__file__).with_name("audits.json"),
    citation=CITATION,
    types=QuestionTypes(
        order=("single-hop", "multi-hop"), abilities={"single-hop": "knowledge-update", "multi-hop": "multi-hop"}
    ),
    default_judge="offline/factconsolidation",
    prompts="strict",
    planting=answer_planting(),
    answering=OfficialAnswering(
        record=on_demand("longmemeval.benchmarks.factconsolidation.judges:protocol_record"),
        note=on_demand("longmemeval.benchmarks.factconsolidation.judges:protocol_note"),
        compose=on_demand("longmemeval.benchmarks.factconsolidation.judges:compose"),
        max_tokens=10,
        temperature=0.7,
    ),
    retrieval=RetrievalRules(
        level="turn", kinds=(current_recall, stale_shown), cutoffs=(5, 10), whole=(stale_first,), rules=_rules
    ),
    quirks=on_demand("longmemeval.benchmarks.factconsolidation.loader:factconsolidation_quirks"),
    stand_in_dates=True,
    unit=lambda dataset, question: dataset.units[question.question_id],
    footnotes={
        "single-hop": _CONTROL,
        "multi-hop": "63 of the 400 official multi-hop answers need a fact that a newer one overrules, and so do 7 of "
        "the 400 single-hop ones: 'newest wins 1' has the questions where the rule of the benchmark gives its answer.",
    },
)
