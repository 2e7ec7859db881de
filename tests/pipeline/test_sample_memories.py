"""What the shipped sample shows of memories: it tells them apart, and no trick wins on it."""

import shutil
from math import comb

import pytest

from longmemeval.benchmarks.registry import load_dataset
from longmemeval.judges.offline.lexical import grade
from longmemeval.pipeline.run.plan import RunOptions
from longmemeval.pipeline.run.run import run
from tests.made_once import sample_demo
from tests.pipeline.helpers import answers, folders_in
from tests.support import ROOT

MEMORIES = ("oracle", "full-history", "hybrid", "bm25", "semantic-recall", "last-k")
CONTROLS = ("offline/refuse", "offline/parrot", "offline/last-session")

pytestmark = pytest.mark.slow

Labels = dict[str, bool]
"""Whether each question is answered rightly, by its id."""


@pytest.fixture(scope="module")
def labels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Labels]:
    """Of `offline/extractive` with each memory, and of each control with hybrid; graded by `offline/lexical`.

    All but two are runs of the demo.
    """
    folder = tmp_path_factory.mktemp("sample") / "demo"
    folders = folders_in(shutil.copytree(sample_demo(tmp_path_factory).folder, folder))
    dataset = load_dataset("sample", ROOT / "data")
    questions = {question.question_id: question for question in dataset.questions()}
    found: dict[str, Labels] = {}
    for label in (*MEMORIES, *CONTROLS):
        run_id = f"demo-{label.rpartition('/')[2]}"
        if not (folders.results_dir / run_id).exists():
            assert label in ("offline/refuse", "offline/last-session")
            run(dataset, "hybrid", label, options=RunOptions(run_id=run_id, save_prompts=False), folders=folders)
        found[label] = {
            name: grade(questions[name], dataset.gold(name), answer["hypothesis"]).label is True
            for answer in answers(folders, run_id)
            for name in [answer["question_id"]]
        }
    return found


def parted(one: Labels, other: Labels) -> int:
    return sum(one[question] != other[question] for question in one)


def share(labels: Labels) -> float:
    return sum(labels.values()) / len(labels)


@pytest.mark.thorough
def test_the_evidence_is_enough_and_the_whole_history_is_not(labels: dict[str, Labels]) -> None:
    assert share(labels["oracle"]) >= 0.8
    assert share(labels["oracle"]) - share(labels["full-history"]) >= 0.15
    assert share(labels["hybrid"]) - share(labels["last-k"]) >= 0.15


def test_memories_differ_question_by_question(labels: dict[str, Labels]) -> None:
    assert parted(labels["hybrid"], labels["full-history"]) >= 12
    assert parted(labels["bm25"], labels["semantic-recall"]) >= 12


def test_the_guide_has_a_difference_a_tie_and_a_loss(labels: dict[str, Labels]) -> None:
    """The verdicts on docs/first-comparison.md, by the exact McNemar test."""

    def p(one: str, other: str) -> float:
        won = sum(labels[one][question] > labels[other][question] for question in labels[one])
        lost = sum(labels[one][question] < labels[other][question] for question in labels[one])
        tail = sum(comb(won + lost, count) for count in range(min(won, lost) + 1))
        return float(min(1.0, 2 * tail / 2 ** (won + lost)))

    assert p("oracle", "full-history") < 0.001
    assert p("last-k", "full-history") < 0.001
    assert p("hybrid", "full-history") > 0.2


def test_neither_is_always_the_better_one(labels: dict[str, Labels]) -> None:
    for one, other in (("hybrid", "full-history"), ("bm25", "semantic-recall")):
        won = [question for question in labels[one] if labels[one][question] > labels[other][question]]
        lost = [question for question in labels[one] if labels[one][question] < labels[other][question]]
        assert min(len(won), len(lost)) >= 4


def test_few_questions_are_wrong_for_every_memory(labels: dict[str, Labels]) -> None:
    wrong = [question for question in labels["oracle"] if not any(labels[name][question] for name in MEMORIES)]
    assert len(wrong) < 15


def test_who_refuses_everything_gets_the_unanswerable_questions_alone(labels: dict[str, Labels]) -> None:
    right = {question for question, label in labels["offline/refuse"].items() if label}
    assert right == {question for question in labels["oracle"] if question.endswith("_abs")}
