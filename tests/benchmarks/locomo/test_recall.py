import json
import re
from typing import Any

import pytest

from longmemeval.benchmarks.locomo.benchmark import LOCOMO, locomo_recall, locomo_recall_strict
from longmemeval.measures import recall
from longmemeval.measures.notation import QuestionValues, aggregate
from tests.conftest import real_file


@pytest.mark.parametrize(
    ("evidence", "retrieved", "expected"),
    [
        (["D1:1", "D1:2", "D2:1"], ["D1:1", "D2:1", "D9:9"], 0.667),
        (["D1:1", "D1:2", "D2:1"], [], 0.0),
        (["D1:1"], ["D1:1"], 1.0),
        # A repeated id counts twice, a malformed one is never found.
        (["D4:5", "D4:5", "D7:1"], ["D4:5"], 0.667),
        (["D8:6; D9:17"], ["D8:6", "D9:17"], 0.0),
        ([], ["D1:1"], 0.0),
        ([], [], 0.0),
        # Sessions: a turn is found when its session is.
        (["D1:1", "D12:4"], ["S12"], 0.5),
        (["D1:1"], ["S12"], 0.0),
        (["D"], ["S1"], 0.0),
    ],
)
def test_official_recall(evidence: list[str], retrieved: list[str], expected: float) -> None:
    assert locomo_recall(evidence, retrieved) == expected


@pytest.mark.parametrize(
    ("evidence", "retrieved", "expected"),
    [
        (["D1:1", "D1:2", "D2:1"], ["D1:1", "D2:1", "D9:9"], 2 / 3),
        (["D4:5", "D4:5", "D7:1"], ["D4:5"], 1 / 2),
        (["D1:1"], [], 0.0),
        ([], ["D1:1"], None),
    ],
)
def test_strict_recall(evidence: list[str], retrieved: list[str], expected: float | None) -> None:
    assert locomo_recall_strict(evidence, retrieved) == expected


Conversation = dict[str, Any]
CATEGORIES = {4: "single-hop", 1: "multi-hop", 2: "temporal", 3: "open-domain", 5: "adversarial"}


def turn_ids(sample: Conversation) -> list[str]:
    sessions = [value for value in sample["conversation"].values() if isinstance(value, list)]
    return [turn["dia_id"] for session in sessions for turn in session]


def session_ids(sample: Conversation) -> list[str]:
    return sorted({f"S{turn_id.split(':')[0][1:]}" for turn_id in turn_ids(sample)})


@pytest.fixture(scope="module")
def conversations() -> list[Conversation]:
    loaded: list[Conversation] = json.loads(real_file("locomo10.json").read_bytes())
    return loaded


@pytest.mark.parametrize(
    ("level", "by_category", "overall"),
    [
        ("turn", [99.96, 99.43, 99.69, 92.71, 100.0], 99.50),
        ("session", [99.96, 99.95, 100.0, 95.83, 100.0], 99.77),
    ],
)
def test_ceilings_of_the_official_recall_on_the_real_file(
    conversations: list[Conversation], level: str, by_category: list[float], overall: float
) -> None:
    questions = []
    for sample in conversations:
        everything = turn_ids(sample) if level == "turn" else session_ids(sample)
        for index, question in enumerate(sample["qa"]):
            value = locomo_recall(question["evidence"], everything)
            question_id, category = f"{sample['sample_id']}:{index}", CATEGORIES[question["category"]]
            questions.append(QuestionValues(question_id, category, sample["sample_id"], {"recall@5": value}))
    summary = aggregate(questions, [recall @ 5], "empty evidence counts as 0", type_order=LOCOMO.types.order)
    assert summary.denominator == "1,986 questions: empty evidence counts as 0"
    assert list(summary.by_type) == list(CATEGORIES.values())
    means = [means["recall@5"].mean for means in summary.by_type.values()]
    assert [round(100 * mean, 2) for mean in means if mean is not None] == by_category
    mean = summary.measures["recall@5"].mean
    assert mean is not None
    assert round(100 * mean, 2) == overall


@pytest.mark.slow
def test_repaired_evidence_can_be_found_whole(conversations: list[Conversation]) -> None:
    values = []
    for sample in conversations:
        known = turn_ids(sample)
        for question in sample["qa"]:
            numbers = re.findall(r"D:?(\d+):(\d+)", " ".join(question["evidence"]))
            repaired = [one for session, turn in numbers if (one := f"D{int(session)}:{int(turn)}") in known]
            values.append(locomo_recall_strict(repaired, known))
    assert (values.count(1.0), values.count(None), len(values)) == (1982, 4, 1986)
