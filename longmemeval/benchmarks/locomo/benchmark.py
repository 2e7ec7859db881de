"""The specification of LoCoMo (Maharana et al. 2024), and its own retrieval recall (`task_eval/` in its repository).

The official code ranks the turns of a conversation ("dialog"), or summaries of its sessions, by a dense retriever. The
units and their scoring are the protocol, but the retriever is not: here any memory may rank.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from longmemeval.benchmarks.retrieval_protocols import GoldRule, OfficialScoring, RetrievalRules, evidence
from longmemeval.benchmarks.spec import Benchmark, OfficialAnswering
from longmemeval.core.on_demand import on_demand
from longmemeval.dataset import Dataset
from longmemeval.judges.plants.answers import answer_planting
from longmemeval.judges.question_types import QuestionTypes
from longmemeval.measures.compute import compute, recall
from longmemeval.measures.notation import Granularity, Measure
from longmemeval.measures.notation import recall as recall_at
from longmemeval.records import Gold, Question

if TYPE_CHECKING:
    from longmemeval.benchmarks.locomo.protocol import ProtocolTexts


TURN_CUTOFFS = (5, 10, 25, 50)
SESSION_CUTOFFS = (2, 5, 10)
"""Cutoffs of the paper's Table 3."""


def locomo_recall(evidence: Sequence[str], retrieved: Sequence[str]) -> float:
    """Return the official recall of one question, rounded to 3 decimals like the official one.

    Evidence counts as in the data: a repeated id counts twice, and a malformed one is never found. The reported means
    are over all questions, and a question without evidence counts as 0, which is its value here.

    Args:
        evidence: the raw evidence strings, such as `D1:3`.
        retrieved: ids of the units within the cutoff, flattened: an observation made from three turns adds three ids.
            If the first begins with `S`, the units are sessions (`S1`), and evidence is found by its session.

    Returns:
        A fraction between 0 and 1.
    """
    if not evidence:
        return 0.0
    if retrieved and retrieved[0].startswith("S"):
        evidence = [f"S{_session_number(turn_id)}" for turn_id in evidence]
    ids = frozenset(retrieved)
    return round(sum(identifier in ids for identifier in evidence) / len(evidence), 3)


def locomo_recall_strict(evidence: Collection[str], retrieved: Sequence[str]) -> float | None:
    """Return the recall of repaired evidence, over distinct existing ids and not rounded; None without evidence.

    Args:
        evidence: repaired ids of the same level (turns or sessions) as `retrieved`.
        retrieved: ids of the units within the cutoff, flattened.
    """
    return recall(retrieved, evidence, len(retrieved)) if evidence else None


def _session_number(turn_id: str) -> str:
    """Return `1` for `D1:3`."""
    return turn_id.partition(":")[0][1:]


def _summary_id_of(thread_id: str) -> str:
    """Return LoCoMo's id of a session: `session_3` → `S3`."""
    return "S" + thread_id.removeprefix("session_")


def official_rule(level: "Granularity") -> GoldRule:
    """Return the rule that scores raw evidence strings by `locomo_recall`."""
    from longmemeval.benchmarks.locomo.format import dia_id_of

    name = dia_id_of if level == "turn" else _summary_id_of

    def score(measure: Measure, ranked: Sequence[str], gold: Gold, _: Sequence[str]) -> float | None:
        return locomo_recall(gold.evidence_raw, [name(identifier) for identifier in ranked[: measure.cutoff]])

    return GoldRule(
        "locomo official",
        "all categories, those without evidence counted as 0",
        score,
        measures=lambda measure: measure.name == "recall",
    )


def strict_rule(level: "Granularity") -> GoldRule:
    """Return the rule that scores repaired evidence; a question without evidence has no value."""

    def score(measure: Measure, ranked: Sequence[str], gold: Gold, history: Sequence[str]) -> float | None:
        if measure.name == "recall":
            return locomo_recall_strict(evidence(gold, level), ranked[: measure.cutoff])
        return compute(measure, ranked, evidence(gold, level), history)

    return GoldRule("locomo strict (repaired evidence)", "all categories", score)


STANDARD = RetrievalRules(
    level="turn",
    kinds=(recall_at,),
    cutoffs=TURN_CUTOFFS,
    whole=(),
    rules=lambda level: (official_rule(level), strict_rule(level)),
)
"""Both rules: the official recall first, if a recall is among the measures."""

OFFICIAL_RECALL = OfficialScoring(
    level="turn",
    measures={
        "turn": tuple(recall_at @ cutoff for cutoff in TURN_CUTOFFS),
        "session": tuple(recall_at @ cutoff for cutoff in SESSION_CUTOFFS),
    },
    rules=lambda level: (official_rule(level),),
    notes=("Official recall: raw evidence ids, questions without evidence count as 0. Any memory may rank.",),
)


CITATION = """@inproceedings{maharana2024locomo,
  title = {Evaluating Very Long-Term Conversational Memory of LLM Agents},
  author = {Maharana, Adyasha and Lee, Dong-Ho and Tulyakov, Sergey and Bansal, Mohit and Barbieri, Francesco \
and Fang, Yuwei},
  booktitle = {Proceedings of the 62nd Annual Meeting of the Association for Computational Linguistics},
  year = {2024},
  eprint = {2402.17753},
  archivePrefix = {arXiv}
}"""
OPEN_ABSTENTION = "open abstention"
"""The type of an adversarial question whose two options were not shown: another task than the official one."""
ABILITIES = {
    "single-hop": "fact-recall",
    "multi-hop": "multi-hop",
    "temporal": "temporal",
    "open-domain": "inference",
    "adversarial": "abstention",
    OPEN_ABSTENTION: "abstention",
}
"""Ability of each category, in the order of the paper's tables (4, 1, 2, 3, 5) and of `evaluation_stats.py`."""

_PUBLISHED_ID = re.compile(r"locomo_(\d{1,3})_qa(\d{1,6})", re.ASCII)


def _gold_as_asked(gold: Gold, question: Question) -> Gold:
    """Return the gold under another type if the two options of an adversarial question were not shown.

    This makes it another task than the official one.
    """
    if not gold.abstention or question.options:
        return gold
    return replace(gold, question_type=OPEN_ABSTENTION)


def _record(seed: int, texts: "ProtocolTexts | None", whole_history: bool) -> dict[str, Any]:
    from longmemeval.benchmarks.locomo.protocol import protocol_record

    return protocol_record(seed, texts)


def _as_asked(dataset: Dataset, questions: Sequence[Question], record: Mapping[str, Any]) -> list[Question]:
    from longmemeval.benchmarks.locomo.protocol import official_questions, recorded_texts

    return official_questions(dataset, questions, record["seed"], recorded_texts(record))


def _audit_id(identifier: str, haystack_ids: Sequence[str]) -> str:
    """Map an id of the public audit (dial481/locomo-audit): conversation and question number, both counted from 0."""
    match = _PUBLISHED_ID.fullmatch(identifier)
    if match is None or int(match[1]) >= len(haystack_ids):
        return identifier
    return f"{haystack_ids[int(match[1])]}/q{int(match[2])}"


LOCOMO = Benchmark(
    name="locomo",
    title="LoCoMo",
    claims=lambda data: bool(data.keys & {"conversation", "qa"}),
    load=on_demand("longmemeval.benchmarks.locomo.loader:LocomoDataset"),
    shape="records with sample_id, conversation and qa",
    options=frozenset({"captions", "allow_tainted"}),
    licence="CC BY-NC 4.0",
    citation=CITATION,
    catalogue=Path(__file__).with_name("catalogue.json"),
    audits=Path(__file__).with_name("audits.json"),
    types=QuestionTypes(order=tuple(ABILITIES), abilities=ABILITIES),
    default_judge="offline/locomo-f1",
    prompts="lenient",
    planting=answer_planting(),
    answering=OfficialAnswering(
        record=_record,
        questions=_as_asked,
        note=on_demand("longmemeval.benchmarks.locomo.protocol:wording_note"),
        reading="short",
        load_texts=on_demand("longmemeval.benchmarks.locomo.protocol:load_texts"),
        text_endings=(".json", ".yaml", ".yml"),
        recorded_texts=on_demand("longmemeval.benchmarks.locomo.protocol:recorded_texts"),
        prompts=lambda texts: (texts.prompt, texts.adversarial_prompt),
    ),
    gold_as_asked=_gold_as_asked,
    retrieval=STANDARD,
    official_retrieval=OFFICIAL_RECALL,
    audit_id=_audit_id,
    quirks=on_demand("longmemeval.benchmarks.locomo.loader:locomo_quirks"),
    copy=lambda dataset: dataset.copy,
    footnotes={
        OPEN_ABSTENTION: "Open abstention: adversarial questions asked without their two options. These figures and "
        "those over all five categories do not compare with published ones; `run --protocol official` offers the "
        "options, in our words unless --template brings the official ones."
    },
)
