"""The specification of LoCoMo (Maharana et al. 2024)."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from longmemeval.benchmarks.locomo.recall import OFFICIAL_RECALL, STANDARD
from longmemeval.benchmarks.spec import Benchmark, OfficialAnswering
from longmemeval.core.on_demand import on_demand
from longmemeval.dataset import Dataset
from longmemeval.judges.plants.answers import answer_planting
from longmemeval.judges.question_types import QuestionTypes
from longmemeval.records import Gold, Question

if TYPE_CHECKING:
    from longmemeval.benchmarks.locomo.texts import ProtocolTexts

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
    if gold.trap is None or question.options:
        return gold
    return replace(gold, question_type=OPEN_ABSTENTION)


def _record(seed: int, texts: "ProtocolTexts | None", whole_history: bool) -> dict[str, Any]:
    from longmemeval.benchmarks.locomo.texts import protocol_record

    return protocol_record(seed, texts)


def _as_asked(dataset: Dataset, questions: Sequence[Question], record: Mapping[str, Any]) -> list[Question]:
    from longmemeval.benchmarks.locomo.protocol import official_questions
    from longmemeval.benchmarks.locomo.texts import recorded_texts

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
    types=QuestionTypes(order=tuple(ABILITIES), abilities=ABILITIES),
    default_judge="offline/locomo-f1",
    prompts="lenient",
    planting=answer_planting(),
    answering=OfficialAnswering(
        record=_record,
        questions=_as_asked,
        note=on_demand("longmemeval.benchmarks.locomo.texts:wording_note"),
        reading="short",
        load_texts=on_demand("longmemeval.benchmarks.locomo.texts:load_texts"),
        text_endings=(".json", ".yaml", ".yml"),
        recorded_texts=on_demand("longmemeval.benchmarks.locomo.texts:recorded_texts"),
        prompts=lambda texts: (texts.prompt, texts.adversarial_prompt),
    ),
    gold_as_asked=_gold_as_asked,
    retrieval=STANDARD,
    official_retrieval=OFFICIAL_RECALL,
    audit_id=_audit_id,
    quirks=on_demand("longmemeval.benchmarks.locomo.quirks:locomo_quirks"),
    copy=lambda dataset: dataset.copy,
    footnotes={
        OPEN_ABSTENTION: "Open abstention: adversarial questions asked without their two options. These figures and "
        "those over all five categories do not compare with published ones; `run --protocol official` offers the "
        "options, in our words unless --template brings the official ones."
    },
)
