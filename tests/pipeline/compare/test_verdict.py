"""The verdict of a comparison on labels made by hand: by code and figure."""

import json
from collections.abc import Sequence

import pytest

from longmemeval.benchmarks.locomo.loader import LocomoDataset
from longmemeval.dataset import Dataset
from longmemeval.pipeline.compare.comparison import Comparison, Verdict
from longmemeval.pipeline.compare.sentences import TEMPLATES, Sentence
from longmemeval.report.tables.comparison import deviation_lines, digest_table
from longmemeval.settings import Folders
from tests.benchmarks.locomo.test_loader import make_conversation
from tests.pipeline.graded_runs import F1, graded_run, labels
from tests.pipeline.helpers import colours, compare, folders_in

NUMBER = 400
CONTROL = {"memory": {"name": "full-history", "preset": "full-history", "parameters": {}}}
ORACLE = {"memory": {"name": "oracle", "preset": "oracle", "parameters": {}}, "reads_gold": True}


@pytest.fixture
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    return folders_in(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return colours(tmp_path_factory.mktemp("data") / "d.json", NUMBER)


@pytest.fixture(scope="module")
def hundred(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return colours(tmp_path_factory.mktemp("data") / "h.json", 100)


def judged(dataset: Dataset, folders: Folders, **right: int | Sequence[bool | None]) -> Comparison:
    """Grade runs, the first questions right, and compare them in the order given."""
    for run_id, given in right.items():
        credits = labels(given, len(list(dataset.questions())) - given) if isinstance(given, int) else given
        settings = CONTROL if run_id == "control" else ORACLE if run_id == "oracle" else {}
        graded_run(dataset, folders, run_id, credits, settings=settings)
    return compare(list(right), folders=folders)


def sentence(found: Comparison, code: str) -> Sentence:
    (only,) = [one for one in found.sentences if one.code == code]
    return only


def codes(found: Comparison) -> list[str]:
    return [one.code for one in found.sentences if one.kind == "verdict"]


def plain(verdict: Verdict) -> tuple[str, str, str, str | None]:
    return verdict.code, verdict.finding, verdict.run, verdict.winner


def test_every_sentence_fills_its_template(dataset: Dataset, folders: Folders) -> None:
    found = judged(dataset, folders, a=200, b=300, c=[None, *labels(199, 200)], control=390, oracle=399)
    for one in found.sentences:
        assert one.code in TEMPLATES
        text = one.text(found.names)
        assert text
        assert "{" not in text
        named = [ids for place, ids in one.runs.items() if f"{{{place}" in TEMPLATES[one.code]]
        assert not [
            run_id for ids in named for run_id in ids if found.names[run_id] not in text and " more" not in text
        ]
    assert found.verdict.whole == " ".join(one.text(found.names) for one in found.sentences if one.kind == "verdict")


def test_one_run_is_its_score_with_the_interval(dataset: Dataset, folders: Folders) -> None:
    found = judged(dataset, folders, a=300)
    assert (plain(found.verdict), found.verdict.baseline) == (("one-run", "score", "a", None), None)
    values = sentence(found, "one-run").values
    assert (values["a"], values["n"], values["official"]) == (0.75, 400, False)
    assert values["i"] == pytest.approx((0.705, 0.790), abs=5e-4)


def test_better_and_worse_are_seen_from_the_run_that_is_no_baseline(dataset: Dataset, folders: Folders) -> None:
    better = judged(dataset, folders, a=200, b=300)
    assert plain(better.verdict) == ("better", "better", "b", None)
    assert sentence(better, "better").values["d"] == pytest.approx(0.25)
    worse = judged(dataset, folders, c=300, d=200)
    assert plain(worse.verdict) == ("worse", "worse", "d", None)
    assert sentence(worse, "worse").values["d"] == pytest.approx(-0.25)
    assert sentence(worse, "worse").values["i"][1] < 0


def test_not_significant_says_what_the_questions_can_find(dataset: Dataset, folders: Folders) -> None:
    found = judged(dataset, folders, a=200, b=[*[True, False] * 100, *[False, True] * 100])
    assert codes(found) == ["not-significant", "power"]
    (pair,) = found.against
    # Half of the questions part them.
    assert sentence(found, "power").values == {"n": 400, "x": pair.detectable, "k": 1}
    assert pair.detectable == pytest.approx(0.099, abs=0.004)


def test_equivalent_needs_the_interval_inside_the_margin(dataset: Dataset, folders: Folders) -> None:
    found = judged(dataset, folders, a=200, b=[*labels(198, 2), *labels(2, 198)])
    assert plain(found.verdict) == ("equivalent", "as well as", "b", None)
    low, high = sentence(found, "equivalent").values["i"]
    assert -0.03 < low < 0 < high < 0.03
    assert compare(["a", "b"], folders=folders, margin=0.005).verdict.code == "not-significant"


def test_few_lost_and_none_won_are_one_verdict_for_table_and_gate(dataset: Dataset, folders: Folders) -> None:
    """Four of 400 lost, none won: p = 1/8, so that the interval must reach 0 and no gate may fail."""
    found = judged(dataset, folders, a=200, b=196)
    (pair,) = found.against
    assert (pair.p, pair.significant) == (0.125, False)
    assert pair.interval[1] >= 0
    assert found.verdict.code == "equivalent"


def test_the_same_on_every_question_is_identical(dataset: Dataset, folders: Folders) -> None:
    found = judged(dataset, folders, a=200, b=200)
    assert plain(found.verdict) == ("identical", "alike", "b", None)


@pytest.mark.parametrize(("right", "code"), [((4, 5), "too-few"), ((5, 5), "too-few")])
def test_five_questions_are_too_few_however_alike(
    tmp_path_factory: pytest.TempPathFactory, folders: Folders, right: tuple[int, int], code: str
) -> None:
    few = colours(tmp_path_factory.mktemp("few") / "d.json", 5)
    found = judged(few, folders, a=right[0], b=right[1])
    assert found.verdict.code == code
    values = sentence(found, code).values
    assert (values["u"], values["q"], values["k"]) == ((5, "question"), (6, "question"), 1)


def test_so_many_comparisons_that_seven_questions_are_too_few(
    tmp_path_factory: pytest.TempPathFactory, folders: Folders
) -> None:
    """Seven questions give p = 2/2^7 at best: enough for three comparisons, not for four."""
    few = colours(tmp_path_factory.mktemp("few") / "d.json", 7)
    three = judged(few, folders, a=4, b=5, c=3, d=2)
    assert three.verdict.code == "not-significant"
    graded_run(few, folders, "e", labels(1, 6))
    four = compare(list("abcde"), folders=folders)
    assert sentence(four, "too-few").values["q"] == (8, "question")


def test_best_is_the_highest_score_and_ties_name_all(hundred: Dataset, folders: Folders) -> None:
    """63 beats 60 in score, but loses some that the baseline has: it alone is not significantly better."""
    base = labels(50, 50)
    sixty_three = [*labels(30, 20), *labels(33, 17)]
    found = judged(hundred, folders, base=base, high=sixty_three, nested=labels(60, 40))
    assert [result.significant for result in found.against] == [False, True]
    assert found.verdict.run == "high"
    assert sentence(found, "others-better").runs["names"] == ("nested",)
    tied = judged(hundred, folders, x=base, y=labels(60, 40), z=[*labels(50, 50)[:50], *labels(0, 40), *labels(10)])
    assert sentence(tied, "tie").runs["names"] == ("y", "z")
    assert sentence(tied, "tie").values["a"] == 0.6


def test_missing_labels_come_first_and_with_the_difference_of_the_rest(hundred: Dataset, folders: Folders) -> None:
    """Thirty answers are not evaluated; on the seventy others the two are equal."""
    found = judged(hundred, folders, base=labels(80, 20), new=[*([None] * 30), *labels(50, 20)])
    assert codes(found)[:3] == ["missing-labels", "missing-difference", "worse"]
    missing = sentence(found, "missing-labels").values
    assert (missing["u"], missing["n"], missing["a"], missing["high"]) == (30, 100, 0.5, 0.8)
    assert sentence(found, "missing-difference").values == {"n": 70, "d": 0.0}
    assert found.verdict.text.index("30 of 100") < found.verdict.text.index("significantly worse")


def test_wins_is_said_of_all_pairs_only(dataset: Dataset, folders: Folders) -> None:
    found = judged(dataset, folders, a=200, b=240, c=300)
    assert (found.family, found.verdict.code, found.verdict.winner) == ("baseline", "better", None)
    pairs = compare(["a", "b", "c"], folders=folders, family="pairs")
    assert (pairs.verdict.code, pairs.verdict.winner) == ("better", "c")
    winner = sentence(pairs, "pairs-winner")
    assert (winner.values["m"], winner.values["d"], winner.runs) == (2, pytest.approx(0.15), {"A": ("c",), "B": ("b",)})
    graded_run(dataset, folders, "d", labels(298, 102))
    close = compare(["a", "c", "d"], folders=folders, family="pairs")
    assert close.verdict.winner is None
    assert sentence(close, "pairs-no-winner").values["s"] == 2


def test_the_family_is_what_the_table_shows(dataset: Dataset, folders: Folders) -> None:
    """Four runs: three tests against the baseline, six pairs. Discordant 10:2, p = 0.0386."""
    found = judged(dataset, folders, a=200, b=[*labels(198, 2), *labels(10, 190)], c=200, d=200)
    assert found.against[0].p == pytest.approx(0.03857, abs=1e-5)
    assert found.against[0].p_holm == pytest.approx(3 * 0.03857, abs=1e-4)
    assert found.verdict.code == "excludes-zero"
    two = compare(["a", "b"], folders=folders)
    assert (two.verdict.code, two.against[0].p_holm) == ("better", two.against[0].p)
    pairs = {(pair.a, pair.b): pair for pair in found.pairs}
    assert len(found.pairs) == 6
    assert pairs["a", "b"].p_holm == pytest.approx(6 * 0.03857, abs=1e-4)


def test_a_control_is_never_the_subject_where_there_is_a_memory(dataset: Dataset, folders: Folders) -> None:
    found = judged(dataset, folders, a=200, b=199, control=390)
    assert (found.verdict.run, "only-controls" in codes(found)) == ("b", False)
    against = compare(["control", "a", "b"], folders=folders)
    assert plain(against.verdict) == ("worse", "worse", "a", None)
    only = judged(dataset, folders, oracle=399)
    controls = compare(["control", "oracle"], folders=folders)
    assert "only-controls" in codes(controls)
    assert only.verdict.code == "one-run"


REPEATED = (64, 65, 63, 51, 54)


def test_five_repeats_are_one_row(hundred: Dataset, folders: Folders) -> None:
    """Runs of 64, 65, 63, 51 and 54% against one of 45: one row of 59.4, one test, and no repeat against another."""
    con = {"reading": {"method": "con"}}
    graded_run(hundred, folders, "base", labels(45, 55), settings=con)
    for number, right in enumerate(REPEATED, start=1):
        graded_run(hundred, folders, f"r{number}", labels(right, 100 - right), settings={"repeat": number})
    found = compare(["base", *(f"r{number}" for number in range(1, 6))], folders=folders)
    assert [row.run_ids for row in found.rows] == [("base",), ("r1", "r2", "r3", "r4", "r5")]
    row = found.rows[1]
    assert row.summary.metrics.overall.accuracy == pytest.approx(0.594)
    assert [len(found.runs), len(found.pairs), len(found.against)] == [6, 1, 1]
    assert found.verdict.run == "r1"
    values = sentence(found, "repeats").values
    assert (values["r"], values["low"], values["high"]) == (5, 0.51, 0.65)
    assert values["sd"] == pytest.approx(0.06427, abs=1e-5)
    assert found.against[0].difference == pytest.approx(0.144)
    assert found.names["r3"] == f"{found.names['r1']} (repeat 3)"


def test_unequal_repeats_are_approximate_and_say_the_remedy(hundred: Dataset, folders: Folders) -> None:
    con = {"reading": {"method": "con"}}
    graded_run(hundred, folders, "base", labels(45, 55), settings=con)
    for number in (1, 2, 3):
        graded_run(hundred, folders, f"r{number}", labels(60, 40), settings={"repeat": number})
    found = compare(["base", "r1", "r2", "r3"], folders=folders)
    assert found.against[0].approximate
    assert sentence(found, "approximate").values == {"r": 3}
    for number in (1, 2, 3):
        graded_run(hundred, folders, f"b{number}", labels(45, 55), settings={"repeat": number, **con})
    equal = compare(["b1", "b2", "b3", "r1", "r2", "r3"], folders=folders)
    assert not equal.against[0].approximate
    assert "approximate" not in codes(equal)


def test_ten_haystacks_are_the_units(tmp_path_factory: pytest.TempPathFactory, folders: Folders) -> None:
    path = tmp_path_factory.mktemp("ten") / "ten.json"
    path.write_text(json.dumps([make_conversation(f"conv-{number}") for number in range(10)]))
    dataset = LocomoDataset(path)
    graded_run(dataset, folders, "a", [0.5] * 50, judge=F1)
    graded_run(dataset, folders, "b", [0.6] * 50, judge=F1)
    found = compare(["a", "b"], folders=folders)
    (pair,) = found.against
    assert (pair.units, pair.p) == (10, 2 / 2**10)
    assert found.verdict.code == "better"


def test_below_full_credit_is_not_called_wrong(hundred: Dataset, folders: Folders) -> None:
    graded_run(hundred, folders, "a", [0.9] * 98 + [1.0] * 2, judge=F1)
    graded_run(hundred, folders, "b", [0.8] * 98 + [1.0] * 2, judge=F1)
    title = digest_table(compare(["a", "b"], folders=folders)).title
    assert title.startswith("Answers below full credit of b (98 of 100)")


def test_preparing_that_was_paid_for_is_said_with_the_tokens(hundred: Dataset, folders: Folders) -> None:
    found = judged(hundred, folders, a=50, b=60)
    assert not {"prompt-tokens", "tokens-prepared"} & set(codes(found))


def test_a_product_at_several_budgets_has_one_line_of_deviations(dataset: Dataset, folders: Folders) -> None:
    for run_id, budget in (("small", 500), ("large", 1000)):
        memory = {"name": "graphiti", "preset": "graphiti", "parameters": {"limit": 10, "budget": budget}}
        graded_run(dataset, folders, run_id, labels(200), settings={"memory": memory})
    (line,) = deviation_lines(compare(["small", "large"], folders=folders))
    assert line.startswith("graphiti budget=500, graphiti budget=1000: profile ours, no reranker, ")
    assert "at most 500 tokens or at most 1,000 tokens" in line
