"""Comparisons with and without disputed labels: figures by other means, ceilings, and who is above them."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import longmemeval as package
from longmemeval.dataset import Dataset
from longmemeval.errors import HarnessError
from longmemeval.judges.audit import LATER_EVIDENCE, WRONG_GOLD, text_sha256
from longmemeval.pipeline.compare.audited import ALL_DISPUTED
from longmemeval.pipeline.compare.compare import compare_runs
from longmemeval.pipeline.compare.comparison import Comparison
from longmemeval.report.documents import comparison_document
from longmemeval.report.options import ReportOptions
from longmemeval.report.write import render_report
from longmemeval.results.graded.graded_run import load_graded
from longmemeval.settings import Folders
from longmemeval.statistics.paired import mcnemar
from tests.pipeline.graded_runs import graded_run
from tests.pipeline.helpers import colours
from tests.support import longmemeval

N = 40
WRONG, LATER, UNCLEAR = range(6), range(6, 10), range(10, 12)


@pytest.fixture
def data(tmp_path: Path) -> Dataset:
    return colours(tmp_path / "forty.json", N)


@pytest.fixture
def audit(tmp_path: Path) -> str:
    kinds = [(WRONG, "CONTRADICTS_HISTORY"), (LATER, "LATER_EVIDENCE"), (UNCLEAR, "AMBIGUOUS")]
    path = tmp_path / "own.json"
    path.write_text(
        json.dumps([{"question_id": f"q{n}", "error_type": kind} for numbers, kind in kinds for n in numbers])
    )
    return str(path)


@pytest.fixture
def runs(data: Dataset, folders: Folders) -> list[str]:
    """`a` is right on all but the last ten; `b` on the disputed questions alone, and on half of the others."""
    graded_run(data, folders, "a", [n < 30 for n in range(N)])
    graded_run(data, folders, "b", [n < 12 or n % 2 == 0 for n in range(N)])
    graded_run(data, folders, "all", [True] * N)
    return ["a", "b", "all"]


def compared(runs: list[str], folders: Folders, audits: list[str] | None) -> Comparison:
    return compare_runs(load_graded(runs, folders), folders, audits=audits)


def test_scores_and_differences_without_each_kind(runs: list[str], folders: Folders, audit: str) -> None:
    comparison = compared(runs, folders, [audit])
    (audited,) = comparison.audits
    assert audited.kinds == {WRONG_GOLD: 6, "ambiguous": 2, LATER_EVIDENCE: 4}
    rights: dict[str, Callable[[int], bool]] = {
        "a": lambda n: n < 30,
        "b": lambda n: n < 12 or n % 2 == 0,
        "all": lambda n: True,
    }
    left_out = {
        WRONG_GOLD: {*WRONG},
        "ambiguous": {*UNCLEAR},
        LATER_EVIDENCE: {*LATER},
        ALL_DISPUTED: {*WRONG, *UNCLEAR},
    }
    assert [row.kind for row in audited.rows] == [kind for kind in left_out for _ in runs]
    for row in audited.rows:
        kept = [n for n in range(N) if n not in left_out[row.kind]]
        right = rights[row.run_id]
        assert row.score.undisputed_mean == pytest.approx(sum(map(right, kept)) / len(kept))
        assert (row.score.n, row.score.undisputed_n) == (N, len(kept))
        if row.versus is None:
            assert row.run_id == "a"
            continue
        only = sum(right(n) and n >= 30 for n in kept), sum(not right(n) and n < 30 for n in kept)
        assert row.versus.difference == pytest.approx((only[0] - only[1]) / len(kept))
        assert row.versus.p == pytest.approx(mcnemar(*only))


def test_only_disputed_gold_answers_lower_the_ceiling(runs: list[str], folders: Folders, audit: str) -> None:
    comparison = compared(runs, folders, [audit])
    (audited,) = comparison.audits
    assert audited.ceiling.overall == pytest.approx((N - 8) / N)
    assert {*audited.disputed} == {f"q{n}" for n in (*WRONG, *UNCLEAR)}
    assert audited.above[""] == ("all",)
    told = {sentence.code: sentence for sentence in comparison.sentences}
    assert told["above-ceiling"].runs == {"names": ("all",)}
    assert (told["audit"].values["d"], told["audit"].values["c"]) == (8, audited.ceiling.overall)
    # The official scores stay as they are.
    assert [row.summary.metrics.overall.n for row in comparison.rows] == [N] * 3
    assert comparison.against == compared(runs, folders, []).against


def test_a_difference_that_disputed_labels_make_is_named(data: Dataset, folders: Folders, audit: str) -> None:
    graded_run(data, folders, "a", [n >= 6 for n in range(N)])
    graded_run(data, folders, "b", [True] * N)
    comparison = compared(["a", "b"], folders, [audit])
    assert comparison.against[0].significant
    changes = [sentence for sentence in comparison.sentences if sentence.code == "audit-changes"]
    assert {(sentence.values["kind"], sentence.values["now"]) for sentence in changes} == {
        (WRONG_GOLD, False),
        (ALL_DISPUTED, False),
    }


def test_two_audits_agree_as_far_as_both_dispute(runs: list[str], folders: Folders, audit: str, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text(json.dumps([{"question_id": f"q{n}"} for n in (0, 20)]))
    comparison = compared(runs, folders, [audit, str(other)])
    (agreed,) = [sentence for sentence in comparison.sentences if sentence.code == "audits-agree"]
    # Of 40: both 1, only the first 7, only the second 1, neither 31.
    expected = (8 / 40 * 2 / 40) + (32 / 40 * 38 / 40)
    assert (agreed.values["both"], agreed.values["either"]) == (1, 9)
    assert agreed.values["kappa"] == pytest.approx((32 / 40 - expected) / (1 - expected))


def test_every_medium_shows_audits(runs: list[str], folders: Folders, audit: str) -> None:
    comparison = package.compare(*runs, audits=[audit], folders=folders)
    document = comparison_document(comparison)
    assert [found.audit for found in document["audits"]] == ["own.json"]
    assert "audits" not in comparison_document(compared(runs, folders, []))
    for format in ("html", "md", "latex"):
        text = render_report(runs, options=ReportOptions(format=format, audit=(audit,)), folders=folders)
        assert "own.json" in text
        assert "own.json" not in render_report(runs, options=ReportOptions(format=format), folders=folders)
    done = longmemeval("compare", *runs, "--audit", audit, "--json", cwd=folders.results_dir.parent)
    assert json.loads(done.stdout)["audits"][0]["ceiling"]["overall"] == pytest.approx(0.8)


def test_a_shipped_audit_tells_of_scores_above_its_ceiling_unasked(
    runs: list[str], data: Dataset, folders: Folders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {question.question_id: question.text for question in data.questions()}
    disputed = [
        {"question_id": f"q{n}", "error_type": "CONTRADICTS_HISTORY", "question_sha256": text_sha256(texts[f"q{n}"])}
        for n in WRONG
    ]
    ours = {"name": "ours", "about": "Made by models.", "source": "-", "licence": "MIT", "questions": N}
    (tmp_path / "audits.json").write_text(json.dumps([ours | {"disputed": disputed}]))
    graded = load_graded(runs, folders)
    known = replace(graded[0].asked.benchmark, audits=tmp_path / "audits.json")
    for run in graded:
        monkeypatch.setattr(run.asked, "benchmark", known)
    comparison = compare_runs(graded, folders)
    assert comparison.audits == ()
    (above,) = [sentence for sentence in comparison.sentences if sentence.code.startswith(("above", "audit"))]
    assert (above.kind, above.runs["names"]) == ("caution", ("all",))
    assert "Made by models." in above.text({})
    # All shipped ones, as the view asks: figures as notes, the warning stays a caution.
    noted = compare_runs(graded, folders, audits=None)
    assert [audit.audit for audit in noted.audits] == ["ours"]
    assert {sentence.code: sentence.kind for sentence in noted.sentences if "audit" in sentence.values} == {
        "audit": "note",
        "above-ceiling": "caution",
    }


def test_an_audit_of_other_data_is_refused(runs: list[str], folders: Folders) -> None:
    with pytest.raises(HarnessError, match="The audit 'reme' disputes no question of 'forty'"):
        compared(runs, folders, ["reme"])
    assert compared(runs, folders, None).audits == ()
