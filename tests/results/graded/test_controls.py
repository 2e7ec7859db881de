"""Controls stand apart from memory systems, and the sentence about the best of them follows from the tests of pairs."""

import json
from pathlib import Path
from typing import Any

import pytest

from longmemeval.benchmarks.locomo.loader import LocomoDataset
from longmemeval.dataset import Dataset
from longmemeval.memory.configuration import MEMORIES
from longmemeval.memory.definition import Control
from longmemeval.pipeline.compare.sentences import Sentence
from longmemeval.report.tables.comparison import comparison_tables
from longmemeval.results.graded.judge_checks import control_of, controls_last, is_full_history
from longmemeval.results.settings import HypothesesSettings, ImportedSettings
from longmemeval.settings import Folders
from tests.benchmarks.locomo.test_loader import make_conversation
from tests.pipeline.graded_runs import answer_settings, graded_run
from tests.pipeline.helpers import colours, compare

N = 20


def settings(preset: str = "last-k", model: str = "openai/gpt-4o") -> dict[str, Any]:
    return {
        "memory": {"name": preset, "preset": preset, "parameters": {}},
        "reads_gold": preset == "oracle",
        "model": {"spec": model},
        "reading": {"method": "direct", "history_format": "nl", "context_window": None},
        "preparation": "default",
        "embedder": None,
    }


@pytest.mark.parametrize(
    ("preset", "model", "control"),
    [
        ("last-k", "openai/gpt-4o", None),
        ("last-k", "offline/extractive", None),
        ("engram-full", "openai/gpt-4o", None),
        ("none", "openai/gpt-4o", "floor"),
        ("full-history", "openai/gpt-4o", "reference"),
        ("oracle", "openai/gpt-4o", "reference"),
        ("oracle", "offline/parrot", "floor"),
        ("hybrid", "offline/refuse", "floor"),
        ("not.installed:Here", "openai/gpt-4o", None),
    ],
)
def test_what_is_a_control(preset: str, model: str, control: str | None) -> None:
    assert control_of(answer_settings(settings(preset, model))) == control


def test_the_controls_of_this_package_are_built_in() -> None:
    """Of its engines and products nothing is imported to say that they are none."""
    for name in [*MEMORIES.built_in, *MEMORIES.further]:
        definition = MEMORIES.get(name)
        assert control_of(answer_settings(settings(name))) == definition.control, name
        assert is_full_history(answer_settings(settings(name))) == definition.recalls_everything, name


def test_answers_of_another_system_are_no_control() -> None:
    settings = ImportedSettings(hypotheses=HypothesesSettings("answers.jsonl", "0"), unknown_questions=())
    assert control_of(settings) is None


def test_controls_come_last_but_the_first_stays() -> None:
    control: dict[str, Control | None] = {"a": None, "b": "floor", "c": None, "d": "reference"}
    assert controls_last("abcd", control.get) == ["a", "c", "b", "d"]
    assert controls_last("bda", control.get) == ["b", "a", "d"]


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Dataset, Folders]:
    """`good` gets 19 of 20, `poor` 9, `refuse` 8, `parrot` 4, `everything` 20."""
    dataset = colours(tmp_path / "colours.json", N)
    folders = Folders(data_dir=tmp_path, prepared_dir=tmp_path / "p", results_dir=tmp_path / "results")
    right = {"good": 19, "poor": 9, "refuse": 8, "parrot": 4, "everything": 20}
    kinds = {
        "refuse": settings("none", "offline/refuse"),
        "parrot": settings("last-k", "offline/parrot"),
        "everything": settings("full-history"),
    }
    for name, count in right.items():
        credits = [place < count for place in range(N)]
        graded_run(dataset, folders, name, credits, settings=kinds.get(name, settings()))
    return dataset, folders


CODES = ("all-better", "no-memory-helps", "memories-not-better", "control-out-of-reach")


def about_the_best_control(names: list[str], folders: Folders) -> list[Sentence]:
    """The sentence on the best trivial control, if there is one."""
    return [one for one in compare(names, folders=folders).sentences if one.code in CODES]


def test_the_sentence_names_those_that_are_not_better(runs: tuple[Dataset, Folders]) -> None:
    _, folders = runs
    names = ["good", "refuse", "poor", "everything", "parrot"]
    found = compare(names, folders=folders)
    assert [run.summary.run_id for run in found.runs] == ["good", "poor", "refuse", "everything", "parrot"]
    (said,) = about_the_best_control(names, folders)
    assert (said.code, said.kind, said.values) == ("memories-not-better", "caution", {"c": 0.4, "m": 2})
    assert said.runs == {"C": ("refuse",), "names": ("poor",)}
    table = comparison_tables(found)[0]
    assert table.breaks == {2}
    shown = ["everything", "refuse on none", "parrot on last-k"]
    assert [row[0].replace("full-history", "everything") for row in table.rows[-3:]] == shown
    # Another answering model is what makes a control; nobody has to be told that it differs.
    assert not found.differing


@pytest.mark.parametrize(
    ("names", "code"),
    [
        (["good", "refuse"], "all-better"),
        (["refuse", "good"], "all-better"),
        (["poor", "refuse"], "no-memory-helps"),
        (["good", "everything"], None),
        (["refuse", "parrot"], None),
    ],
)
def test_the_sentence_is_there_where_it_can_be(
    runs: tuple[Dataset, Folders], names: list[str], code: str | None
) -> None:
    _, folders = runs
    said = about_the_best_control(names, folders)
    assert [one.code for one in said] == ([code] if code else [])
    assert [one.values for one in said] == ([{"c": 0.4, "m": 1}] if code else [])


def credited(right: int, total: int, first: int = 0) -> list[bool]:
    """`right` answers in a row that are right, from the question numbered `first` on."""
    return [first <= place < first + right for place in range(total)]


@pytest.mark.slow
def test_the_runs_and_one_control_are_a_family_of_their_own(tmp_path: Path, folders: Folders) -> None:
    """Nine questions won, none lost: p = 2/2^9, times 12 runs 0.047, times all 78 pairs 0.30."""
    dataset = colours(tmp_path / "colours.json", N)
    graded_run(dataset, folders, "refuse", credited(8, N), settings=settings("none", "offline/refuse"))
    names = [f"m{number}" for number in range(12)]
    for name in names:
        graded_run(dataset, folders, name, credited(17, N), settings=settings())
    found = compare([*names, "refuse"], folders=folders)
    assert not any(pair.significant for pair in found.pairs)
    (said,) = about_the_best_control([*names, "refuse"], folders)
    assert (said.code, said.values["m"]) == ("all-better", 12)
    graded_run(dataset, folders, "m12", credited(17, N), settings=settings())
    (said,) = about_the_best_control([*names, "m12", "refuse"], folders)
    assert (said.code, said.values["m"]) == ("no-memory-helps", 13)


@pytest.mark.slow
def test_repeats_are_pooled_first(tmp_path: Path, folders: Folders) -> None:
    """Five repeats are one run with the mean credit of each question, tested once; so are repeats of the control."""
    dataset = colours(tmp_path / "colours.json", N)
    names = ["refuse", "refuse-2", *(f"good-{repeat}" for repeat in range(1, 6))]
    for repeat, name in enumerate(names[:2], start=1):
        plain = settings("none", "offline/refuse") | {"repeat": repeat}
        graded_run(dataset, folders, name, credited(8, N, first=repeat), settings=plain)
    for repeat, name in enumerate(names[2:], start=1):
        graded_run(dataset, folders, name, credited(16, N), settings=settings() | {"repeat": repeat})
    (said,) = about_the_best_control(names, folders)
    assert (said.code, said.values, said.runs) == ("all-better", {"c": 0.4, "m": 1}, {"C": ("refuse",)})


def test_a_mean_that_chance_could_make_is_not_shown_by_pooling(tmp_path: Path, folders: Folders) -> None:
    """Questions are the units, not answers: three repeats of five questions won are five questions won."""
    dataset = colours(tmp_path / "colours.json", N)
    graded_run(dataset, folders, "refuse", credited(8, N), settings=settings("none", "offline/refuse"))
    for repeat in range(1, 4):
        graded_run(dataset, folders, f"r{repeat}", credited(13, N), settings=settings() | {"repeat": repeat})
    (said,) = about_the_best_control(["r1", "r2", "r3", "refuse"], folders)
    assert (said.code, said.values["m"]) == ("no-memory-helps", 1)


@pytest.mark.slow
def test_where_no_difference_could_be_shown_it_says_so(tmp_path: Path, folders: Folders) -> None:
    dataset = colours(tmp_path / "colours.json", 7)
    refuse = settings("none", "offline/refuse")
    graded_run(dataset, folders, "refuse", credited(0, 7), settings=refuse)
    for number in range(5):
        graded_run(dataset, folders, f"m{number}", credited(7, 7), settings=settings())
    names = [f"m{number}" for number in range(5)]
    (said,) = about_the_best_control([*names, "refuse"], folders)
    # Winning all seven gives p = 2/2^7, times 5 comparisons 0.078; eight would do.
    assert (said.code, said.values["room"], said.values["q"]) == ("control-out-of-reach", (7, "question"), 8)
    assert [one.code for one in about_the_best_control([*names[:3], "refuse"], folders)] == ["all-better"]
    assert [one.code for one in about_the_best_control([*names[:4], "refuse"], folders)] == ["control-out-of-reach"]


def test_what_the_control_gets_right_cannot_be_won(tmp_path: Path, folders: Folders) -> None:
    dataset = colours(tmp_path / "colours.json", N)
    graded_run(dataset, folders, "parrot", credited(16, N), settings=settings("last-k", "offline/parrot"))
    graded_run(dataset, folders, "perfect", credited(N, N), settings=settings())
    (said,) = about_the_best_control(["perfect", "parrot"], folders)
    assert (said.code, said.values["room"], said.values["q"]) == ("control-out-of-reach", (4, "question"), 6)


@pytest.mark.slow
def test_haystacks_are_what_is_won_where_questions_share_them(tmp_path: Path, folders: Folders) -> None:
    """Ten conversations: 25 runs against one control can be told from it, 26 cannot, however good they are."""
    path = tmp_path / "ten.json"
    path.write_text(json.dumps([make_conversation(f"conv-{number}") for number in range(10)]))
    dataset = LocomoDataset(path)
    asked = [question.question_id for question in dataset.questions()]
    graded_run(dataset, folders, "refuse", dict.fromkeys(asked, False), settings=settings("none", "offline/refuse"))
    names = [f"m{number:02}" for number in range(26)]
    for name in names:
        graded_run(dataset, folders, name, dict.fromkeys(asked, True), settings=settings())
    assert [one.code for one in about_the_best_control([*names[:25], "refuse"], folders)] == ["all-better"]
    (said,) = about_the_best_control([*names, "refuse"], folders)
    assert (said.code, said.values["room"], said.values["q"]) == ("control-out-of-reach", (10, "haystack"), 11)
