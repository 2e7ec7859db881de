import calendar
import copy
import json
from collections import Counter
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from longmemeval.benchmarks.catalogue import catalogue_entry
from longmemeval.benchmarks.locomo.format import CATEGORIES, dia_id_of, parse_date
from longmemeval.benchmarks.locomo.loader import LocomoDataset, LocomoQuirks
from longmemeval.benchmarks.registry import load_dataset
from longmemeval.benchmarks.stats import TypeCount, dataset_stats
from longmemeval.cli.verbs.datasets import app
from longmemeval.dataset import Dataset
from longmemeval.errors import DataError
from longmemeval.records import Gold, Question, Session, Turn
from longmemeval.storage.messages import haystack_messages
from tests.benchmarks.longmemeval.test_loader import make_record, write
from tests.conftest import real_file
from tests.support import examples


def session(number: int, *texts: str) -> list[dict[str, Any]]:
    """Turns said by Ann and Bo in turn."""
    return [
        {"speaker": ("Ann", "Bo")[index % 2], "dia_id": f"D{number}:{index + 1}", "text": text}
        for index, text in enumerate(texts)
    ]


def make_conversation(sample_id: str = "conv-1", **changes: object) -> dict[str, Any]:
    """Sessions 1, 2 and 10, a date too many, the evidence traps of the real file, and a question of each category."""
    second = session(2, "Look at this", "Lovely!")
    second[0] |= {
        "img_url": ["https://example.org/HIDDEN.jpg"],
        "blip_caption": "a photo of a lake",
        "query": "HIDDEN lake",
        "re-download": True,
    }
    conversation = {
        "session_10": session(10, "I moved to Oslo", "Oh", "In May"),
        "session_10_date_time": "12:05 am on 1 January, 2024",
        "speaker_b": "Bo",
        "speaker_a": "Ann",
        "session_2_date_time": "12:30 pm on 9 May, 2023",
        "session_2": second,
        "session_1": session(1, "Hi"),
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_11_date_time": "1:56 pm on 8 May, 2025",
    }
    qa: list[dict[str, Any]] = [
        {"question": "Where?", "answer": "Oslo", "evidence": ["D10:1; D2:02", "D10:1"], "category": 1},
        {"question": "When?", "answer": 2023, "evidence": ["D:10:3"], "category": 2},
        {"question": "Why?", "answer": "Work; love", "evidence": [], "category": 3},
        {"question": "Which?", "answer": "The lake", "evidence": ["D2:1", "D", "D10:4"], "category": 4},
        {"question": "Whose?", "adversarial_answer": "Bo's", "answer": "STRAY", "evidence": ["D2:2"], "category": 5},
    ]
    hidden = {"session_1_observation": {"Ann": [["HIDDEN", "D1:1"]]}}
    record = {"qa": qa, "conversation": conversation, "observation": hidden, "sample_id": sample_id}
    return record | changes


def open_conversations(tmp_path: Path, *records: object) -> LocomoDataset:
    return LocomoDataset(write(tmp_path / "data.json", *records))


def golds(dataset: Dataset) -> dict[str, Gold]:
    return {question.question_id: dataset.gold(question.question_id) for question in dataset.questions()}


@pytest.fixture(scope="session")
def real_locomo() -> LocomoDataset:
    return LocomoDataset(real_file("locomo10.json"))


def test_a_conversation_becomes_one_haystack_and_many_questions(tmp_path: Path) -> None:
    dataset = open_conversations(tmp_path, make_conversation(), make_conversation("conv-2"))
    assert (dataset.name, len(dataset)) == ("data", 10)
    assert [haystack.haystack_id for haystack in dataset.haystacks()] == ["conv-1", "conv-2"]
    questions = list(dataset.questions())
    assert questions[1] == Question(
        "conv-1/q1", "When?", datetime(2024, 1, 1, 0, 5), "12:05 am on 1 January, 2024", "conv-1"
    )
    assert [question.question_id for question in questions[4:6]] == ["conv-1/q4", "conv-2/q0"]
    assert questions[5].haystack_id == "conv-2"


def test_sessions_come_from_the_lists_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    haystack = open_conversations(tmp_path, make_conversation()).haystack("conv-1")
    assert [one.session_id for one in haystack.sessions] == ["session_1", "session_2", "session_10"]
    assert haystack.sessions[1] == Session(
        "session_2",
        datetime(2023, 5, 9, 12, 30),
        "12:30 pm on 9 May, 2023",
        (Turn("user", "Look at this", "Ann", "a photo of a lake"), Turn("assistant", "Lovely!", "Bo")),
    )


def test_sessions_numbered_against_their_dates_come_by_date(tmp_path: Path) -> None:
    record = make_conversation()
    record["conversation"]["session_1_date_time"] = "2:00 pm on 9 May, 2023"
    dataset = open_conversations(tmp_path, record)
    ids = [one.session_id for one in dataset.haystack("conv-1").sessions]
    assert ids == ["session_2", "session_1", "session_10"]
    quirks = dataset_stats(dataset).quirks
    assert isinstance(quirks, LocomoQuirks)
    assert quirks.haystacks_out_of_order == 1


def test_gold(tmp_path: Path) -> None:
    gold = golds(open_conversations(tmp_path, make_conversation()))
    assert gold["conv-1/q0"] == Gold(
        question_id="conv-1/q0",
        question_type="multi-hop",
        answer="Oslo",
        evidence_sessions=("session_10", "session_2"),
        evidence_turns=("session_10:0", "session_2:1"),
        abstention=False,
        trap=None,
        evidence_raw=("D10:1; D2:02", "D10:1"),
    )
    assert gold["conv-1/q1"].answer == 2023
    assert isinstance(gold["conv-1/q1"].answer, int)
    assert gold["conv-1/q1"].evidence_turns == ("session_10:2",)
    assert gold["conv-1/q2"].evidence_raw == gold["conv-1/q2"].evidence_turns == ()
    assert gold["conv-1/q3"].evidence_turns == ("session_2:0",)
    assert gold["conv-1/q3"].evidence_raw == ("D2:1", "D", "D10:4")
    assert [one.question_type for one in gold.values()] == list(CATEGORIES.values())


def test_an_adversarial_question_has_a_trap_and_its_stray_answer_means_nothing(tmp_path: Path) -> None:
    gold = open_conversations(tmp_path, make_conversation()).gold("conv-1/q4")
    assert (gold.answer, gold.trap, gold.abstention) == ("Not mentioned in the conversation", "Bo's", True)
    assert "STRAY" not in repr(gold)


def test_captions_can_be_left_out(tmp_path: Path) -> None:
    path = write(tmp_path / "data.json", make_conversation())
    stored = haystack_messages(next(load_dataset(path).haystacks()))
    assert stored[1].content == "Look at this and shared a photo of a lake"
    without = load_dataset(path, captions=False)
    assert haystack_messages(next(without.haystacks()))[1].content == "Look at this"
    # Fixtures of both kinds must not meet in one folder.
    assert without.name == "data-without-captions"
    assert without.sha256 == load_dataset(path).sha256
    assert without.content_sha256 != load_dataset(path).content_sha256


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("1:56 pm on 8 May, 2023", datetime(2023, 5, 8, 13, 56)),
        ("12:00 am on 29 February, 2024", datetime(2024, 2, 29, 0, 0)),
        ("12:59 pm on 31 December, 2022", datetime(2022, 12, 31, 12, 59)),
        ("11:59 am on 1 March, 2022", datetime(2022, 3, 1, 11, 59)),
    ],
)
def test_dates(text: str, date: datetime) -> None:
    assert parse_date(text) == date


@pytest.mark.parametrize(
    "text",
    [
        *("", "1:56 PM on 8 May, 2023", "1:56 pm on 8 May 2023", "13:56 pm on 8 May, 2023", "0:56 am on 8 May, 2023"),
        *("1:60 pm on 8 May, 2023", "1:56 pm on 30 February, 2023", "1:56 pm on 8 Mai, 2023", "1:56 on 8 May, 2023"),
        *(
            " 1:56 pm on 8 May, 2023",
            "1:56 pm on 8 May, 2023\n",
            "1:56 pm on 8 May, 0000",
            "\uff11:56 pm on 8 May, 2023",
        ),
    ],
)
def test_texts_that_are_no_dates(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a date|out of range|must be in"):
        parse_date(text)


@given(st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)))
def test_every_date_comes_back(moment: datetime) -> None:
    date = moment.replace(second=0, microsecond=0)
    clock = f"{(date.hour - 1) % 12 + 1}:{date.minute:02} {'pm' if date.hour >= 12 else 'am'}"
    assert parse_date(f"{clock} on {date.day} {calendar.month_name[date.month]}, {date.year}") == date


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_a_message_id_gives_the_dialogue_id(number: int, turn: int) -> None:
    assert dia_id_of(f"session_{number}:{turn - 1}") == f"D{number}:{turn}"


@pytest.mark.parametrize("identifier", ["session_1", "session_0:1", "session_1:01", "D1:1", "session_1:-1", ""])
def test_what_is_no_message_id(identifier: str) -> None:
    with pytest.raises(ValueError, match="not the id of a LoCoMo message"):
        dia_id_of(identifier)


@pytest.mark.parametrize(
    ("text", "turns"),
    [
        ("D1:1", ["session_1:0"]),
        ("D10:1 D2:2 D10:3", ["session_10:0", "session_2:1", "session_10:2"]),
        ("D:10:2", ["session_10:1"]),
        ("D10:03", ["session_10:2"]),
        ("(D1:1)", ["session_1:0"]),
        ("D2:1, D2:1", ["session_2:0", "session_2:0"]),
        ("D2:0", []),
        ("D2:3", []),
        ("D3:1", []),
        ("D11:1", []),
        ("D", []),
        ("", []),
        ("D" + "9" * 5000 + ":1", []),
    ],
)
def test_evidence_is_repaired(tmp_path: Path, text: str, turns: list[str]) -> None:
    (conversation,) = open_conversations(tmp_path, make_conversation()).conversations()
    assert conversation.references(text) == turns


def test_a_fault_names_the_conversation(tmp_path: Path) -> None:
    record = make_conversation("conv-7")
    record["conversation"]["session_10"][2]["text"] = 3
    with pytest.raises(DataError, match=r"record 1 .*conversation 'conv-7', field conversation.session_10\[2\].text\)"):
        open_conversations(tmp_path, record)


def test_sample_ids_must_be_unique(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"same sample id is in record 1.*record 3"):
        open_conversations(tmp_path, *map(make_conversation, ("a", "b", "a")))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b'{"qa": [], "conversation": {}}', "not a JSON array"),
        (b'["text"]', "got str"),
        (json.dumps([make_conversation(qa=[])]).encode(), "no question"),
        (json.dumps([make_conversation()]).encode().replace(b"Oslo", b"Osl\xff"), "not valid Unicode"),
    ],
)
def test_files_that_are_no_array_of_conversations(tmp_path: Path, content: bytes, expected: str) -> None:
    path = tmp_path / "data.json"
    path.write_bytes(content)
    with pytest.raises(DataError, match=expected) as caught:
        LocomoDataset(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("name", ["missing.json", ".", "nul\0.json"])
def test_files_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        LocomoDataset(tmp_path / name)


def places(value: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The paths of all values inside `value`."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [step for key, one in inner for step in [(*path, key), *places(one, (*path, key))]]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text("aD1:/ "),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab"), inner, max_size=2),
    max_leaves=4,
)


@pytest.mark.slow
@settings(max_examples=examples(150))
@given(st.sampled_from(places(make_conversation())), JSON)
def test_any_value_anywhere_is_read_or_told(
    tmp_path_factory: pytest.TempPathFactory, path: tuple[str | int, ...], value: object
) -> None:
    record = make_conversation()
    inner: Any = record
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    path_of_file = write(tmp_path_factory.mktemp("data") / "data.json", record)
    # Anything but a `DataError` fails the test.
    with suppress(DataError):
        dataset = LocomoDataset(path_of_file)
        messages = {one.message_id for haystack in dataset.haystacks() for one in haystack_messages(haystack)}
        assert all(set(gold.evidence_turns) <= messages for gold in golds(dataset).values())


def tainted(sample_id: str = "conv-26") -> dict[str, Any]:
    turns = session(7, *("Hi" for _ in range(8)))
    turns[7]["blip_caption"] = "a book cover with a gold coin called 'Nothing is Impossible'"
    record = make_conversation(sample_id)
    record["conversation"] |= {"session_7": turns, "session_7_date_time": "1:56 pm on 8 July, 2023"}
    return record


def test_a_copy_with_an_answer_in_a_caption_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "data.json", make_conversation(), tainted())
    for captions in (True, False):
        with pytest.raises(DataError, match=r"tainted.*session_7\[7\].blip_caption.*allow_tainted") as caught:
            load_dataset(path, captions=captions)
        assert "datasets download locomo10" in str(caught.value)
    assert len(load_dataset(path, allow_tainted=True)) == 10


def test_only_that_caption_taints(tmp_path: Path) -> None:
    elsewhere = tainted("conv-26")
    elsewhere["conversation"]["session_7"][6], elsewhere["conversation"]["session_7"][7] = session(7, *"abcdefgh")[6:]
    elsewhere["conversation"]["session_7"][6]["text"] = "Nothing is Impossible"
    assert len(open_conversations(tmp_path, elsewhere)) == 5
    assert len(open_conversations(tmp_path, tainted("conv-27"))) == 5


def test_content_hash_ignores_form_and_what_is_not_used(tmp_path: Path) -> None:
    record = make_conversation()
    before = open_conversations(tmp_path, record)
    turned = {key: record[key] for key in reversed(record)} | {"event_summary": {}}
    turned["conversation"] = copy.deepcopy(turned["conversation"])
    turned["conversation"]["session_2"][0]["img_url"] = ["https://example.org/api/v0"]
    path = tmp_path / "other.json"
    path.write_text(json.dumps([turned], indent=2, ensure_ascii=False))
    after = LocomoDataset(path)
    assert after.sha256 != before.sha256
    assert after.content_sha256 == before.content_sha256
    assert after.copy == before.copy == "unknown copy"


def test_the_shape_of_a_file_is_recognised(tmp_path: Path) -> None:
    big = {"note": "x" * 3_000_000} | make_conversation()
    locomo = load_dataset(write(tmp_path / "locomo.json", big))
    assert [one.haystack_id for one in locomo.haystacks()] == ["conv-1"]
    longmemeval = load_dataset(write(tmp_path / "longmemeval.json", {"qa of": 1} | make_record()))
    assert [one.haystack_id for one in longmemeval.haystacks()] == ["q1"]


def test_half_a_shape_is_told_as_that_shape(tmp_path: Path) -> None:
    record = make_conversation()
    del record["qa"]
    with pytest.raises(DataError, match="'qa' is missing"):
        load_dataset(write(tmp_path / "data.json", record))
    with pytest.raises(DataError, match="'question_id' is missing"):
        load_dataset(write(tmp_path / "data.json", {"haystack_sessions": []}))
    # A key that many kinds of data have is nobody's.
    with pytest.raises(DataError, match=r"any known benchmark.*\['answer'\]"):
        load_dataset(write(tmp_path / "data.json", {"answer": "x"}))


def test_a_file_of_no_known_shape_is_told_with_its_keys(tmp_path: Path) -> None:
    path = write(tmp_path / "data.json", {"messages": [], "id": 1})
    with pytest.raises(DataError, match=r"any known benchmark.*\['id', 'messages'\].*LongMemEval.*LoCoMo") as caught:
        load_dataset(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("content", ['[{"a": ' + "9" * 5000 + "}]", "", "[1, 2]", '{"qa": []}', "\0"])
def test_files_without_a_first_record_are_told(tmp_path: Path, content: str) -> None:
    path = tmp_path / "data.json"
    path.write_text(content)
    with pytest.raises(DataError, match=r"data\.json"):
        load_dataset(path)


def test_quirks(tmp_path: Path) -> None:
    record = make_conversation(extra=1)
    again = [copy.deepcopy(record["qa"][0]), record["qa"][0] | {"answer": "Rome"}, record["qa"][0] | {"note": ""}]
    record["qa"] += again
    record["conversation"]["session_3"] = [{"speaker": "Bo", "dia_id": "D3:1", "text": "Hi", "mood": "x"}]
    record["conversation"]["session_3_date_time"] = "1:00 am on 10 May, 2023"
    assert dataset_stats(open_conversations(tmp_path, record)).quirks == LocomoQuirks(
        evidence_strings=2 * 4 + 1 + 3 + 1,
        evidence_references=3 * 4 + 1 + 1 + 1,
        malformed_evidence_strings=1 * 4 + 1 + 2,
        lost_evidence_strings=2,
        repeated_references=1 * 4,
        questions_without_evidence=1,
        repeated_questions=2,
        contradicted_questions=1,
        adversarial_questions_with_answer=1,
        dates_without_session=1,
        haystacks_out_of_order=0,
        sessions_begun_by_speaker_b=1,
        odd_length_sessions=3,
        unknown_keys={"record.extra": 1, "qa.note": 1, "turn.mood": 1},
    )


@pytest.mark.slow
def test_real_file_by_name(real_locomo: LocomoDataset) -> None:
    source = catalogue_entry("locomo10").source
    assert source is not None
    assert (source.bytes, source.sha256) == (real_locomo.path.stat().st_size, real_locomo.sha256)
    dataset: Dataset = load_dataset("locomo10", real_locomo.path.parent)
    assert isinstance(dataset, LocomoDataset)
    assert (dataset.name, dataset.copy, len(dataset)) == ("locomo10", "official", 1986)


@pytest.mark.slow
def test_real_file_agrees_with_its_plain_json(real_locomo: LocomoDataset) -> None:
    plain = json.loads(real_locomo.path.read_text(encoding="utf-8"))
    for record, haystack in zip(plain, real_locomo.haystacks(), strict=True):
        parts = record["conversation"]
        assert haystack.haystack_id == record["sample_id"]
        for number, one in enumerate(haystack.sessions, start=1):
            assert (one.session_id, one.date_text) == (f"session_{number}", parts[f"session_{number}_date_time"])
            turns = [(turn.speaker, turn.content, turn.caption) for turn in one.turns]
            expected = [(turn["speaker"], turn["text"], turn.get("blip_caption")) for turn in parts[one.session_id]]
            assert turns == expected
            assert all((turn.role == "user") == (turn.speaker == parts["speaker_a"]) for turn in one.turns)
        assert f"session_{len(haystack.sessions) + 1}" not in parts
    texts = [qa["question"] for record in plain for qa in record["qa"]]
    assert [question.text for question in real_locomo.questions()] == texts


def test_real_questions_are_asked_after_the_conversation(real_locomo: LocomoDataset) -> None:
    last = {one.haystack_id: one.sessions[-1].date for one in real_locomo.haystacks()}
    assert last["conv-26"] == datetime(2023, 10, 22, 9, 55)
    assert all(question.date == last[question.haystack_id] for question in real_locomo.questions())


def test_real_gold(real_locomo: LocomoDataset) -> None:
    gold = golds(real_locomo)
    messages = {
        haystack.haystack_id: {one.message_id for one in haystack_messages(haystack)}
        for haystack in real_locomo.haystacks()
    }
    for question_id, one in gold.items():
        assert set(one.evidence_turns) <= messages[question_id.partition("/")[0]]
        assert bool(one.evidence_turns) == bool(one.evidence_raw)
        assert one.abstention == (one.question_type == "adversarial") == (one.trap is not None)
    assert sum(len(one.evidence_raw) for one in gold.values()) == 2815
    assert sum(len(one.evidence_turns) for one in gold.values()) == 2820
    integers = [question_id for question_id, one in gold.items() if isinstance(one.answer, int)]
    assert integers == [f"conv-26/q{index}" for index in (1, 26, 40, 49, 72, 75)]
    assert gold["conv-26/q37"].evidence_turns == ("session_8:5", "session_9:16")
    assert "session_11:25" in gold["conv-43/q18"].evidence_turns
    assert "session_30:4" in gold["conv-50/q69"].evidence_turns
    assert gold["conv-50/q5"].evidence_raw.count("D4:5") == 2
    assert (gold["conv-26/q167"].answer, gold["conv-26/q167"].trap) == ("Not mentioned in the conversation", "Yes")
    # Multi-hop questions need several sessions, single-hop ones one: so the category numbers are read rightly.
    # By the raw strings it is 270, but one of conv-47's names a turn that is not there.
    spans = Counter((one.question_type, len(one.evidence_sessions) > 1) for one in gold.values())
    assert spans["multi-hop", True] == 269
    assert spans["single-hop", True] == 1


@pytest.mark.slow
def test_real_stats(real_locomo: LocomoDataset) -> None:
    stats = dataset_stats(real_locomo)
    assert stats.by_type == {
        "multi-hop": TypeCount(282, 0),
        "temporal": TypeCount(321, 0),
        "open-domain": TypeCount(96, 0),
        "single-hop": TypeCount(841, 0),
        "adversarial": TypeCount(446, 446),
    }
    assert (stats.questions, stats.haystacks, stats.sessions, stats.turns) == (1986, 10, 272, 5882)
    assert (stats.captions, stats.integer_answers) == (1226, 6)
    assert (stats.fewest_sessions, stats.most_sessions) == (19, 32)
    assert (stats.fewest_turns, round(stats.mean_turns, 1), stats.most_turns) == (10, 21.6, 47)
    assert str(stats.first_session).startswith("2022-01-21")
    assert str(stats.last_session).startswith("2024-01-12")
    assert stats.copy == "official"
    assert stats.quirks == LocomoQuirks(
        evidence_strings=2815,
        evidence_references=2821,
        malformed_evidence_strings=9,
        lost_evidence_strings=3,
        repeated_references=1,
        questions_without_evidence=4,
        repeated_questions=11,
        contradicted_questions=1,
        adversarial_questions_with_answer=2,
        dates_without_session=16,
        sessions_begun_by_speaker_b=124,
        odd_length_sessions=140,
    )


@pytest.mark.slow
def test_real_stats_are_printed(real_locomo: LocomoDataset) -> None:
    folder = str(real_locomo.path.parent)
    shown = CliRunner().invoke(app, ["stats", "locomo10", "--data-dir", folder])
    assert shown.exit_code == 0, shown.exception
    words = " ".join(shown.stdout.split())
    for part in ("copy official", "all 1,986 446", "sessions 272", "turns 5,882", "evidence references 2,821"):
        assert part in words
    document = json.loads(CliRunner().invoke(app, ["stats", "locomo10", "--data-dir", folder, "--json"]).stdout)
    assert document == msgspec.to_builtins(dataset_stats(load_dataset("locomo10", real_locomo.path.parent)))


@pytest.mark.slow
def test_real_file_with_one_edited_caption(real_locomo: LocomoDataset, tmp_path: Path) -> None:
    plain = json.loads(real_locomo.path.read_text(encoding="utf-8"))
    plain[0]["conversation"]["session_7"][7]["blip_caption"] += " called 'Nothing is Impossible'"
    path = write(tmp_path / "locomo10.json", *plain)
    with pytest.raises(DataError, match="tainted"):
        load_dataset(path)
    forced = LocomoDataset(path, allow_tainted=True)
    assert forced.copy == "unknown copy"
    assert forced.content_sha256 != real_locomo.content_sha256


@pytest.mark.slow
def test_real_file_rewritten_says_the_same(real_locomo: LocomoDataset, tmp_path: Path) -> None:
    path = write(tmp_path / "locomo10.json", *json.loads(real_locomo.path.read_text(encoding="utf-8")))
    assert LocomoDataset(path).content_sha256 == real_locomo.content_sha256
