"""Disputed labels: which questions an audit file means, what is refused, and what a score is without them."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from longmemeval.benchmarks.catalogue import benchmarks
from longmemeval.benchmarks.factconsolidation.benchmark import FACTCONSOLIDATION
from longmemeval.benchmarks.factconsolidation.loader import FactConsolidationDataset
from longmemeval.benchmarks.locomo.benchmark import LOCOMO
from longmemeval.benchmarks.locomo.loader import LocomoDataset
from longmemeval.benchmarks.longmemeval.benchmark import LONGMEMEVAL
from longmemeval.benchmarks.longmemeval.loader import LongMemEvalDataset
from longmemeval.core.files import sha256_file
from longmemeval.errors import HarnessError
from longmemeval.judges.audit import (
    KINDS,
    LATER_EVIDENCE,
    WRONG_GOLD,
    Audit,
    audit_of,
    audited_mean,
    ceiling,
    named_audits,
    read_audit,
    text_sha256,
)
from longmemeval.records import Gold
from tests.conftest import real_file
from tests.support import record, write_dataset


def conversation(sample_id: str, *questions: str) -> dict[str, Any]:
    turn = {"speaker": "Ann", "dia_id": "D1:1", "text": "Hi"}
    return {
        "sample_id": sample_id,
        "conversation": {
            "speaker_a": "Ann",
            "speaker_b": "Bo",
            "session_1": [turn],
            "session_1_date_time": "1:56 pm on 8 May, 2023",
        },
        "qa": [{"question": text, "answer": "Oslo", "evidence": ["D1:1"], "category": 4} for text in questions],
    }


@pytest.fixture
def dataset(tmp_path: Path) -> LocomoDataset:
    # The conversation without a question counts as one all the same.
    path = tmp_path / "locomo.json"
    path.write_text(
        json.dumps(
            [conversation("conv-1", "Who?", "Where? \n"), conversation("conv-2"), conversation("conv-3", "Why?")]
        )
    )
    return LocomoDataset(path)


def audit_file(folder: Path, content: object) -> Path:
    path = folder / "errors.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def entry(question_id: str, error_type: str = "HALLUCINATION", **more: object) -> dict[str, Any]:
    return {"question_id": question_id, "error_type": error_type, "reasoning": "Because", "category": 4} | more


def test_published_ids_become_ours(tmp_path: Path, dataset: LocomoDataset) -> None:
    path = audit_file(
        tmp_path,
        [
            entry("locomo_2_qa0", "WRONG_CITATION", question="Why?"),
            entry("locomo_0_qa1", "TEMPORAL_ERROR", question="Where?"),
            entry("locomo_0_qa0", "TEMPORAL_ERROR"),
        ],
    )
    audit = read_audit(path, dataset, LOCOMO.audit_id)
    assert audit == Audit(
        sha256_file(path),
        {"TEMPORAL_ERROR": ("conv-1/q1", "conv-1/q0"), "WRONG_CITATION": ("conv-3/q0",)},
        "errors.json",
    )
    assert audit.score_corrupting == {"conv-1/q0", "conv-1/q1"}
    assert audit.citation_only == {"conv-3/q0"}


def test_a_plain_list_disputes_without_saying_why(tmp_path: Path, dataset: LocomoDataset) -> None:
    path = audit_file(tmp_path, [{"question_id": "conv-3/q0"}, {"question_id": "conv-3/q0"}])
    audit = read_audit(path, dataset, LOCOMO.audit_id)
    assert audit.by_error_type == {"UNSPECIFIED": ("conv-3/q0",)}
    assert audit.score_corrupting == {"conv-3/q0"}


@pytest.mark.parametrize("kind", ["HALLUCINATION", "TEMPORAL_ERROR", "ATTRIBUTION_ERROR", "AMBIGUOUS", "INCOMPLETE"])
def test_a_disputed_answer_outweighs_a_wrong_citation(tmp_path: Path, dataset: LocomoDataset, kind: str) -> None:
    audit = read_audit(
        audit_file(tmp_path, [entry("conv-1/q0", "WRONG_CITATION"), entry("conv-1/q0", kind)]), dataset, LOCOMO.audit_id
    )
    assert audit.score_corrupting == {"conv-1/q0"}
    assert audit.citation_only == set()


def test_an_empty_audit_disputes_nothing(tmp_path: Path, dataset: LocomoDataset) -> None:
    audit = read_audit(audit_file(tmp_path, []), dataset, LOCOMO.audit_id)
    assert audit.by_error_type == {}
    assert audit.score_corrupting == audit.citation_only == set()


def test_other_benchmarks_are_audited_by_their_own_ids(tmp_path: Path) -> None:
    other = LongMemEvalDataset(write_dataset(tmp_path / "data.json", record("locomo_0_qa0"), record("q2")))
    audit = read_audit(audit_file(tmp_path, [entry("locomo_0_qa0"), entry("q2")]), other, LONGMEMEVAL.audit_id)
    assert audit.score_corrupting == {"locomo_0_qa0", "q2"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "not a list of disputed questions"),
        ("[{", "not a list of disputed questions"),
        ({"question_id": "conv-1/q0"}, "not a list of disputed questions"),
        (["conv-1/q0"], r"not a list of disputed questions.*\$\[0\]"),
        ([{"id": "conv-1/q0"}], "missing required field `question_id`"),
        ([entry("locomo_0_qa2")], r"does not have, 1 in all: 'locomo_0_qa2' "),
        ([entry("locomo_3_qa0")], "does not have, 1 in all: 'locomo_3_qa0'"),
        ([entry(f"q{n}") for n in range(7)], "7 in all: 'q0', 'q1', 'q2', 'q3', 'q4', … "),
        ([entry("conv-1/q00")], r"'conv-1/q00' .*Did you mean 'conv-1/q0'\?"),
        ([entry("conv-1/q0", "WRONG_CITATIONS")], "entry 1 .*Did you mean 'WRONG_CITATION'"),
        ([entry("conv-1/q0"), entry("locomo_0_qa1", question="Who?")], r"other data: it has 'Who\?' .*entry 2 "),
    ],
)
def test_a_file_that_cannot_serve_is_refused(
    tmp_path: Path, dataset: LocomoDataset, content: object, message: str
) -> None:
    path = audit_file(tmp_path, content)
    with pytest.raises(HarnessError, match=message) as caught:
        read_audit(path, dataset, LOCOMO.audit_id)
    assert str(path) in caught.value.where


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, dataset: LocomoDataset) -> None:
    with pytest.raises(HarnessError, match="cannot be read: No such file") as caught:
        read_audit(tmp_path / "none.json", dataset, LOCOMO.audit_id)
    assert caught.value.where == str(tmp_path / "none.json")


def test_mean_with_and_without_the_disputed_questions() -> None:
    scores = {"a": 1.0, "b": 0.5, "c": 0.0, "d": 1.0}
    mean = audited_mean(scores, {"c", "d", "never asked"})
    assert (mean.mean, mean.n, mean.undisputed_mean, mean.undisputed_n) == (0.625, 4, 0.75, 2)
    untouched = audited_mean(scores, set())
    assert (untouched.undisputed_mean, untouched.undisputed_n) == (untouched.mean, untouched.n)


def test_no_mean_without_questions() -> None:
    assert audited_mean({"a": 1.0}, {"a"}).undisputed_mean is None
    empty = audited_mean({}, set())
    assert (empty.mean, empty.n, empty.undisputed_mean, empty.undisputed_n) == (None, 0, None, 0)


def test_ceiling_is_the_share_not_disputed() -> None:
    golds = [Gold(name, name[0], "", (), (), False) for name in ("b1", "b2", "b3", "b4", "a1")]
    highest = ceiling(golds, {"b2", "never asked"})
    assert (highest.overall, highest.by_type) == (0.8, {"a": 1.0, "b": 0.75})
    assert ceiling([], {"b2"}).overall is None


@pytest.mark.slow
def test_ceilings_of_the_public_audit(tmp_path: Path) -> None:
    """As many entries per category as the public audit has: 28, 26, 9 and 36 of categories 1 to 4."""
    dataset = LocomoDataset(real_file("locomo10.json"))
    places = {haystack.haystack_id: number for number, haystack in enumerate(dataset.haystacks())}
    golds = [dataset.gold(question.question_id) for question in dataset.questions()]
    left = Counter({"multi-hop": 28, "temporal": 26, "open-domain": 9, "single-hop": 36})
    entries = []
    for question, gold in zip(dataset.questions(), golds, strict=True):
        if left[gold.question_type] > 0:
            left[gold.question_type] -= 1
            index = question.question_id.partition("/q")[2]
            identifier = f"locomo_{places[question.haystack_id]}_qa{index}"
            entries.append(entry(identifier, "AMBIGUOUS", question=question.text))
    audit = read_audit(audit_file(tmp_path, entries), dataset, LOCOMO.audit_id)
    assert len(audit.score_corrupting) == 99
    highest = ceiling([gold for gold in golds if not gold.abstention], audit.score_corrupting)
    assert {name: f"{share:.1%}" for name, share in highest.by_type.items()} == {
        "multi-hop": "90.1%",
        "open-domain": "90.6%",
        "single-hop": "95.7%",
        "temporal": "91.9%",
    }
    assert highest.overall is not None
    assert f"{highest.overall:.2%}" == "93.57%"


def test_published_entries_name_the_right_questions(tmp_path: Path) -> None:
    """Two entries of the public audit, with their ids and the texts of their questions."""
    dataset = LocomoDataset(real_file("locomo10.json"))
    entries = [
        entry("locomo_0_qa1", "WRONG_CITATION", question="When did Melanie paint a sunrise?"),
        entry("locomo_1_qa31", "TEMPORAL_ERROR", question="How long did it take for Jon to open his studio?"),
    ]
    audit = read_audit(audit_file(tmp_path, entries), dataset, LOCOMO.audit_id)
    assert audit.by_error_type == {"TEMPORAL_ERROR": ("conv-30/q31",), "WRONG_CITATION": ("conv-26/q1",)}


def catalogue_file(folder: Path, *disputed: dict[str, str]) -> Path:
    path = folder / "audits.json"
    audit = {"name": "ours", "about": "Made here.", "source": "-", "licence": "MIT", "questions": 4}
    path.write_text(json.dumps([audit | {"disputed": disputed}]))
    return path


def test_a_named_audit_applies_to_the_same_text_only(tmp_path: Path) -> None:
    data = LongMemEvalDataset(
        write_dataset(
            tmp_path / "data.json", record("q1"), record("q2", question="Another text?"), record("q3"), record("q4")
        )
    )
    text = record()["question"]
    catalogue = catalogue_file(
        tmp_path,
        {"question_id": "q1", "error_type": "CONTRADICTS_HISTORY", "question_sha256": text_sha256(f" {text}\n")},
        {"question_id": "q2", "error_type": "CONTRADICTS_HISTORY", "question_sha256": text_sha256(text)},
        {"question_id": "q3", "error_type": "LATER_EVIDENCE", "question_sha256": text_sha256(text)},
        {"question_id": "gone", "error_type": "AMBIGUOUS", "question_sha256": text_sha256(text)},
    )
    audit = audit_of("ours", data, catalogue, None, tmp_path)
    assert (audit.name, audit.about, audit.elsewhere) == ("ours", "Made here.", 2)
    assert audit.by_kind == {WRONG_GOLD: {"q1"}, LATER_EVIDENCE: {"q3"}}
    assert audit.score_corrupting == {"q1"}
    with pytest.raises(HarnessError, match=r"Unknown audit 'our' of longmemeval.*'ours'"):
        audit_of("our", data, catalogue, None, tmp_path)


def test_shipped_audits_have_ids_kinds_and_hashes_and_no_text() -> None:
    allowed, shipped = {"question_id", "error_type", "question_sha256"}, {}
    for benchmark in benchmarks():
        for name, audit in named_audits(benchmark.audits).items():
            shipped[name] = (Counter(KINDS[entry.error_type] for entry in audit.disputed), round(audit.ceiling, 4))
            assert benchmark.audits
            for plain in json.loads(benchmark.audits.read_text()):
                assert all(entry.keys() == allowed for entry in plain.get("disputed", ()))
                assert all(len(entry["question_sha256"]) == 64 for entry in plain.get("disputed", ()))
                assert plain["licence"] in ("Apache-2.0", "MIT", "facts") or "disputed" not in plain
    assert shipped == {
        "reme": ({WRONG_GOLD: 13, LATER_EVIDENCE: 15}, 0.974),
        "issues": (
            {"disputed without a reason": 4, "evidence labels wrong": 1, "reported for the first release": 2},
            0.992,
        ),
        "newest-wins": ({WRONG_GOLD: 70}, 0.9125),
        "locomo-audit": ({}, 0.9357),
    }
    assert "made by models" in named_audits(LONGMEMEVAL.audits)["reme"].about.lower()
    assert "took back" in named_audits(LONGMEMEVAL.audits)["reme"].about


def test_the_audit_of_factconsolidation_is_the_rule_of_the_benchmark() -> None:
    dataset = FactConsolidationDataset(real_file("factconsolidation.json"))
    audit = audit_of("newest-wins", dataset, FACTCONSOLIDATION.audits, None, Path())
    asked = [question.question_id for question in dataset.questions()]
    assert audit.elsewhere == 0
    assert audit.score_corrupting == {name for name in asked if not dataset.fact_gold(name).consistent}


def test_what_a_licence_forbids_to_ship_is_fetched_by_the_user(tmp_path: Path, dataset: LocomoDataset) -> None:
    with pytest.raises(HarnessError, match=r"its licence is CC BY-NC 4\.0.*Save errors\.json of https://\S+ as \S+"):
        audit_of("locomo-audit", dataset, LOCOMO.audits, LOCOMO.audit_id, tmp_path)
    audit_file(tmp_path, [entry("locomo_0_qa1")]).rename(tmp_path / "locomo-audit.json")
    audit = audit_of("locomo-audit", dataset, LOCOMO.audits, LOCOMO.audit_id, tmp_path)
    assert (audit.name, set(audit.score_corrupting)) == ("locomo-audit", {"conv-1/q1"})
