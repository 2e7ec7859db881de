"""A judge that does what the prompt says agrees with every plant, on every benchmark; one that errs is corrected."""

import asyncio
import hashlib
import re
from collections.abc import Callable
from dataclasses import replace
from random import Random
from statistics import fmean, stdev
from typing import NamedTuple

import pytest

from longmemeval.benchmarks.beam.loader import BeamGold
from longmemeval.benchmarks.beam.plants import COMPLIANCE
from longmemeval.benchmarks.catalogue import BENCHMARK_SPECS, benchmark_of
from longmemeval.benchmarks.longmemeval.loader import LongMemEvalDataset
from longmemeval.benchmarks.registry import load_dataset, load_judge
from longmemeval.core.journal import read_journal
from longmemeval.dataset import Dataset
from longmemeval.judges.plants.answers import answer_planting
from longmemeval.judges.plants.planting import NO_ANSWERS
from longmemeval.llm.protocol import ChatModel
from longmemeval.measures.metrics import Score, compute_metrics, credit
from longmemeval.pipeline.judge_check import check
from longmemeval.pipeline.judge_check.check import JudgeChecking
from longmemeval.records import Gold, Judgement
from longmemeval.results.graded.judge_checks import JUDGEMENTS, JudgeCheck, StoredCheck, checked_score
from longmemeval.results.selection import Selection
from longmemeval.settings import Folders
from longmemeval.statistics.misclassification import Corrected
from tests.benchmarks.beam import official as beam_official
from tests.benchmarks.convomem.files import conversation, evidence_file, item, write_json
from tests.benchmarks.locomo_plus import official as plus_official
from tests.conftest import real_file
from tests.judges.plants.ideal_judges import IdealModel
from tests.pipeline.helpers import colour_record
from tests.support import fewer, write_dataset

MODEL = "openai/gpt-4o-2024-08-06"


class Case(NamedTuple):
    """A benchmark, its data and the judge that asks in its words."""

    judge: str
    data: Callable[[Folders], Dataset]
    sample: int | None = None


def beam(folders: Folders) -> Dataset:
    path = real_file("beam/chats/100K")
    beam_official.clone(folders.data_dir / "beam", beam_official.official_texts())
    return load_dataset(path, folders.data_dir)


def locomo_plus(folders: Folders) -> Dataset:
    path = real_file("locomo_plus.json")
    folders.data_dir.mkdir(parents=True, exist_ok=True)
    plus_official.prompt_file(folders.data_dir / "locomo_plus_prompt.py", plus_official.official_texts())
    return load_dataset(path, folders.data_dir)


def convomem(folders: Folders) -> Dataset:
    """Facts, a value that changed, preferences and what was never said, of thirty people."""
    folder = folders.data_dir / "convomem"
    towns, pets = ("Oslo", "Lima", "Turin", "Quito", "Perth", "Osaka"), ("Ada", "Bo", "Cleo", "Dot", "Eve")
    for number in range(30):
        town, pet = towns[number % 6], pets[number % 5]
        chat = conversation(f"c{number}", f"I moved to {town}, with {pet}.", "How nice of you to say", evidence=True)
        told = [f"I moved to {town}, with {pet}."]
        asked = {
            "user_evidence/1_evidence": (f"Where does person {number} live?", f"You live in {town}."),
            "changing_evidence/1_evidence": ("How many rooms do I have now?", f"{3 + number} rooms"),
            "assistant_facts_evidence/1_evidence": ("What did you call my dog?", f"I called it {pet}"),
            "preference_evidence/1_evidence": ("Where shall I go?", f"The reply names quiet places near {town}."),
            "abstention_evidence/1_evidence": ("What is my car?", "There is no information about a car."),
        }
        for place, (question, answer) in asked.items():
            write_json(folder / place / f"p{number}.json", evidence_file(item(question, answer, told, chat)))
    return load_dataset(folder, folders.data_dir)


def hard_golds(folders: Folders) -> Dataset:
    """LongMemEval with golds that ask for an order, accept something else too, or are forgiven what is one off."""
    asked = [
        ("temporal-reasoning", "Which three trips did I take, from earliest to latest?", "Oslo, Rome, Lima"),
        ("temporal-reasoning", "What is the order of my visits?", "the zoo, the fair, the pier"),
        ("temporal-reasoning", "How many weeks did it take?", "Four weeks"),
        (
            "temporal-reasoning",
            "How many days did it take?",
            "{n} days. {m} days (including the last day) is also acceptable.",
        ),
        ("temporal-reasoning", "How many months have passed?", "{n} months"),
        ("knowledge-update", "What is my best time?", "25 minutes and 50 seconds (or 25:50)"),
        ("multi-session", "How many plants did I buy?", "{n} (or {m} with the cactus)"),
        ("multi-session", "How many hours did I spend?", "at least {n} hours"),
        ("multi-session", "How many hours did I drive?", "{n} or {m} hours"),
        ("single-session-user", "Which film did I see?", "The Day After That"),
        ("single-session-user", "What did Ann tell me?", "That Bo was After a kite"),
        ("single-session-user", "Which fruits do I like?", "figs, plums and pears"),
        ("single-session-assistant", "Whom did you name?", "It was Greta"),
    ]
    records = [
        colour_record(
            len(asked) * turn + place,
            question_type=kind,
            question=f"{question} (round {turn})",
            answer=answer.format(n=3 * turn + 5, m=3 * turn + 6),
        )
        for turn in range(8)
        for place, (kind, question, answer) in enumerate(asked)
    ]
    folders.data_dir.mkdir(parents=True, exist_ok=True)
    return LongMemEvalDataset(write_dataset(folders.data_dir / "golds.json", *records))


def sample(folders: Folders) -> Dataset:
    return load_dataset("sample", folders.data_dir)


CASES = {
    "longmemeval": Case(MODEL, sample),
    "longmemeval-golds": Case(MODEL, hard_golds),
    "locomo": Case(f"strict@{MODEL}", lambda where: load_dataset(real_file("locomo10.json"), where.data_dir), 100),
    "convomem": Case(f"convomem@{MODEL}", convomem),
    "beam": Case(f"beam@{MODEL}", beam),
    "beam-paper": Case(f"beam-paper@{MODEL}", beam),
    "locomo-plus": Case(f"locomo-plus@{MODEL}", locomo_plus, 150),
}
pytestmark = pytest.mark.slow
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def planted(case: Case, data: Dataset, folders: Folders) -> JudgeChecking:
    selection = Selection(sample=case.sample) if case.sample else Selection()
    return JudgeChecking(data, case.judge, selection=selection, folders=folders)


def checked(checking: JudgeChecking, monkeypatch: pytest.MonkeyPatch, model: ChatModel) -> JudgeCheck:
    monkeypatch.setattr(check, "load_chat_model", lambda *given, **named: model)
    return checking.check().check


def corrected_by(checking: JudgeChecking, score: Score) -> Corrected:
    """A score corrected as tables show it."""
    stored = StoredCheck(checking.folder)
    labels = checking.identity.metric == "accuracy"
    found = checked_score(score, stored, labels=labels, content_sha256=stored.check.dataset["content_sha256"])
    assert found is not None
    assert found.corrected is not None, found.reason
    return found.corrected


def disagreed(checking: JudgeChecking) -> list[str]:
    """Plants that are answers, and that the judge does not find what they are planted as."""
    given = {one.question_id: credit(one) for one in read_journal(checking.folder / JUDGEMENTS, Judgement)}
    return [
        f"{plant.plant_id} {plant.text!r}"
        for plant in checking.plants
        if plant.kind not in NO_ANSWERS and given[plant.plant_id] != pytest.approx(float(plant.right))
    ]


def erring(seed: int, *, fails: float, passes: float) -> Callable[[str, bool], bool]:
    """A judge's word that is wrong at known rates, by a hash of the prompt and the seed."""

    def decide(prompt: str, verdict: bool) -> bool:
        digest = hashlib.sha256(f"{seed} {prompt}".encode()).digest()
        return verdict != (int.from_bytes(digest[:8], "big") / 2**64 < (fails if verdict else passes))

    return decide


def simulated(case: Case, data: Dataset, folders: Folders, model: ChatModel, seed: int) -> tuple[float, Score]:
    """The truth about a system, right on six questions of ten in words of its own, and what the judge makes of it."""
    judge = load_judge(case.judge, lambda spec: model, benchmark=benchmark_of(data), data_dir=folders.data_dir)
    random, golds, truths, judgements = Random(seed), list[Gold](), list[float](), dict[str, Judgement]()
    questions = [one for one in data.questions() if data.question_type(one.question_id) not in COMPLIANCE]
    for question in random.sample(questions, min(len(questions), 250)):
        gold = data.gold(question.question_id)
        answer, truth = said(gold, random.random() < 0.6, random)
        golds.append(gold)
        truths.append(truth)
        judgements[gold.question_id] = asyncio.run(judge.judge(question, gold, answer))
    return fmean(truths), compute_metrics(golds, judgements, judge.identity).overall


def said(gold: Gold, right: bool, random: Random) -> tuple[str, float]:
    """What the simulated system answers, and the credit that this deserves."""
    if isinstance(gold, BeamGold):
        nuggets = [re.sub(r"^LLM response should \w+: ", "", one) for one in gold.rubric]
        if gold.question_type == "event_ordering":
            return "\n".join(f"- {one}" for one in (nuggets if right else nuggets[::-1])), float(right)
        stated = random.sample(nuggets, random.randint(1, len(nuggets))) if right else ["The lighthouse was closed"]
        return "So far as I know: " + "; ".join(stated), len(stated) / len(nuggets) if right else 0.0
    if gold.evidence_texts and gold.question_type == "cognitive":
        cue = gold.evidence_texts[0].partition("\N{FULLWIDTH COLON}")[2]
        return (f"Knowing that {cue}, I see why." if right else "The lighthouse was closed."), float(right)
    declined = "You have never mentioned that, so I don't know."
    answer = declined if gold.abstention else f"So far as I know: {gold.answer}"
    return answer if right else "The lighthouse of Penmarch was closed.", float(right)


@pytest.mark.variants
@every_case
def test_an_ideal_judge_agrees_with_every_plant(case: Case, folders: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    data = case.data(folders)
    checking = planted(case, data, folders)
    found = checked(checking, monkeypatch, IdealModel(MODEL))
    assert disagreed(checking) == []
    right, wrong = found.rates.right, found.rates.wrong
    assert min(right.n, wrong.n) >= 50
    assert right.credit == 1.0
    assert wrong.credit == pytest.approx(0.0, abs=1e-9)
    assert right.interval[1] == pytest.approx(1.0)
    assert wrong.interval[0] == pytest.approx(0.0, abs=1e-9)
    for seed in range(fewer(5, 2)):
        truth, score = simulated(case, data, folders, IdealModel(MODEL), seed)
        # Nuggets that share words earn a part of each other's credit, where a part counts.
        assert score.accuracy == pytest.approx(truth, abs=0.01)
        corrected = corrected_by(checking, score)
        assert corrected.interval[0] <= truth <= corrected.interval[1]
        assert corrected.value == pytest.approx(truth, abs=0.02)


@pytest.mark.parametrize("name", ["beam", pytest.param("locomo-plus", marks=pytest.mark.thorough)])
def test_plants_of_answers_are_wrong_where_the_gold_is_none(
    name: str, folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: made as for other benchmarks, many that are answers are what the ideal judge does not find."""
    case = CASES[name]
    data = case.data(folders)
    spec = replace(benchmark_of(data), planting=answer_planting())
    monkeypatch.setitem(BENCHMARK_SPECS._loaded, spec.name, spec)
    checking = planted(case, data, folders)
    checked(checking, monkeypatch, IdealModel(MODEL))
    answers = [plant for plant in checking.plants if plant.kind not in NO_ANSWERS]
    assert len(disagreed(checking)) > 0.05 * len(answers)


@pytest.mark.variants
@pytest.mark.slow
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_judge_of_known_errors_is_corrected_to_the_truth(
    case: Case, folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fails 5% of what is right and passes 25% of what is wrong; nugget by nugget on BEAM."""
    data = case.data(folders)
    inside, off, raw = 0, [], []
    # The plants are the same for each seed: only the judge is another.
    checking = planted(case, data, folders)
    folder = checking.folder
    for seed in range(10):
        model = IdealModel(MODEL, erring(seed, fails=0.05, passes=0.25))
        checking.folder = folder.with_name(f"{folder.name}-{seed}")
        checked(checking, monkeypatch, model)
        truth, score = simulated(case, data, folders, model, seed)
        corrected = corrected_by(checking, score)
        inside += corrected.interval[0] <= truth <= corrected.interval[1]
        off.append(corrected.value - truth)
        raw.append(score.accuracy - truth)
    assert inside >= 8
    assert abs(fmean(off)) < 2.5 * stdev(off) / len(off) ** 0.5
    assert abs(fmean(off)) < abs(fmean(raw))
