"""The loader of BEAM on the two real conversations, and on made ones that have the faults of the rest."""

import re
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from longmemeval.benchmarks.beam.loader import BeamDataset, beam_quirks
from longmemeval.benchmarks.registry import load_dataset
from longmemeval.benchmarks.stats import dataset_stats
from longmemeval.errors import DataError
from longmemeval.records import Haystack
from tests.benchmarks.beam.files import Json, batch, conversation, probe, write
from tests.conftest import real_file


@pytest.fixture(scope="module")
def real() -> BeamDataset:
    return BeamDataset(real_file("beam/chats/100K"))


def lengths(haystack: Haystack) -> list[int]:
    return [len(session.turns) for session in haystack.sessions]


def test_the_real_conversations(real: BeamDataset) -> None:
    five, fifteen = real.haystacks()
    assert (five.haystack_id, lengths(five)) == ("100K-5", [68, 70, 94])
    assert [f"{session.date:%Y-%m-%d}" for session in five.sessions] == ["2024-01-10", "2024-02-15", "2024-04-05"]
    assert five.sessions[0].date_text == "January-10-2024"
    assert (fifteen.haystack_id, lengths(fifteen)) == ("100K-15", [62, 54, 48, 54, 54])
    golds = [real.gold(question.question_id) for question in real.questions()]
    assert [sum(gold.facets["nuggets"] for gold in golds[half : half + 20]) for half in (0, 20)] == [44, 48]
    assert {question.date_text for question in real.questions()} == {"April-05-2024", "August-05-2024"}
    assert real.gold("100K-5/knowledge_update/1").evidence_turns == tuple(f"batch_2:{n}" for n in (16, 18, 20, 62))
    ordering = real.gold("100K-15/event_ordering/0")
    assert ordering.evidence_turns == ("batch_1:34", "batch_2:8", "batch_3:2", "batch_4:36")
    assert ordering.evidence_sessions == ("batch_1", "batch_2", "batch_3", "batch_4")
    assert ordering.rubric[0] in ordering.rubric
    assert len(ordering.rubric) == ordering.facets["nuggets"]


def test_the_whole_text_is_another_data_set(real: BeamDataset) -> None:
    full = BeamDataset(real.path, text="full")
    assert (real.name, full.name) == ("beam-100K", "beam-100K-full")
    assert lengths(full.haystack("100K-5")) == [68, 70, 100]
    assert full.content_sha256 != real.content_sha256
    assert BeamDataset(real.path, "beam-100k-full").content_sha256 == full.content_sha256
    quirks = beam_quirks(real)
    assert (quirks.conversations_with_a_cut_text, quirks.messages_cut_away) == (1, 6)
    assert quirks.messages_edited_in_the_cut_text == 0
    assert quirks.evidence_ids_repeated == 2
    assert quirks.messages_above_32000_characters == 1
    assert (quirks.markers_of_another_form, quirks.multi_session_questions_within_one_session) == (0, 0)
    assert (quirks.questions_of_order_with_other_ids_than_nuggets, quirks.nuggets_that_speak_of_the_response) == (2, 68)
    assert (quirks.questions_of_time_whose_answer_lacks_the_number, quirks.questions_with_blanks_around) == (0, 0)
    golds = [real.gold(question.question_id) for question in real.questions()]
    references = [len(re.findall(r"\d+", "".join(gold.evidence_raw))) for gold in golds]
    assert [sum(references[half : half + 20]) for half in (0, 20)] == [62, 45]


def test_markers_can_be_left_out(real: BeamDataset) -> None:
    bare = BeamDataset(real.path, markers=False)
    assert bare.name == "beam-100K-unmarked"
    marked = [turn for session in real.haystack("100K-5").sessions for turn in session.turns if turn.role == "user"]
    stripped = [turn for session in bare.haystack("100K-5").sessions for turn in session.turns if turn.role == "user"]
    assert marked[0].content.endswith(" ->-> 1,1")
    assert stripped[0].content.endswith("going to be")
    assert not any("->->" in turn.content for turn in stripped)
    assert bare.sha256 != real.sha256


BATCHES = [
    batch(0, "July-15-2024", "a ->-> 1,1", "b", "c ->-> 2,N/A", "d"),
    batch(4, "July-02-2024", "a ->-> 1,1", "f"),
    batch(6, None, "g", "h"),
    batch(8, "August-01-2024", "i", "j"),
]
PROBES: dict[str, list[Json]] = {
    "abstention": [probe("abstention", ["there is no information"])],
    "contradiction_resolution": [
        probe("contradiction_resolution", ["x"], source_chat_ids={"first_statement": [0, 0], "second_statement": []})
    ],
    "event_ordering": [probe("event_ordering", ["x", "y"], source_chat_ids=[[0, 4], "--", 9], total_mentions=3)],
    "summarization": [
        probe("summarization", ["x"], conversation_sessions=[6, 8]),
        probe("summarization", ["y"], conversation_sessions=2),
    ],
    "multi_session_reasoning": [
        probe("multi_session_reasoning", ["LLM response should mention: x"], source_chat_ids=[0, 2]),
        probe("multi_session_reasoning", ["x"], source_chat_ids=[0, 4]) | {"question": " Why?"},
    ],
    "temporal_reasoning": [
        probe("temporal_reasoning", ["x"], source_chat_ids=[]),
        probe("temporal_reasoning", ["8 weeks, not 4"], source_chat_ids=[0]) | {"answer": "exactly four weeks"},
        probe("temporal_reasoning", ["4 weeks"], source_chat_ids=[0]) | {"answer": "exactly four weeks"},
    ],
}


def test_every_fault_of_the_data_is_repaired_by_name_and_counted(tmp_path: Path) -> None:
    conversation(tmp_path / "500K" / "3", BATCHES, PROBES, cut=BATCHES[:3])
    data = BeamDataset(tmp_path / "500K", text="full")
    (haystack,) = data.haystacks()
    dated = {session.session_id: (f"{session.date:%m-%d}", session.date_text) for session in haystack.sessions}
    assert dated == {
        "batch_1": ("07-02", "July-02-2024"),
        "batch_2": ("07-02", "July-02-2024"),
        "batch_3": ("08-01", "August-01-2024"),
        "batch_4": ("08-01", "August-01-2024"),
    }
    evidence = {question.question_id[7:]: data.gold(question.question_id) for question in data.questions()}
    assert evidence["abstention/0"].abstention
    assert evidence["abstention/0"].evidence_raw == ()
    assert evidence["event_ordering/0"].evidence_turns == ("batch_1:0", "batch_2:0", "batch_4:1")
    assert evidence["event_ordering/0"].evidence_raw == ('[[0,4],"--",9]',)
    assert evidence["summarization/0"].evidence_turns == ("batch_3:0", "batch_4:0")
    assert evidence["summarization/1"].evidence_turns == evidence["temporal_reasoning/0"].evidence_turns == ()
    assert evidence["temporal_reasoning/0"].facets == {"thousand tokens": 500, "nuggets": 1}
    quirks = beam_quirks(data)
    assert quirks.messages_cut_away == 2
    assert (quirks.sessions_without_a_date, quirks.sessions_dated_before_the_one_before) == (1, 1)
    assert quirks.session_dates_repaired == 2
    assert (quirks.user_messages_that_end_in_a_marker, quirks.messages_said_before) == (3, 1)
    assert (quirks.questions_with_evidence_elsewhere, quirks.questions_without_evidence) == (1, 2)
    assert (quirks.questions_with_half_the_evidence, quirks.evidence_labels_that_are_no_id) == (1, 1)
    assert (quirks.evidence_ids_repeated, quirks.questions_of_order_with_another_number) == (1, 1)
    assert (quirks.markers_of_another_form, quirks.multi_session_questions_within_one_session) == (1, 1)
    assert (quirks.questions_of_order_with_other_ids_than_nuggets, quirks.nuggets_that_speak_of_the_response) == (1, 1)
    assert (quirks.questions_of_time_whose_answer_lacks_the_number, quirks.questions_with_blanks_around) == (1, 1)
    cut = BeamDataset(tmp_path / "500K")
    assert cut.gold("500K-3/event_ordering/0").evidence_turns == ("batch_1:0", "batch_2:0")
    # 8 is beyond too, of the summary; so is 9.
    assert beam_quirks(cut).evidence_ids_beyond_the_text == 2


def test_a_cut_text_is_not_taken_for_the_whole(tmp_path: Path) -> None:
    home = conversation(tmp_path / "1M" / "1", BATCHES, PROBES, cut=BATCHES[:2])
    (home / "chat.json").unlink()
    assert len(next(BeamDataset(tmp_path / "1M").haystacks()).sessions) == 2
    with pytest.raises(DataError, match="downloaded only as cut text"):
        BeamDataset(tmp_path / "1M", "beam-1m-full")


def test_an_id_that_comes_twice_means_the_first_message(tmp_path: Path) -> None:
    batches = [batch(0, "May-01-2024", "a", "b"), batch(0, "May-02-2024", "c", "d")]
    conversation(
        tmp_path / "1M" / "5", batches, {"summarization": [probe("summarization", ["x"], source_chat_ids=[1])]}
    )
    data = BeamDataset(tmp_path / "1M")
    assert data.gold("1M-5/summarization/0").evidence_turns == ("batch_1:1",)
    assert beam_quirks(data).message_ids_that_come_twice == 2


def test_plans_and_the_combined_file_are_the_same_haystack(tmp_path: Path) -> None:
    first = [batch(0, "May-01-2024", "a", "b"), batch(2, "May-20-2024", "c", "d")]
    second = [batch(0, "May-10-2024", "e", "f")]
    probes = {"summarization": [probe("summarization", ["x"], source_chat_ids=[3, 5])]}
    plans = conversation(tmp_path / "plans" / "10M" / "4", first, probes, plans=2)
    conversation(plans, second, probes, plans=0)
    (plans / "plan-1" / "chat.json").write_bytes((plans / "chat.json").read_bytes())
    combined = [{"plan-1": first, "plan-2": None}, {"plan-1": None, "plan-2": [batch(4, "May-10-2024", "e", "f")]}]
    other = conversation(tmp_path / "combined" / "10M" / "4", combined, probes)
    one, two = BeamDataset(plans.parent, "beam-10m-full"), BeamDataset(other.parent, "beam-10m-full")
    assert [session.session_id for session in one.haystack("10M-4").sessions] == [
        "plan_1_batch_1",
        "plan_2_batch_1",
        "plan_1_batch_2",
    ]
    assert one.gold("10M-4/summarization/0").evidence_turns == ("plan_1_batch_2:1", "plan_2_batch_1:1")
    assert one.content_sha256 == two.content_sha256
    (plans / "plan-0" / "chat.json").unlink()
    with pytest.raises(DataError, match="Plans are missing"):
        BeamDataset(plans.parent)


def of_10m(folder: Path, conversations: int) -> BeamDataset:
    """Conversations of ten plans, 2 MB each."""
    probes = {"summarization": [probe("summarization", ["x"], source_chat_ids=[3, 205])]}
    for number in range(conversations):
        home = conversation(folder / "10M" / str(number), [], probes)
        (home / "chat.json").unlink()
        for plan in range(10):
            words = [f"{number} {plan} {place} " + "so we spoke " * 170 for place in range(10)]
            batches = [batch(10 * index, f"May-{index + 1:02d}-2024", *words) for index in range(10)]
            write(home / f"plan-{plan}" / "chat.json", batches)
    return BeamDataset(folder / "10M")


def peak_of(work: Callable[[], object]) -> int:
    """The most bytes that Python held meanwhile, beyond what it held before."""
    tracemalloc.start()
    work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@pytest.mark.slow
def test_memory_is_that_of_one_conversation(tmp_path: Path) -> None:
    """Texts are read plan by plan, and those of a conversation are gone before the next is read."""
    one, three = of_10m(tmp_path / "one", 1), of_10m(tmp_path / "three", 3)
    size = sum(path.stat().st_size for path in one.files)
    # Dates and message ids of ten plans, without a text.
    assert peak_of(lambda: list(one.conversations())) < size / 8
    haystack = peak_of(lambda: one.haystack("10M-0"))
    assert size * 0.9 < haystack < size * 1.3
    assert peak_of(lambda: three.haystack("10M-2")) < haystack * 1.2
    assert peak_of(lambda: dataset_stats(three)) < peak_of(lambda: dataset_stats(one)) * 1.5 < haystack * 2


def test_faulty_conversations(tmp_path: Path) -> None:
    conversation(tmp_path / "100K" / "1", [batch(0, None, "a", "b")], PROBES)
    with pytest.raises(DataError, match="No batch has a date"):
        BeamDataset(tmp_path / "100K").haystack("100K-1")
    conversation(tmp_path / "500K" / "1", [{"turns": []}], PROBES)
    with pytest.raises(DataError, match="has no message"):
        BeamDataset(tmp_path / "500K").haystack("500K-1")
    with pytest.raises(DataError, match="Unknown haystack '100K-2'"):
        BeamDataset(tmp_path / "100K").haystack("100K-2")


def test_the_door_knows_its_folders_and_names(tmp_path: Path) -> None:
    data = load_dataset(real_file("beam/chats/100K/5"))
    assert (data.benchmark, data.name, len(data)) == ("beam", "beam-5", 20)
    assert next(data.questions()).question_id == "100K-5/abstention/0"
    with pytest.raises(DataError, match=r"(?s)not downloaded.*datasets download beam-1m"):
        load_dataset("beam-1m", tmp_path)
    conversation(tmp_path / "beam" / "chats" / "1M" / "2", BATCHES, PROBES, cut=BATCHES[:2])
    assert len(load_dataset("beam-1m", tmp_path).haystack("1M-2").sessions) == 2
    assert len(load_dataset("beam-1m-full", tmp_path).haystack("1M-2").sessions) == 4
