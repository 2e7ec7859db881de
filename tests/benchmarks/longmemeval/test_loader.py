import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longmemeval.benchmarks.catalogue import units_of
from longmemeval.benchmarks.longmemeval.benchmark import LONGMEMEVAL
from longmemeval.benchmarks.longmemeval.loader import QUESTION_TYPES, LongMemEvalDataset, Record, parse_date
from longmemeval.benchmarks.registry import load_dataset
from longmemeval.benchmarks.spec import Sniffed
from longmemeval.core.text.quantities import official_date
from longmemeval.dataset import Dataset
from longmemeval.errors import DataError
from longmemeval.records import Gold, Question, Session, Turn
from longmemeval.statistics.paired import compare_pairs
from tests.pipeline.helpers import colour_record
from tests.support import examples, write_dataset


def make_record(question_id: str = "q1", **changes: object) -> dict[str, Any]:
    """A valid record of three sessions, out of time order in the file; the evidence is turn 1 of `answer_b`."""
    record = {
        "question_id": question_id,
        "question_type": "multi-session",
        "question": "Where do I live?",
        "question_date": "2023/05/30 (Tue) 23:40",
        "answer": "Oslo",
        "answer_session_ids": ["answer_b"],
        "haystack_dates": ["2023/05/22 (Mon) 10:00", "2023/05/21 (Sun) 09:30", "2023/05/22 (Mon) 10:00"],
        "haystack_session_ids": ["late", "answer_b", "tie"],
        "haystack_sessions": [
            [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}],
            [
                {"role": "assistant", "content": "Where do you live?", "has_answer": False},
                {"role": "user", "content": "In Oslo, æøå 🙂", "has_answer": True},
            ],
            [{"role": "user", "content": ""}],
        ],
    }
    return record | changes


def write(path: Path, *records: object) -> Path:
    path.write_text(json.dumps(records))
    return path


def open_records(tmp_path: Path, *records: object) -> LongMemEvalDataset:
    return LongMemEvalDataset(write(tmp_path / "data.json", *records))


def read_everything(dataset: Dataset) -> None:
    for question in dataset.questions():
        dataset.haystack(question.haystack_id)
        dataset.gold(question.question_id)


def test_a_record_becomes_question_haystack_and_gold(tmp_path: Path) -> None:
    dataset = open_records(tmp_path, make_record())
    assert len(dataset) == 1
    assert dataset.name == "data"
    assert list(dataset.questions()) == [
        Question("q1", "Where do I live?", datetime(2023, 5, 30, 23, 40), "2023/05/30 (Tue) 23:40", "q1")
    ]
    haystack = dataset.haystack("q1")
    assert [session.session_id for session in haystack.sessions] == ["answer_b", "late", "tie"]
    assert haystack.sessions[0] == Session(
        "answer_b",
        datetime(2023, 5, 21, 9, 30),
        "2023/05/21 (Sun) 09:30",
        (Turn("assistant", "Where do you live?"), Turn("user", "In Oslo, æøå 🙂")),
    )
    assert dataset.gold("q1") == Gold("q1", "multi-session", "Oslo", ("answer_b",), ("answer_b:1",), False)


def test_real_record(real_longmemeval: Path) -> None:
    dataset = LongMemEvalDataset(real_longmemeval)
    (question,) = dataset.questions()
    (haystack,) = dataset.haystacks()
    assert question.text == "What degree did I graduate with?"
    assert question.date == datetime(2023, 5, 30, 23, 40)
    assert len(haystack.sessions) == 53
    assert sum(len(session.turns) for session in haystack.sessions) == 550
    gold = dataset.gold("e47becba")
    assert gold.answer == "Business Administration"
    assert gold.evidence_sessions == ("answer_280352e9",)
    turns = {f"{s.session_id}:{i}": turn for s in haystack.sessions for i, turn in enumerate(s.turns)}
    assert sorted(turns[turn_id].role for turn_id in gold.evidence_turns) == ["assistant", "user"]
    assert "Business Administration" in " ".join(turns[turn_id].content for turn_id in gold.evidence_turns)


def test_haystacks_agree_with_the_plain_json_of_the_real_record(real_longmemeval: Path) -> None:
    record = json.loads(real_longmemeval.read_text())[0]
    haystack = next(LongMemEvalDataset(real_longmemeval).haystacks())
    ours = [[(turn.role, turn.content) for turn in session.turns] for session in haystack.sessions]
    assert ours == [[(turn["role"], turn["content"]) for turn in turns] for turns in record["haystack_sessions"]]
    assert [session.date_text for session in haystack.sessions] == record["haystack_dates"]


@pytest.mark.parametrize("answer", [0, 1300, -4, 10**30, "20", "$5", " padded "])
def test_answers_are_kept_exact(tmp_path: Path, answer: str | int) -> None:
    found = open_records(tmp_path, make_record(answer=answer)).gold("q1").answer
    assert found == answer
    assert type(found) is type(answer)


@pytest.mark.parametrize(("question_id", "abstention"), [("6aeb4375_abs", True), ("6aeb4375", False)])
def test_abstention_is_told_by_the_id(tmp_path: Path, question_id: str, abstention: bool) -> None:
    assert open_records(tmp_path, make_record(question_id)).gold(question_id).abstention is abstention


def test_reference_file_without_haystacks(tmp_path: Path) -> None:
    empty: dict[str, Any] = {"haystack_dates": [], "haystack_session_ids": [], "haystack_sessions": []}
    dataset = open_records(tmp_path, make_record(**empty))
    assert dataset.haystack("q1").sessions == ()
    assert dataset.gold("q1").evidence_sessions == ("answer_b",)
    assert dataset.gold("q1").evidence_turns == ()


def test_keys_unknown_to_the_format_are_allowed(tmp_path: Path) -> None:
    record = make_record(note={"a": [1, 2.5]})
    record["haystack_sessions"][0][0]["mood"] = None
    read_everything(open_records(tmp_path, record))


def test_a_wrong_weekday_is_no_fault(tmp_path: Path) -> None:
    dataset = open_records(tmp_path, make_record(question_date="2023/05/30 (Fri) 23:40"))
    assert next(dataset.questions()).date == datetime(2023, 5, 30, 23, 40)


def test_a_fault_names_the_question(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="question 'q7'"):
        open_records(tmp_path, make_record(), make_record("q7", answer=[]))


def test_a_label_of_null_is_as_none_and_false_in_every_reading(tmp_path: Path) -> None:
    """Hubs pad the turns of a file to equal keys."""
    padded, plain = make_record(), make_record()
    for session in padded["haystack_sessions"]:
        for turn in session:
            turn.setdefault("has_answer", None)
    found, expected = open_records(tmp_path, padded), LongMemEvalDataset(write(tmp_path / "plain.json", plain))
    assert found.gold("q1") == expected.gold("q1")
    assert list(found.haystacks()) == list(expected.haystacks())
    assert list(found.records()) == list(expected.records())
    assert list(found.user_side_records(["q1"])) == list(expected.user_side_records(["q1"]))
    assert found.content_sha256 == expected.content_sha256
    for session in padded["haystack_sessions"]:
        for turn in session:
            turn["has_answer"] = None
    unlabelled = open_records(tmp_path, padded)
    assert unlabelled.gold("q1").evidence_turns == ()
    assert not unlabelled.carries_labels("q1")


def test_a_label_that_grading_refuses_is_refused_with_the_haystack(tmp_path: Path) -> None:
    record = make_record()
    record["haystack_sessions"][1][1]["has_answer"] = "true"
    with pytest.raises(DataError, match=r"haystack_sessions\[1\]\[1\].has_answer.*without quotes"):
        open_records(tmp_path, record).haystack("q1")


def test_a_record_that_is_no_object(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"Expected object, got str.*record 2"):
        open_records(tmp_path, make_record(), "text")


def test_question_ids_must_be_unique(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"same question id is in record 1.*record 3"):
        open_records(tmp_path, make_record("a"), make_record("b"), make_record("a"))


def test_a_bad_haystack_does_not_hide_the_good_ones(tmp_path: Path) -> None:
    dataset = open_records(tmp_path, make_record("good"), make_record("bad", haystack_sessions=[]))
    assert len(dataset.haystack("good").sessions) == 3
    iterator = dataset.haystacks()
    assert next(iterator).haystack_id == "good"
    with pytest.raises(DataError, match="question 'bad'"):
        next(iterator)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"\xef\xbb\xbf[]", "empty array"),
        (b"\xef\xbb\xbf[", "truncated"),
        (b'{"question_id": "a"}', "not a JSON array"),
        (b'{"question_id": "a"}\n{"question_id": "b"}', "JSON Lines"),
        (b'{"question_id": "a"}\n[]', "not a JSON array"),
        (b"PAR1", "a Parquet file"),
    ],
)
def test_files_that_are_no_array_of_records(tmp_path: Path, content: bytes, expected: str) -> None:
    path = tmp_path / "data.json"
    path.write_bytes(content)
    with pytest.raises(DataError, match=expected) as caught:
        LongMemEvalDataset(path)
    assert str(path) in str(caught.value)


def test_a_parquet_file_without_a_benchmark_is_called_one(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.table({"question": ["a"]}), tmp_path / "data.json")
    with pytest.raises(DataError, match=r"a Parquet file.*keys of its first record are \['question'\]"):
        load_dataset(tmp_path / "data.json")
    parquet.write_table(pyarrow.table({key: ["a"] for key in make_record()}), tmp_path / "data.json")
    with pytest.raises(DataError, match=r"is a Parquet file .*Convert it"):
        load_dataset(tmp_path / "data.json")


def test_text_that_is_not_unicode(tmp_path: Path) -> None:
    path = write(tmp_path / "data.json", make_record("a"), make_record("b"))
    path.write_bytes(path.read_bytes().replace(b"Where do you live?", b"Where do you \xff?"))
    with pytest.raises(DataError, match=r"record 1 .*field haystack_sessions"):
        next(LongMemEvalDataset(path).haystacks())
    path.write_bytes(path.read_bytes().replace(b"Where do I live?", b"Where \\ud800?"))
    with pytest.raises(DataError, match=r"half a character.*escape"):
        LongMemEvalDataset(path)


@pytest.mark.parametrize("name", ["missing.json", ".", "nul\0.json"])
def test_files_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        LongMemEvalDataset(tmp_path / name)


def test_content_hash_ignores_form_and_sees_content(tmp_path: Path) -> None:
    record = make_record()
    plain = open_records(tmp_path, record)
    turned = {key: record[key] for key in reversed(record)} | {"extra": 1}
    path = tmp_path / "other.json"
    path.write_text(json.dumps([turned], indent=3, ensure_ascii=False))
    same = LongMemEvalDataset(path)
    assert same.sha256 != plain.sha256
    assert same.content_sha256 == plain.content_sha256


def test_content_hash_tells_number_from_text_and_minds_order(tmp_path: Path) -> None:
    def of(*records: dict[str, Any]) -> str:
        return open_records(tmp_path, *records).content_sha256

    assert of(make_record(answer=3)) != of(make_record(answer="3"))
    assert of(make_record("a"), make_record("b")) != of(make_record("b"), make_record("a"))


TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20).filter(
    lambda text: bool(text.strip())
)
DATES = st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1)).map(lambda date: date.replace(second=0, microsecond=0))
IDS = st.text("abcXYZ019_-", min_size=1, max_size=12)
TURNS = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant"]), "content": st.text(st.characters(exclude_categories=["Cs"]))},
        optional={"has_answer": st.booleans()},
    ),
    max_size=4,
)


@st.composite
def valid_records(draw: st.DrawFn) -> dict[str, Any]:
    sessions = draw(st.lists(st.tuples(IDS, DATES, TURNS), min_size=1, max_size=6))
    ids = [session_id for session_id, _, _ in sessions]
    return {
        "question_id": draw(IDS),
        "question_type": draw(st.sampled_from(QUESTION_TYPES)),
        "question": draw(TEXT),
        "question_date": official_date(draw(DATES)),
        "answer": draw(TEXT | st.integers()),
        "answer_session_ids": draw(st.lists(st.sampled_from(ids), max_size=3)),
        "haystack_dates": [official_date(date) for _, date, _ in sessions],
        "haystack_session_ids": ids,
        "haystack_sessions": [turns for _, _, turns in sessions],
    }


@pytest.mark.slow
@settings(max_examples=examples(40))
@given(st.lists(valid_records(), min_size=1, max_size=4, unique_by=lambda record: str(record["question_id"])))
def test_every_valid_file_comes_back(tmp_path_factory: pytest.TempPathFactory, records: list[dict[str, Any]]) -> None:
    dataset = open_records(tmp_path_factory.mktemp("data"), *records)
    for record, question, haystack in zip(records, dataset.questions(), dataset.haystacks(), strict=True):
        assert (question.question_id, question.text) == (record["question_id"], record["question"])
        assert question.date_text == record["question_date"]
        lists = ("haystack_session_ids", "haystack_dates", "haystack_sessions")
        expected = sorted(zip(*(record[name] for name in lists), strict=True), key=lambda session: session[1])
        for (session_id, text, turns), session in zip(expected, haystack.sessions, strict=True):
            assert (session.session_id, session.date_text, official_date(session.date)) == (session_id, text, text)
            assert [(turn.role, turn.content) for turn in session.turns] == [
                (turn["role"], turn["content"]) for turn in turns
            ]
        gold = dataset.gold(question.question_id)
        assert gold.answer == record["answer"]
        assert list(gold.evidence_sessions) == record["answer_session_ids"]
        assert set(gold.evidence_turns) == {
            f"{session_id}:{index}"
            for session_id, turns in zip(record["haystack_session_ids"], record["haystack_sessions"], strict=True)
            for index, turn in enumerate(turns)
            if turn.get("has_answer")
        }


@given(DATES)
def test_dates_come_back(date: datetime) -> None:
    assert parse_date(official_date(date)) == date


def test_user_side_has_no_assistant_text_and_no_other_questions(tmp_path: Path) -> None:
    dataset = open_records(tmp_path, make_record(), make_record("q2"), make_record("q3"))
    records = [one for one in dataset.records() if one.question_id != "q2"]
    seen = list(dataset.user_side_records({"q3", "q1"}))
    assert [one.question_id for one in seen] == ["q1", "q3"]
    for one, whole in zip(seen, records, strict=True):
        assert (one.haystack_dates, one.haystack_session_ids) == (whole.haystack_dates, whole.haystack_session_ids)
        assert [
            [(turn.role, turn.content, turn.has_answer) for turn in session] for session in one.haystack_sessions
        ] == [
            [(turn.role, turn.content if turn.role == "user" else "", turn.has_answer) for turn in session]
            for session in whole.haystack_sessions
        ]


@pytest.mark.parametrize(
    ("turn", "field"),
    [({"content": "x"}, "role"), ({"role": "user"}, "content"), ({"role": "x", "content": ""}, "role")],
)
def test_user_side_tells_where_a_turn_is_wrong(tmp_path: Path, turn: dict[str, str], field: str) -> None:
    sessions = [[], [], [turn]]
    dataset = open_records(tmp_path, make_record(haystack_sessions=sessions))
    with pytest.raises(DataError, match=rf"haystack_sessions\[2\]\[0\]\.{field}"):
        list(dataset.user_side_records({"q1"}))


def test_plain_record_keeps_what_the_file_says_of_turns(tmp_path: Path) -> None:
    record = make_record(answer=3, haystack_sessions=[[{"role": "user", "content": "a", "mood": 1}], [], []])
    dataset = open_records(tmp_path, make_record("other"), record | {"unknown": 1})
    plain = json.loads(json.dumps(dataset.plain_record("q1")))
    assert plain == record


def test_each_list_of_a_record_gives_its_benchmark_away(tmp_path: Path) -> None:
    lists = {name for name in Record.__struct_fields__ if name.startswith("haystack_")} | {"answer_session_ids"}
    assert len(lists) == 4
    assert all(LONGMEMEVAL.claims(Sniffed(tmp_path, keys=frozenset({name}))) for name in lists)
    assert not LONGMEMEVAL.claims(Sniffed(tmp_path, keys=frozenset({"question", "answer"})))


def test_questions_on_copies_of_one_history_are_one_unit(tmp_path: Path) -> None:
    """200 questions on five histories: five observations, whatever ids and labels the copies have."""
    records = []
    for number in range(200):
        record = colour_record(number % 5)
        record["question_id"] = f"q{number}"
        record["haystack_session_ids"] = [f"{name}_{number}" for name in record["haystack_session_ids"]]
        record["answer_session_ids"] = record["haystack_session_ids"][:1]
        record["haystack_sessions"] = [
            [{key: value for key, value in turn.items() if key != "has_answer" or number < 5} for turn in session]
            for session in record["haystack_sessions"]
        ]
        records.append(record)
    data = LongMemEvalDataset(write_dataset(tmp_path / "copies.json", *records))
    assert set(data.units.values()) == {"q0", "q1", "q2", "q3", "q4"}
    assert data.units["q198"] == "q3"
    # One turn more, or another date, is another history.
    records[7]["haystack_sessions"][0].append({"role": "user", "content": "And one more."})
    records[8]["haystack_dates"] = ["2020/01/01 (Wed) 10:00", *records[8]["haystack_dates"][1:]]
    data = LongMemEvalDataset(write_dataset(tmp_path / "changed.json", *records))
    assert (data.units["q7"], data.units["q8"], data.units["q9"]) == ("q7", "q8", "q4")


def test_copies_of_five_histories_reject_nothing(tmp_path: Path) -> None:
    """Right on all of 200 questions against none: as if independent p < 0.001, over five histories 2/2^5."""
    records = [colour_record(number % 5) | {"question_id": f"q{number}"} for number in range(200)]
    data = LongMemEvalDataset(write_dataset(tmp_path / "copies.json", *records))
    ids = [question.question_id for question in data.questions()]
    units = units_of(data, data.questions())
    pair = compare_pairs(dict.fromkeys(ids, 1.0), dict.fromkeys(ids, 0.0), units)
    assert (pair.units, pair.p, pair.interval) == (5, 2 / 2**5, (-1.0, 1.0))
