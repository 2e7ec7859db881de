import tracemalloc
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

from longmemeval.benchmarks.convomem.format import CATEGORIES
from longmemeval.benchmarks.convomem.loader import ConvoMemDataset, ConvoMemQuirks
from longmemeval.benchmarks.stats import GroupCount, dataset_stats
from longmemeval.errors import DataError
from longmemeval.records import Gold, Question, Session, Turn
from tests.benchmarks.convomem import files
from tests.benchmarks.convomem.files import (
    CASE,
    CAT,
    DOG,
    EGGS,
    OSLO,
    SPOKEN,
    Json,
    conversation,
    evidence_file,
    item,
    open_case,
    write_json,
)


def gold_of(tmp_path: Path, asked: Json, *conversations: Json) -> Gold:
    """The gold of one item over a haystack."""
    return open_case(tmp_path, files.case_of(asked, conversations=list(conversations))).gold(f"{CASE}/q0")


def test_a_test_case_becomes_one_haystack_and_many_questions(tmp_path: Path) -> None:
    dataset = open_case(tmp_path, files.batched_case())
    assert (dataset.name, dataset.benchmark, len(dataset)) == ("batched_000", "convomem", 2)
    asked = datetime(2000, 1, 5), "2000/01/05 (Wed) 00:00"
    assert list(dataset.questions()) == [
        Question(f"{CASE}/q0", "Where do I live?", *asked, CASE),
        Question(f"{CASE}/q1", "What are my pets called?", *asked, CASE),
    ]
    (haystack,) = dataset.haystacks()
    assert haystack == dataset.haystack(CASE)
    assert haystack.haystack_id == CASE
    assert [session.session_id for session in haystack.sessions] == ["c-cat", "c-eggs", "c-oslo", "c-dog"]
    assert haystack.sessions[1] == Session(
        "c-eggs",
        datetime(2000, 1, 2),
        "2000/01/02 (Sun) 00:00",
        (Turn("user", "How do I boil an egg?"), Turn("assistant", "Seven minutes")),
    )


def test_the_evidence_of_other_questions_is_haystack(tmp_path: Path) -> None:
    dataset = open_case(tmp_path, files.batched_case())
    facets = {"evidence": 2, "context size": 4}
    assert dataset.gold(f"{CASE}/q0") == Gold(
        question_id=f"{CASE}/q0",
        question_type="user-facts",
        answer="Oslo",
        evidence_sessions=("c-oslo",),
        evidence_turns=("c-oslo:0",),
        abstention=False,
        evidence_texts=("I moved to Oslo",),
        facets=facets,
    )
    assert dataset.gold(f"{CASE}/q1") == Gold(
        question_id=f"{CASE}/q1",
        question_type="user-facts",
        answer="Tom and Rex",
        evidence_sessions=("c-cat", "c-dog"),
        evidence_turns=("c-cat:2", "c-dog:0"),
        abstention=False,
        evidence_texts=("My cat is called Tom", "My dog is called Rex"),
        facets=facets,
    )


def test_an_item_of_an_evidence_file_is_a_haystack_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "changing_evidence/2_evidence/p1_Nurse.json"
    dataset = ConvoMemDataset(write_json(path, evidence_file(files.city_item(), files.pets_item())))
    first, second = dataset.questions()
    assert (first.question_id, second.haystack_id) == (
        "changing_evidence-2e-p1_Nurse-0/q0",
        "changing_evidence-2e-p1_Nurse-1",
    )
    assert (first.date_text, second.date_text) == ("2000/01/02 (Sun) 00:00", "2000/01/03 (Mon) 00:00")
    assert [len(haystack.sessions) for haystack in dataset.haystacks()] == [1, 2]
    gold = dataset.gold(second.question_id)
    assert (gold.question_type, gold.evidence_sessions) == ("changing-facts", ("c-cat", "c-dog"))
    assert gold.evidence_turns == ("c-cat:2", "c-dog:0")
    assert gold.facets == {"evidence": 2, "context size": 2}


@pytest.mark.parametrize("as_array", [True, False])
def test_both_spellings_and_one_case_without_an_array(tmp_path: Path, as_array: bool) -> None:
    camel = files.batched_case()
    snake = {
        "context_size": camel["contextSize"],
        "conversations": camel["conversations"],
        "evidence_items": camel["evidenceItems"],
    }
    expected = open_case(tmp_path, camel).content_sha256
    path = write_json(tmp_path / SPOKEN, [snake] if as_array else snake)
    assert ConvoMemDataset(path).content_sha256 == expected


def test_an_evidence_file_in_the_spelling_of_test_cases(tmp_path: Path) -> None:
    path = write_json(tmp_path / SPOKEN, {"evidenceItems": [files.pets_item()]})
    assert [len(haystack.sessions) for haystack in ConvoMemDataset(path).haystacks()] == [2]


@pytest.mark.parametrize(("size", "expected"), [(6, 6), (None, 2)])
def test_the_context_size_is_the_stated_one_else_that_of_the_haystack(
    tmp_path: Path, size: int | None, expected: int
) -> None:
    case = files.case_of(files.city_item(), conversations=[EGGS, OSLO], size=size)
    assert open_case(tmp_path, case).gold(f"{CASE}/q0").facets["context size"] == expected


@pytest.mark.parametrize(("folder", "question_type"), CATEGORIES.items())
def test_the_category_is_the_folder(tmp_path: Path, folder: str, question_type: str) -> None:
    path = tmp_path / folder / "3_evidence" / "deep" / "deeper" / "one.json"
    dataset = ConvoMemDataset(write_json(path, [files.batched_case()]))
    gold = dataset.gold(f"{folder}-3e-deep-deeper-one-0/q1")
    assert gold.question_type == question_type
    assert gold.facets["evidence"] == 3
    assert gold.abstention == (folder == "abstention_evidence")


def test_without_a_folder_the_evidence_count_is_that_of_the_messages(tmp_path: Path) -> None:
    dataset = ConvoMemDataset(write_json(tmp_path / "user_evidence/one.json", [files.batched_case()]))
    counts = [dataset.gold(question.question_id).facets["evidence"] for question in dataset.questions()]
    assert counts == [1, 2]
    assert [haystack.haystack_id for haystack in dataset.haystacks()] == ["user_evidence-one-0"]


def test_speakers_become_roles_whatever_their_case(tmp_path: Path) -> None:
    spoken = {"messages": [{"speaker": name, "text": "x"} for name in ("User", "ASSISTANT", "user", "assistant")]}
    dataset = open_case(tmp_path, files.case_of(files.city_item(), conversations=[OSLO, spoken]))
    roles = [turn.role for turn in dataset.haystack(CASE).sessions[1].turns]
    assert roles == ["user", "assistant", "user", "assistant"]


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (["a", "b", "c"], ["a", "b", "c"]),
        (["a", None, ""], ["a", "conversation_1", "conversation_2"]),
        (["a", "b", "a"], ["conversation_0", "b", "conversation_2"]),
        (["conversation_2", "b", None], ["conversation_0", "b", "conversation_2"]),
        (["conversation_0", "b", "conversation_9"], ["conversation_0", "b", "conversation_9"]),
    ],
)
def test_session_ids_are_unique(tmp_path: Path, ids: list[str | None], expected: list[str]) -> None:
    conversations = [conversation(name, f"Number {number}") for number, name in enumerate(ids)]
    asked = item("Which?", "0", ["Number 0"], conversations[0])
    dataset = open_case(tmp_path, files.case_of(asked, conversations=conversations))
    assert [session.session_id for session in dataset.haystack(CASE).sessions] == expected
    assert dataset.gold(f"{CASE}/q0").evidence_sessions == (expected[0],)


def test_conversations_without_id_are_found_by_what_is_said(tmp_path: Path) -> None:
    nameless = [{"messages": one["messages"], "id": None} for one in (CAT, EGGS, OSLO)]
    asked = item("Where do I live?", "Oslo", ["I moved to Oslo"], nameless[2])
    gold = gold_of(tmp_path, asked, *nameless)
    assert (gold.evidence_sessions, gold.evidence_turns) == (("conversation_2",), ("conversation_2:0",))


def test_a_conversation_that_is_there_twice_is_evidence_twice(tmp_path: Path) -> None:
    # Small categories of the release repeat items, and so conversations, within a case.
    gold = gold_of(tmp_path, files.city_item(), OSLO, EGGS, OSLO)
    assert gold.evidence_sessions == ("conversation_0", "conversation_2")
    assert gold.evidence_turns == ("conversation_0:0", "conversation_2:0")


def test_an_id_two_conversations_share_is_told_apart_by_what_is_said(tmp_path: Path) -> None:
    other = conversation("c-oslo", "Nothing of interest", "Indeed")
    assert gold_of(tmp_path, files.city_item(), other, OSLO).evidence_sessions == ("conversation_1",)


@pytest.mark.parametrize(
    ("text", "turns"),
    [
        ("My name is Ann", ("c:0",)),
        ("I\u2019m  from\nthe \u201cNorth\u201d", ("c:2",)),
        ("It costs 5\u00a0€ \u2014 or more", ("c:4",)),
        ("\uff46\uff55\uff4c\uff4c width", ("c:6",)),
        ("my name is ann", ()),
        ("My name", ()),
    ],
)
def test_evidence_texts_are_matched_but_for_form(tmp_path: Path, text: str, turns: tuple[str, ...]) -> None:
    said = ["My name is Ann", "a", 'I\'m from the "North"', "b", "It costs 5 € - or more ", "c", "full width"]
    gold = gold_of(tmp_path, item("?!", "x", [text], conversation("c", *said)), conversation("c", *said))
    assert gold.evidence_turns == turns
    assert gold.evidence_sessions == ("c",)
    assert gold.evidence_texts == (text,)


def test_an_exact_match_leaves_near_ones_alone(tmp_path: Path) -> None:
    said = conversation("c", "My  name is Ann", "Hi", "My name is Ann")
    assert gold_of(tmp_path, item("?!", "x", ["My name is Ann"], said), said).evidence_turns == ("c:2",)


def test_evidence_texts_said_in_another_conversation_do_not_count(tmp_path: Path) -> None:
    echo = conversation("c-echo", "I moved to Oslo")
    assert gold_of(tmp_path, files.city_item(), echo, OSLO).evidence_turns == ("c-oslo:0",)


def test_unknown_ids_are_told_with_the_nearest(tmp_path: Path) -> None:
    dataset = open_case(tmp_path, files.batched_case())
    with pytest.raises(DataError, match=rf"Unknown haystack 'user'.*{CASE}"):
        dataset.haystack("user")
    with pytest.raises(DataError, match=rf"Unknown question '{CASE}/q2'.*Did you mean '{CASE}/q\d'"):
        dataset.gold(f"{CASE}/q2")
    with pytest.raises(DataError, match=rf"Unknown question '{CASE}/q00'"):
        dataset.gold(f"{CASE}/q00")
    with pytest.raises(DataError, match=rf"Unknown question 'x'.*{CASE}/q0"):
        dataset.gold("x")


@pytest.mark.thorough
@pytest.mark.slow
def test_a_large_file_costs_one_haystack_of_memory(tmp_path: Path) -> None:
    path = files.write_large_file(tmp_path / "user_evidence/1_evidence/batched_049.json", cases=40, conversations=30)
    size = path.stat().st_size
    assert 15_000_000 < size < 30_000_000

    def peak(read: Callable[[ConvoMemDataset], object]) -> int:
        tracemalloc.start()
        try:
            dataset = ConvoMemDataset(path)
            kept = read(dataset)
            return tracemalloc.get_traced_memory()[1] if kept else 0
        finally:
            tracemalloc.stop()

    one = peak(lambda dataset: (len(dataset) == 160, dataset.haystack("user_evidence-1e-batched_049-20")))
    everything = peak(lambda dataset: list(dataset.haystacks()))
    assert everything > size
    assert one < size / 10


def test_stats(tmp_path: Path) -> None:
    files.write_folder(tmp_path)
    spread = item("Pets?", "Two", ["Hello Hi", "My  dog is called Rex"], CAT, {"messages": DOG["messages"]})
    case = files.case_of(spread, spread, conversations=[CAT, {"messages": DOG["messages"]}], size=3)
    write_json(tmp_path / "implicit_connection_evidence/2_evidence/b.json", [case])
    stats = dataset_stats(ConvoMemDataset(tmp_path))
    assert stats.groups == [
        GroupCount("abstention", {"evidence": 1, "context size": 2}, 1),
        GroupCount("implicit-connections", {"evidence": 2, "context size": 3}, 2),
        GroupCount("preferences", {"evidence": 1, "context size": 4}, 2),
        GroupCount("user-facts", {"evidence": 1, "context size": 1}, 2),
        GroupCount("user-facts", {"evidence": 2, "context size": 4}, 4),
    ]
    assert {name: count.total for name, count in stats.by_type.items()} == {
        "abstention": 1,
        "implicit-connections": 2,
        "preferences": 2,
        "user-facts": 6,
    }
    assert (stats.questions, stats.haystacks, stats.sessions, stats.turns) == (11, 7, 18, 44)
    assert stats.stand_in_dates
    assert stats.quirks == ConvoMemQuirks(
        files=5,
        json_files_in_no_category=1,
        haystacks_of_evidence_alone=2,
        haystacks_of_another_size=1,
        conversations_without_id_of_their_own=1,
        evidence_texts=16,
        evidence_texts_found_after_normalising=2,
        unmatched_evidence_texts=2,
        questions_without_evidence_turn=0,
        repeated_questions=1,
    )
