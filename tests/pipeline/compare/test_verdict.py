"""The sentence a comparison begins with, on labels made by hand."""

from collections.abc import Sequence

import pytest

from longmemeval.dataset import Dataset
from longmemeval.pipeline.compare.comparison import Verdict
from longmemeval.report.tables.comparison import run_names
from longmemeval.report.tables.footnotes import deviation_lines, verdict_called
from longmemeval.settings import Folders
from tests.pipeline.graded_runs import graded_run, labels
from tests.pipeline.helpers import colours, compare, folders_in

NUMBER = 400


@pytest.fixture
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    return folders_in(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return colours(tmp_path_factory.mktemp("data") / "d.json", NUMBER)


def judged(dataset: Dataset, folders: Folders, **right: int | Sequence[bool | None]) -> Verdict:
    """Grade runs, the first questions right, and return the verdict on them in the order given."""
    for run_id, given in right.items():
        credits = labels(given, NUMBER - given) if isinstance(given, int) else given
        memory = {"name": "full-history", "preset": "full-history", "parameters": {}}
        settings = {"memory": memory} if run_id == "control" else {}
        graded_run(dataset, folders, run_id, credits, settings=settings)
    return compare(list(right), folders=folders).verdict


@pytest.mark.slow
def test_one_run_is_its_score_with_the_interval(dataset: Dataset, folders: Folders) -> None:
    found = judged(dataset, folders, a=300)
    assert found.text.startswith("a: 75.0 % accuracy (95 % interval 70.5 to 79.0) on 400 questions, by test/strict")
    assert (found.finding, found.baseline, found.winner) == ("score", None, None)


@pytest.mark.slow
def test_better_and_worse_are_seen_from_the_run_that_is_no_baseline(dataset: Dataset, folders: Folders) -> None:
    better = judged(dataset, folders, a=200, b=300)
    assert (better.finding, better.winner) == ("better", "b")
    assert better.text.startswith("b is better than a by 25.0 points (75.0 against 50.0 %; 95 % interval +2")
    assert (better.more, better.whole) == ("", better.text)
    worse = judged(dataset, folders, c=300, d=200)
    assert (worse.finding, worse.run, worse.winner) == ("worse", "d", "c")
    assert worse.text.startswith("d is worse than c by 25.0 points (50.0 against 75.0 %; 95 % interval -2")


def test_no_difference_says_what_the_questions_can_show(dataset: Dataset, folders: Folders) -> None:
    mixed = [*[True, False] * 100, *[False, True] * 100]
    found = judged(dataset, folders, a=200, b=mixed)
    assert found.finding == "not shown"
    # Half of the questions part them: 1.96 √0.5 + 0.84 √(0.5 - d²), over √400.
    scores, power = "50.0 against 50.0 %", "with 400 questions a difference of 9.9 points or more would show"
    assert (found.text, found.more) == (f"No difference between b and a is shown ({scores}; {power}).", "")


@pytest.mark.slow
def test_as_well_as_needs_the_interval_inside_the_margin(dataset: Dataset, folders: Folders) -> None:
    near = [*labels(198, 2), *labels(2, 198)]
    found = judged(dataset, folders, a=200, b=near)
    assert found.finding == "as well as"
    assert found.text.startswith("b does as well as a (50.0 against 50.0 %; 95 % interval of the difference -1.0")
    assert found.text.endswith(" to +1.0, inside a margin of 3.0 points).")
    assert compare(["a", "b"], folders=folders, margin=0.005).verdict.finding == "not shown"


def test_the_same_on_every_question_is_neither(dataset: Dataset, folders: Folders) -> None:
    found = judged(dataset, folders, a=200, b=200)
    assert (found.finding, found.text) == ("alike", "b and a score alike on every question (50.0 %).")


def test_few_questions_show_nothing_however_alike(tmp_path_factory: pytest.TempPathFactory, folders: Folders) -> None:
    few = colours(tmp_path_factory.mktemp("few") / "d.json", 5)
    for run_id in "ab":
        graded_run(few, folders, run_id, labels(5))
    found = compare(["a", "b"], folders=folders).verdict
    shown = "No difference between b and a is shown (100.0 against 100.0 %; 5 questions can show none, however large)."
    assert found.text == shown


@pytest.mark.slow
def test_of_several_runs_the_winner_beats_each(dataset: Dataset, folders: Folders) -> None:
    won = judged(dataset, folders, a=200, b=240, c=300)
    assert won.winner == "c"
    assert won.text.startswith("c wins: it is better than a by 25.0 points (75.0 against 50.0 %; ")
    assert won.more == "c is the best of the 2 other runs."
    assert compare(["a", "b", "c"], folders=folders).verdict == won
    close = judged(dataset, folders, d=200, e=298, f=300)
    assert (close.winner, close.run, close.finding) == (None, "f", "better")
    assert close.text.startswith("f is better than d by 25.0 points (75.0 against 50.0 %; ")
    assert close.text.endswith("), but not shown to be better than e.")
    assert close.more == "f is the best of the 2 other runs; there is no winner."
    lost = compare(["f", "a", "b"], folders=folders).verdict
    assert lost.text.startswith(
        "f wins: the best of the others, b, is worse than f by 15.0 points (60.0 against 75.0 %; "
    )


@pytest.mark.slow
def test_among_several_pairs_what_can_be_shown_is_said_of_two_alone(dataset: Dataset, folders: Folders) -> None:
    mixed = [*[True, False] * 100, *[False, True] * 100]
    found = judged(dataset, folders, a=200, b=mixed, c=mixed[::-1], control=0)
    assert found.text.endswith("; with 400 questions a difference of 9.9 points or more would show).")
    best, limit = found.more.removesuffix(".").split(". ")
    assert best == "b is the best of the 2 other runs, controls apart; there is no winner"
    assert limit == "That limit is for two runs alone; among 6 pairs it is higher"


@pytest.mark.slow
def test_a_control_is_never_the_winner(dataset: Dataset, folders: Folders) -> None:
    found = judged(dataset, folders, a=200, b=199, control=390)
    assert (found.winner, found.run) == (None, "b")
    assert "control is" not in found.text
    against = compare(["control", "a", "b"], folders=folders).verdict
    assert (against.winner, against.run, against.finding) == (None, "a", "worse")
    assert against.text.startswith("a is worse than control by 47.5 points (50.0 against 97.5 %; ")
    assert against.more == "a is the best of the 2 other runs; there is no winner."


@pytest.mark.slow
def test_repeats_of_one_configuration_are_no_rivals(dataset: Dataset, folders: Folders) -> None:
    graded_run(dataset, folders, "base", labels(200, 200), settings={"reading": {"method": "con"}})
    for number, right in ((1, 300), (2, 302)):
        graded_run(dataset, folders, f"r{number}", labels(right, 400 - right), settings={"repeat": number})
    found = compare(["base", "r1", "r2"], folders=folders).verdict
    assert found.winner is not None
    assert "but not shown" not in found.text


def test_where_so_many_pairs_can_show_none_nothing_is_said_of_two_alone(
    tmp_path_factory: pytest.TempPathFactory, folders: Folders
) -> None:
    few = colours(tmp_path_factory.mktemp("few") / "d.json", 7)
    for run_id, credits in (("a", labels(4, 3)), ("b", labels(5, 2)), ("c", labels(3, 4)), ("d", labels(2, 5))):
        graded_run(few, folders, run_id, credits)
    found = compare(["a", "b", "c", "d"], folders=folders).verdict
    assert found.text.endswith("; 7 questions can show none among 6 pairs, however large).")
    assert found.more == "b is the best of the 3 other runs; there is no winner."


@pytest.mark.slow
def test_pages_call_the_runs_as_their_tables_do(dataset: Dataset, folders: Folders) -> None:
    judged(dataset, folders, a=100, control=390)
    found = compare(["a", "control"], folders=folders)
    assert found.verdict.text.startswith("control is better than a by 72.5 points")
    assert verdict_called(found, run_names(found)).text.startswith("full-history is better than last-k by 72.5 points")
    one = compare(["a"], folders=folders)
    assert verdict_called(one, run_names(one)).text.startswith("last-k: 25.0 % accuracy")
    # Two of one name go by their ids.
    judged(dataset, folders, b=200)
    alike = compare(["a", "b"], folders=folders)
    assert "b is better than a by 25.0 points" in verdict_called(alike, run_names(alike)).text


def test_a_product_at_several_budgets_has_one_line_of_deviations(dataset: Dataset, folders: Folders) -> None:
    for run_id, budget in (("small", 500), ("large", 1000)):
        memory = {"name": "graphiti", "preset": "graphiti", "parameters": {"limit": 10, "budget": budget}}
        graded_run(dataset, folders, run_id, labels(200), settings={"memory": memory})
    (line,) = deviation_lines(compare(["small", "large"], folders=folders), {})
    assert line.startswith("small, large: profile ours, no reranker, ")
    assert "at most 500 tokens or at most 1,000 tokens" in line
