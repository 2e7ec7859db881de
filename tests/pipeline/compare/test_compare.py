"""`compare`: known counts give known figures, what cannot be compared is refused, what differs is said."""

import json
import random
import shutil
from collections.abc import Callable
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import longmemeval
from longmemeval.benchmarks.locomo.loader import LocomoDataset
from longmemeval.benchmarks.longmemeval.judge import DEFAULT_JUDGE, OFFICIAL_MODEL, LongMemEvalJudge
from longmemeval.core.text.figures import UNKNOWN
from longmemeval.dataset import Dataset
from longmemeval.errors import HarnessError, IntegrityError
from longmemeval.judges.offline.lexical import LEXICAL_JUDGE
from longmemeval.judges.template_set import grading_of
from longmemeval.llm.http.endpoints import OWN_ENDPOINT
from longmemeval.llm.tokens import CallCounter
from longmemeval.pipeline.compare.comparison import INSIDE_THE_NOISE, Comparison
from longmemeval.pipeline.compare.repeats import Flips
from longmemeval.pipeline.evaluate.evaluate import EvaluateOptions, evaluate
from longmemeval.pipeline.run.sample_size import power_note
from longmemeval.report.tables.comparison import comparison_tables
from longmemeval.results.formats.hypotheses import adopt_hypotheses
from longmemeval.results.selection import Selection
from longmemeval.settings import Folders
from longmemeval.statistics.intervals import wilson_interval
from longmemeval.statistics.power import exact_detectable_difference, minimum_detectable_difference
from tests.benchmarks.locomo.test_loader import make_conversation
from tests.pipeline.graded_runs import F1, LENIENT, STRICT, grade, graded_run, ids, labels
from tests.pipeline.helpers import answer_all, colours, compare, prepared_colours

OFFLINE = EvaluateOptions(judge=LEXICAL_JUDGE)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return colours(tmp_path_factory.mktemp("data") / "many.json", 500)


@pytest.fixture
def ten(tmp_path: Path) -> Dataset:
    return colours(tmp_path / "ten.json", 10)


def edit_json(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def test_known_answer(many: Dataset, folders: Folders) -> None:
    """Both right on 200 of 500, only `a` on 81, only `b` on 29."""
    graded_run(many, folders, "a", labels(281, 219))
    graded_run(many, folders, "b", labels(200) + labels(0, 81) + labels(29, 190))
    found = compare(["a", "b"], folders=folders)
    (pair,) = found.pairs
    exact = 2 * sum(comb(110, k) for k in range(30)) / 2**110
    assert (pair.a, pair.b, pair.test) == ("a", "b", "exact McNemar")
    assert pair.difference == pytest.approx(52 / 500, abs=1e-15)
    assert pair.mcnemar is not None
    assert (pair.mcnemar.a_only, pair.mcnemar.b_only) == (81, 29)
    assert pair.mcnemar.p == pair.p == pair.p_holm == pytest.approx(exact, rel=1e-9)
    # The normal interval of a paired difference: 0.104 ± 1.96 √((110/500 - 0.104²) / 500).
    assert pair.interval == pytest.approx((0.0639, 0.1441), abs=0.004)
    assert (pair.significant, pair.verdict) == (True, "a is better by 10.4 points")
    assert [run.marks for run in found.runs] == ["", "▼"]
    assert [run.changes for run in found.runs] == [None, (29, 81, 390)]
    assert [run.summary.metrics.overall.accuracy for run in found.runs] == [281 / 500, 229 / 500]
    assert found.detectable == exact_detectable_difference(500, 110 / 500)
    assert (found.dataset, ids(found)) == ("many", ["a", "b"])


def _pair_rows(found: Comparison) -> list[list[str]]:
    (table,) = [table for table in comparison_tables(found) if table.title.startswith("Pairs")]
    return table.rows


def test_nobody_is_better_inside_the_noise(ten: Dataset, folders: Folders) -> None:
    graded_run(ten, folders, "a", labels(8, 2))
    graded_run(ten, folders, "b", labels(3, 7))
    (pair,) = compare(["a", "b"], folders=folders).pairs
    assert pair.p == pytest.approx(2 / 2**5)
    assert (pair.significant, pair.verdict) == (False, INSIDE_THE_NOISE)
    assert [run.marks for run in compare(["a", "b"], folders=folders).runs] == ["", ""]


@pytest.mark.slow
def test_holm_and_marks_of_three_runs(many: Dataset, folders: Folders) -> None:
    """Discordant pairs 20:0, 9:0 and 11:0 of nested runs: p = 2/2^20, 2/2^9, 2/2^11, times 3, 1, 2."""
    graded_run(many, folders, "low", labels(100, 400))
    graded_run(many, folders, "high", labels(120, 380))
    graded_run(many, folders, "middle", labels(109, 391))
    found = compare(["low", "high", "middle"], folders=folders)
    assert [(pair.a, pair.b) for pair in found.pairs] == [("low", "high"), ("low", "middle"), ("high", "middle")]
    assert [pair.p for pair in found.pairs] == pytest.approx([2 / 2**20, 2 / 2**9, 2 / 2**11])
    assert [pair.p_holm for pair in found.pairs] == pytest.approx([6 / 2**20, 2 / 2**9, 4 / 2**11])
    assert [run.marks for run in found.runs] == ["", "▲", "▲"]
    assert [run.marks for run in compare(["high", "low", "middle"], folders=folders).runs] == ["", "▼", "▼"]
    # Each pair by what it disagrees on itself, at the level of its family: three tests, or the two with the baseline.
    by_pair = [exact_detectable_difference(500, one / 500, tests=3) for one in (20, 9, 11)]
    assert [pair.detectable for pair in found.pairs] == by_pair
    assert [pair.detectable for pair in found.against] == [
        exact_detectable_difference(500, one / 500, tests=2) for one in (20, 9)
    ]
    assert found.detectable == found.against[0].detectable


@pytest.mark.slow
def test_only_the_sign_depends_on_the_order(many: Dataset, folders: Folders) -> None:
    source = random.Random(1)
    for run_id in ("a", "b", "c"):
        graded_run(many, folders, run_id, [source.random() < 0.5 for _ in range(500)])
    forth = {frozenset((pair.a, pair.b)): pair for pair in compare(["a", "b", "c"], folders=folders).pairs}
    back = compare(["c", "b", "a"], folders=folders).pairs
    for pair in back:
        other = forth[frozenset((pair.a, pair.b))]
        assert (pair.a, pair.b) == (other.b, other.a)
        assert pair.difference == -other.difference
        assert pair.interval == (-other.interval[1], -other.interval[0])
        assert (pair.p, pair.p_holm, pair.test) == (other.p, other.p_holm, other.test)
    assert len(back) == 3


def test_what_is_not_evaluated_counts_as_wrong(ten: Dataset, folders: Folders) -> None:
    graded_run(ten, folders, "a", [True, None, False, *labels(7)])
    graded_run(ten, folders, "b", [None, None, True, *labels(7)])
    found = compare(["a", "b"], folders=folders)
    assert found.pairs[0].difference == 0
    assert found.questions[1].credits == (None, None)
    assert found.questions[2].credits == (0.0, 1.0)
    # Not evaluated is not known to be wrong: nowhere lost.
    assert found.questions[1].stages == (None, None)
    assert [run.summary.metrics.overall.not_evaluated for run in found.runs] == [1, 2]


def test_scores_of_conversations(tmp_path: Path, folders: Folders) -> None:
    """A judge of scores, questions that share haystacks: no McNemar, the test flips conversations."""
    path = tmp_path / "two.json"
    path.write_text(json.dumps([make_conversation("conv-1"), make_conversation("conv-2")]))
    dataset = LocomoDataset(path)
    graded_run(dataset, folders, "a", [0.5, 1.0, 0.25, 1.0, 0.0] * 2, judge=F1)
    graded_run(dataset, folders, "b", [0.25, 1.0, 0.0, 0.0, 0.0] * 2, judge=F1)
    found = compare(["a", "b"], folders=folders)
    (pair,) = found.pairs
    assert pair.mcnemar is None
    assert pair.test == "sign-flip permutation over haystacks"
    assert pair.difference == pytest.approx(1.5 / 5)
    # Two conversations can reject nothing.
    assert (pair.interval, pair.p, pair.units) == ((-1.0, 1.0), 0.5, 2)
    (said,) = [one for one in found.sentences if one.code == "too-few"]
    assert (said.values["u"], said.values["q"]) == ((2, "haystack"), (6, "haystack"))
    # Not even if one run had all and the other nothing.
    assert found.detectable is None
    assert [row.credits for row in found.questions[:3]] == [(0.5, 0.25), (1.0, 1.0), (0.25, 0.0)]


def test_detectable_difference_of_scores(ten: Dataset, folders: Folders) -> None:
    graded_run(ten, folders, "a", [0.5, 1.0, 0.25, 1.0, 0.0] * 2, judge=F1)
    graded_run(ten, folders, "b", [0.25, 1.0, 0.0, 0.0, 0.0] * 2, judge=F1)
    # (1.96 √10 + 0.84 √(10 + 0.84² - 1.96²)) / (10 + 0.84²) times the root mean squared difference, √0.225.
    assert compare(["a", "b"], folders=folders).detectable == pytest.approx(0.785 * 0.225**0.5, abs=0.001)


def test_labels_of_conversations(tmp_path: Path, folders: Folders) -> None:
    """A judge of labels: intervals draw conversations whole, and the detectable difference counts them."""
    path = tmp_path / "eight.json"
    path.write_text(json.dumps([make_conversation(f"conv-{number}") for number in range(8)]))
    dataset = LocomoDataset(path)
    right_by_conversation = [5, 5, 4, 4, 2, 1, 0, 0]
    graded_run(dataset, folders, "a", [one for right in right_by_conversation for one in labels(right, 5 - right)])
    graded_run(dataset, folders, "b", labels(0, 40))
    found = compare(["a", "b"], folders=folders)
    metrics = found.runs[0].summary.metrics
    assert (metrics.haystacks, metrics.overall.correct) == (8, 21)
    draws = np.random.default_rng(7).integers(8, size=(200_000, 8))
    plain = np.quantile(np.array(right_by_conversation)[draws].sum(axis=1) / 40, [0.025, 0.975])
    assert metrics.overall.interval == pytest.approx(tuple(plain), abs=0.026)
    assert metrics.overall.interval[0] < wilson_interval(21, 40)[0] - 0.1
    # b is right nowhere: the differences are a's labels.
    share, totals = 21 / 40, np.array(right_by_conversation)
    effect = 8 / 7 * ((totals - 5 * share) ** 2).sum() / (40 * share * (1 - share))
    expected = minimum_detectable_difference(40, discordant=share, design_effect=effect, haystacks=8)
    assert found.detectable == pytest.approx(expected)
    assert expected > 1.5 * minimum_detectable_difference(40, discordant=share)


def test_many_pairs_over_few_haystacks(tmp_path: Path, folders: Folders) -> None:
    """Six haystacks give p of 1/32 at best: enough for one pair, not for three."""
    path = tmp_path / "six.json"
    path.write_text(json.dumps([make_conversation(f"conv-{number}") for number in range(6)]))
    dataset = LocomoDataset(path)
    for run_id, credit in (("a", 0.9), ("b", 0.5), ("c", 0.1)):
        graded_run(dataset, folders, run_id, [credit] * 30, judge=F1)
    one, three = compare(["a", "c"], folders=folders), compare(["a", "b", "c"], folders=folders)
    assert (one.pairs[0].p, one.pairs[0].significant) == (1 / 32, True)
    assert [pair.significant for pair in three.pairs] == [False] * 3
    assert (one.verdict.code, three.verdict.code) == ("worse", "too-few")
    (said,) = [each for each in three.sentences if each.code == "too-few"]
    assert (said.values["u"], said.values["k"], said.values["q"]) == ((6, "haystack"), 2, (7, "haystack"))


def test_other_data_is_refused(ten: Dataset, folders: Folders, tmp_path: Path) -> None:
    other = colours(tmp_path / "other.json", 9)
    graded_run(ten, folders, "a", labels(9))
    graded_run(other, folders, "b", labels(9))
    with pytest.raises(HarnessError, match=r"different data: a: ten with content \w{12}…; b: other with content"):
        compare(["a", "b"], folders=folders)


def test_other_questions_are_refused_or_left_out(ten: Dataset, folders: Folders) -> None:
    graded_run(ten, folders, "all", labels(5, 5))
    graded_run(ten, folders, "few", [False, *labels(3)], settings={"reading": {"method": "con"}})
    with pytest.raises(HarnessError, match=r"all: 10 questions; few: 4 questions.*--common.* the 4 they share"):
        compare(["all", "few"], folders=folders)
    found = compare(["all", "few"], folders=folders, common=True)
    assert [run.summary.metrics.overall.accuracy for run in found.runs] == [1.0, 0.75]
    assert [run.summary.metrics.overall.n for run in found.runs] == [4, 4]
    assert [row.question_id for row in found.questions] == ["q0", "q1", "q2", "q3"]
    assert "excluded: 6 of all." in found.warnings[0]


def test_common_questions_of_equal_runs_are_all(ten: Dataset, folders: Folders) -> None:
    graded_run(ten, folders, "a", labels(5, 5))
    graded_run(ten, folders, "b", labels(6, 4))
    assert compare(["a", "b"], folders=folders, common=True) == compare(["a", "b"], folders=folders)


@pytest.mark.parametrize("common", [True, False])
def test_no_common_question(ten: Dataset, folders: Folders, common: bool) -> None:
    graded_run(ten, folders, "a", {"q0": True})
    graded_run(ten, folders, "b", {"q1": True})
    with pytest.raises(HarnessError, match="same selection") as caught:
        compare(["a", "b"], folders=folders, common=common)
    assert "--common" not in str(caught.value)


def test_other_judges_are_refused(ten: Dataset, folders: Folders) -> None:
    graded_run(ten, folders, "a", labels(5, 5))
    graded_run(ten, folders, "b", labels(5, 5), judge=LENIENT)
    said = rf"different judges: a: {STRICT.id} \(accuracy\); b: {LENIENT.id} \(accuracy\)\. Have all of them graded"
    with pytest.raises(HarnessError, match=said):
        compare(["a", "b"], folders=folders)
    grade(ten, folders, "b", dict.fromkeys((f"q{n}" for n in range(10)), True))
    grade(ten, folders, "a", dict.fromkeys((f"q{n}" for n in range(10)), True), judge=LENIENT)
    found = compare(["a", "b"], folders=folders, judge="strict")
    assert [run.summary.metrics.overall.accuracy for run in found.runs] == [0.5, 1.0]
    # The newest of each differ, and the remedy names what both have.
    with pytest.raises(
        HarnessError, match=f"--judge, name a judge that has graded all of them: {LENIENT.id}, {STRICT.id}"
    ):
        compare(["a", "b"], folders=folders)
    assert compare(["a", "b"], folders=folders, judge="test/lenient").pairs[0].a == "a"


def test_other_metrics_are_refused(ten: Dataset, folders: Folders) -> None:
    graded_run(ten, folders, "a", labels(5, 5))
    graded_run(ten, folders, "b", [0.5] * 10, judge=F1)
    with pytest.raises(HarnessError, match=r"different metrics: a: .*\(accuracy\); b: .*\(F1\)"):
        compare(["a", "b"], folders=folders)


def test_what_is_no_graded_run_is_refused(ten: Dataset, folders: Folders) -> None:
    graded_run(ten, folders, "a", labels(5, 5))
    with pytest.raises(HarnessError, match="'a' is given twice"):
        compare(["a", "a"], folders=folders)
    with pytest.raises(HarnessError, match="No runs to compare"):
        compare([], folders=folders)
    with pytest.raises(HarnessError, match="Unknown run 'b'"):
        compare(["a", "b"], folders=folders)
    folder = graded_run(ten, folders, "ranked", labels(5, 5))
    rankings = {"protocol": "standard", "granularity": "session"}
    edit_json(folder / "run.json", lambda run: run.update(kind="retrieval", settings=run["settings"] | rankings))
    with pytest.raises(HarnessError, match="'ranked' holds rankings"):
        compare(["a", "ranked"], folders=folders)


def test_scores_that_do_not_follow_are_an_integrity_error(ten: Dataset, folders: Folders) -> None:
    folder = graded_run(ten, folders, "a", labels(5, 5))
    path = folder / "judgements" / f"{STRICT.id}.jsonl"
    path.write_text(path.read_text().replace('"label":false', '"label":true', 1))
    with pytest.raises(IntegrityError, match=rf"'a' failed verification: judgements/{STRICT.id}\.jsonl: was changed"):
        compare(["a"], folders=folders)


def said(ten: Dataset, folders: Folders, settings: dict[str, Any]) -> tuple[str, ...]:
    """The warnings about a run with these settings beside a plain one, but for the fixtures nobody made."""
    graded_run(ten, folders, "plain", labels(5, 5))
    graded_run(ten, folders, "other", labels(5, 5), settings=settings)
    found = compare(["plain", "other"], folders=folders)
    assert found.sentences[-1].code == "fixtures-unknown"
    assert found.sentences[-1].runs["names"] == ("plain", "other")
    return found.warnings[:-1]


@pytest.mark.parametrize(
    ("settings", "warning"),
    [
        (
            {"reading": {"method": "con", "history_format": "nl"}},
            "Reading method: direct in plain; con in other.",
        ),
        (
            {"model": {"spec": "openai/gpt-4o"}},
            "Model: offline/extractive in plain; openai/gpt-4o in other.",
        ),
        ({"protocol": {"name": "own"}}, "Protocol name: none in plain; own in other."),
        ({"reads_gold": True}, "other is given the gold evidence: an upper bound, not a memory system."),
        ({"memory": {"name": "bm25", "parameters": {"top_k": 5}}}, None),
        ({"memory": {"name": "bm25", "parameters": {"budget": 500}}}, None),
        ({"embedder": {"spec": "hashing", "fingerprint": "f"}, "preparation": "p", "repeat": 3}, None),
    ],
)
def test_differences_are_said(ten: Dataset, folders: Folders, settings: dict[str, Any], warning: str | None) -> None:
    assert said(ten, folders, settings) == ((warning,) if warning else ())


def test_other_budgets_and_embedders_are_said(ten: Dataset, folders: Folders) -> None:
    def memory(budget: int | None, embedder: str) -> dict[str, Any]:
        parameters = {"budget": budget}
        return {"memory": {"name": "hybrid", "parameters": parameters}, "embedder": {"spec": embedder}}

    graded_run(ten, folders, "a", labels(5, 5), settings=memory(None, "hashing"))
    graded_run(ten, folders, "b", labels(5, 5), settings=memory(900, "openai:x"))
    graded_run(ten, folders, "c", labels(5, 5), settings=memory(900, "hashing"))
    graded_run(ten, folders, "d", labels(5, 5))
    warnings = compare(["a", "b", "c", "d"], folders=folders).warnings
    assert warnings[:-1] == (
        "Budget: none in a; 900 in b, c.",
        "Embedder: openai:x in b; hashing in a, c.",
    )


def test_another_model_in_the_official_judges_name_is_said(ten: Dataset, folders: Folders) -> None:
    official = LongMemEvalJudge(CallCounter(DEFAULT_JUDGE), OWN_ENDPOINT).identity
    for run_id, served_model in (("a", OFFICIAL_MODEL), ("b", "llama3.1"), ("c", OFFICIAL_MODEL)):
        graded_run(ten, folders, run_id, labels(5, 5), judge=official, served_model=served_model)
    assert not any("official" in warning for warning in compare(["a", "c"], folders=folders).warnings)
    warnings = compare(["a", "b"], folders=folders).warnings
    assert warnings[0] == "b: according to the server, not all labels come from the official judge's model."


def test_an_interrupted_run_is_marked(ten: Dataset, folders: Folders) -> None:
    graded_run(ten, folders, "a", labels(5, 5), status="interrupted")
    found = compare(["a"], folders=folders)
    (said,) = [one for one in found.sentences if one.code == "not-completed"]
    assert (said.kind, said.runs["A"], said.values["status"]) == ("caution", ("a",), "interrupted")
    assert found.runs[0].summary.status == "interrupted"


def test_answers_of_another_system_are_marked(ten: Dataset, folders: Folders, tmp_path: Path) -> None:
    file = tmp_path / "theirs.jsonl"
    file.write_text(json.dumps({"question_id": "q0", "hypothesis": "I cannot say."}) + "\n")
    adopted = adopt_hypotheses(file, ten, folders.results_dir).run_id
    evaluate(adopted, options=OFFLINE, folders=folders)
    found = compare([adopted], folders=folders)
    assert [one.code for one in found.sentences if one.kind == "caution"] == ["unchecked-judge", "answers-elsewhere"]
    figures = found.runs[0]
    # What reached its prompt is not known of the one wrong answer; the nine others are missing.
    assert figures.lost == {"not answered": 9, "no provenance": 1}
    assert (figures.evidence_recall, figures.reading) == (None, "")


def offline_run(dataset: Dataset, folders: Folders, run_id: str, memory: str) -> None:
    answer_all(dataset, folders, run_id, memory=memory)
    evaluate(run_id, options=OFFLINE, folders=folders)


@pytest.mark.slow
def test_where_questions_were_lost(tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path)
    for memory in ("none", "oracle"):
        offline_run(dataset, folders, memory, memory)
    # The judge finds every oracle answer wrong but the first.
    strict = {"q0": True, "q1": False, "q2": False, "q3": False}
    for run_id in ("none", "oracle"):
        grade(dataset, folders, run_id, strict)
    found = compare(["none", "oracle"], folders=folders, judge="strict")
    assert [run.lost for run in found.runs] == [{"not retrieved": 3}, {"disputed": 3}]
    assert [run.evidence_recall for run in found.runs] == [0.0, 1.0]
    assert found.questions[0].stages == (None, None)
    assert found.questions[1].stages == ("not retrieved", "disputed")
    # The lexical judge accepts them, which is what is disputed; it finds nothing wrong.
    by_rules = compare(["oracle"], folders=folders, judge="offline/lexical")
    assert by_rules.runs[0].lost == {}
    fixture = folders.prepared_dir / "colours" / "default"
    edit_json(fixture / "q1" / "meta.json", lambda meta: meta["thread_ids"].remove("answer_1"))
    assert compare(["none"], folders=folders, judge="strict").runs[0].lost == {"not stored": 1, "not retrieved": 2}
    edit_json(fixture / "q1" / "meta.json", lambda meta: meta["dataset"].update(sha256="f" * 64))
    (fixture / "q2" / "meta.json").write_text("garbage")
    shutil.rmtree(fixture / "q3")
    unknown = compare(["none"], folders=folders, judge="strict")
    assert unknown.runs[0].lost == {"not retrieved": 3}
    assert [warning for warning in unknown.warnings if "none is reported as not stored" in warning] == [
        "The fixtures of none are missing or were made from other data since: whether evidence was stored is unknown, "
        "so none is reported as not stored."
    ]


def test_repeats_of_one_configuration(ten: Dataset, folders: Folders) -> None:
    for number, right in enumerate((5, 7, 6), start=1):
        graded_run(ten, folders, f"r{number}", labels(right, 10 - right), settings={"repeat": number})
    graded_run(ten, folders, "copy", labels(5, 5), settings={"model": {"spec": "m"}, "repeat": 1})
    graded_run(ten, folders, "same", labels(5, 5), settings={"model": {"spec": "m"}, "repeat": 1})
    found = compare(["r1", "copy", "r2", "same", "r3"], folders=folders)
    (group,) = found.repeats
    assert (group.name, group.run_ids) == (found.names["r1"], ("r1", "r2", "r3"))
    assert group.spread.mean == pytest.approx(0.6)
    assert group.spread.sd == pytest.approx(0.1)
    assert [row.run_ids for row in found.rows] == [("r1", "r2", "r3"), ("copy",), ("same",)]
    assert found.runs[0].settings_sha256 == found.runs[2].settings_sha256 != found.runs[1].settings_sha256


def answered(folder: Path, **texts: str) -> None:
    """Give some questions of a run other answers."""
    lines = [json.loads(line) for line in (folder / "answers.jsonl").read_text().splitlines()]
    changed = [line | {"hypothesis": texts.get(line["question_id"], line["hypothesis"])} for line in lines]
    (folder / "answers.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in changed))


def test_flips_are_split_into_those_of_the_answer_and_of_the_judge(ten: Dataset, folders: Folders) -> None:
    """Four labels change: twice with another text, twice with the same; one of the first two is the judge's as well,
    which graded the same text otherwise when asked again."""
    names = [question.question_id for question in ten.questions()]
    first = labels(6, 4)
    second = [*labels(4), *labels(0, 2), *labels(2, 2)]
    for number, given in enumerate((first, second), start=1):
        folder = graded_run(ten, folders, f"r{number}", given, settings={"repeat": number})
        answered(folder, **({names[4]: "other", names[6]: "another"} if number == 2 else {}))
        grade(ten, folders, f"r{number}", dict(zip(names, given, strict=True)))
    found = compare(["r1", "r2"], folders=folders).repeats[0].flips
    assert found == Flips(questions=10, flipped=4, by_judge=2, seen_twice=8)
    assert found.by_answer == 2
    again = dict(zip(names, second, strict=True)) | {names[6]: False, names[9]: True}
    grade(ten, folders, "r2", again, judge=grading_of(STRICT, 2))
    shown = compare(["r1", "r2"], folders=folders)
    # Question 6 by its second grading; question 9 has other labels of one text, but no label that changes between runs.
    assert shown.repeats[0].flips == Flips(questions=10, flipped=4, by_judge=3, seen_twice=10)
    (table,) = [one for one in comparison_tables(shown) if one.title.startswith("Repeats")]
    assert table.rows[0][-3:] == ["4 of 10", "1", "3"]


def test_a_judge_that_never_saw_a_text_twice_is_unknown(ten: Dataset, folders: Folders) -> None:
    names = [question.question_id for question in ten.questions()]
    for number, given in enumerate((labels(6, 4), labels(4, 6)), start=1):
        folder = graded_run(ten, folders, f"r{number}", given, settings={"repeat": number})
        answered(folder, **{name: f"{name} {number}" for name in names})
        grade(ten, folders, f"r{number}", dict(zip(names, given, strict=True)))
    found = compare(["r1", "r2"], folders=folders)
    assert found.repeats[0].flips == Flips(questions=10, flipped=2, by_judge=None, seen_twice=0)
    (table,) = [one for one in comparison_tables(found) if one.title.startswith("Repeats")]
    assert table.rows[0][-3:] == ["2 of 10", UNKNOWN, UNKNOWN]


def test_one_run_and_a_note_before_it_is_paid_for(ten: Dataset, folders: Folders) -> None:
    graded_run(ten, folders, "a", labels(5, 5))
    found = compare(["a"], folders=folders)
    assert (found.pairs, found.repeats) == ((), ())
    assert found.detectable == minimum_detectable_difference(10)
    points = minimum_detectable_difference(50) * 100
    own = [f"h{number}" for number in range(50)]
    assert power_note(own) == (
        f"Planning: 50 questions give 80% power to detect {points:.1f} points, assuming that two runs "
        "disagree on 20% of the questions. If they disagree on fewer, smaller differences are detectable; "
        "`compare` computes this for each pair."
    )
    assert power_note(own[:1]).startswith("1 question is too few for a significant difference")
    assert "5 questions are too few for a significant difference (smallest possible p = 0.062)" in (power_note(own[:5]))
    assert power_note(own[:6]).startswith("Planning: 6 questions give")
    # Ten conversations of 200 questions: variance times 1.199, and t of 9 degrees of freedom for z. 2.8 points -> 3.4.
    conversations = [f"c{number % 10}" for number in range(2000)]
    assert power_note(conversations).startswith(
        "Planning: 2,000 questions over 10 haystacks give 80% power to detect 3.4 points"
    )
    assert "20% of the questions and questions on one haystack correlate by 0.001." in power_note(conversations)
    assert minimum_detectable_difference(2000, design_effect=1.199, haystacks=10) == pytest.approx(0.0344, abs=1e-3)
    four = power_note([f"c{number % 4}" for number in range(800)])
    assert four.startswith("800 questions over 4 haystacks are too few for a significant difference")


def test_real_runs_on_a_selection(tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path, 6)
    offline_run(dataset, folders, "none", "none")
    answer_all(dataset, folders, "oracle", memory="oracle", selection=Selection(limit=4))
    evaluate("oracle", options=OFFLINE, folders=folders)
    found = longmemeval.compare("none", "oracle", folders=folders, common=True)
    assert [run.summary.metrics.overall.n for run in found.runs] == [4, 4]
    assert [run.summary.metrics.overall.correct for run in found.runs] == [0, 4]
    assert found.pairs[0].difference == -1
    assert "oracle is given the gold evidence" in found.warnings[1]
    assert [run.reading for run in found.runs] == ["direct, nl", "direct, nl"]


@pytest.mark.thorough
@pytest.mark.slow
def test_twenty_runs_of_five_hundred_questions(many: Dataset, folders: Folders) -> None:
    source = random.Random(3)
    names = [f"run{number:02}" for number in range(20)]
    for name in names:
        graded_run(many, folders, name, [source.random() < 0.5 for _ in range(500)])
    found = compare(names, folders=folders)
    assert ids(found) == names
    assert len(found.pairs) == 190
    assert all(pair.p <= pair.p_holm for pair in found.pairs)
    assert not any(pair.significant for pair in found.pairs)
    for pair in found.pairs:
        accuracies = {run.summary.run_id: run.summary.metrics.overall.accuracy for run in found.runs}
        assert pair.difference == pytest.approx(accuracies[pair.a] - accuracies[pair.b])
        assert pair.interval[0] < pair.difference < pair.interval[1]
    assert [len(row.credits) for row in found.questions] == [20] * 500
