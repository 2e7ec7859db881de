import copy
import hashlib
import json
import tracemalloc
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from longmemeval.datasets.base import Dataset
from longmemeval.datasets.convomem import ConvoMemDataset
from longmemeval.datasets.convomem_layout import CATEGORIES
from longmemeval.datasets.convomem_quirks import ConvoMemQuirks
from longmemeval.datasets.faults import problem_of_id
from longmemeval.datasets.stats import GroupCount, dataset_stats
from longmemeval.errors import DataError
from longmemeval.files import sha256_bytes
from longmemeval.records import Gold, Question, Session, Turn
from tests.datasets import convomem_files as files
from tests.datasets.convomem_files import CAT, DOG, EGGS, OSLO, Json, conversation, evidence_file, item, write_json

Change = Callable[[Any], object]

SPOKEN = "user_evidence/2_evidence/batched_000.json"
CASE = "user_evidence-2e-batched_000-0"


def open_case(tmp_path: Path, *cases: Json) -> ConvoMemDataset:
    return ConvoMemDataset(write_json(tmp_path / SPOKEN, list(cases)))


def gold_of(tmp_path: Path, asked: Json, *conversations: Json) -> Gold:
    """The gold of one item over a haystack."""
    return open_case(tmp_path, files.case_of(asked, conversations=list(conversations))).gold(f"{CASE}/q0")


def read_everything(dataset: Dataset) -> None:
    for question in dataset.questions():
        dataset.haystack(question.haystack_id)
        dataset.gold(question.question_id)


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


def test_labels_and_ids_of_the_data_stay_outside(tmp_path: Path) -> None:
    dataset = open_case(tmp_path, files.batched_case())
    for text in (repr(dataset.haystack(CASE)), repr(list(dataset.questions()))):
        assert not [label for label in ("ontainsEvidence", "secret-model", "Professional", "p1") if label in text]


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


def test_a_folder(tmp_path: Path) -> None:
    dataset = ConvoMemDataset(files.write_folder(tmp_path / "v1.0"))
    assert (dataset.name, len(dataset)) == ("v1.0", 9)
    assert [haystack.haystack_id for haystack in dataset.haystacks()] == [
        "abstention_evidence-one-0",
        "preference_evidence-1e-batched_000-0",
        "user_evidence-1e-p1_Nurse-0",
        "user_evidence-1e-p1_Nurse-1",
        "user_evidence-2e-batch-batched_000-0",
        "user_evidence-2e-batch-batched_000-1",
    ]
    ids = [question.question_id for question in dataset.questions()]
    assert len(set(ids)) == 9
    assert not any(problem_of_id(question.haystack_id) for question in dataset.questions())
    assert dataset.passed_over == (tmp_path / "v1.0" / "dataset_info.json",)
    assert not any(".cache" in str(file) for file in dataset.files)


@pytest.mark.parametrize("inside", ["user_evidence", "user_evidence/2_evidence", "user_evidence/2_evidence/batch"])
def test_a_folder_inside_gives_the_same_ids(tmp_path: Path, inside: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = {question.question_id for question in ConvoMemDataset(files.write_folder(tmp_path)).questions()}
    monkeypatch.chdir(tmp_path / inside)
    part = ConvoMemDataset(Path())
    assert part.name == Path(inside).name
    assert {question.question_id for question in part.questions()} <= whole
    read_everything(part)


def test_the_innermost_category_counts(tmp_path: Path) -> None:
    folder = files.write_folder(tmp_path / "preference_evidence" / "7_evidence" / "copy")
    gold = ConvoMemDataset(folder / "abstention_evidence/one.json").gold("abstention_evidence-one-0/q0")
    assert (gold.abstention, gold.facets["evidence"]) == (True, 1)


def test_more_files_than_stay_open(tmp_path: Path) -> None:
    for number in range(20):
        write_json(tmp_path / f"user_evidence/1_evidence/p{number:02}.json", evidence_file(files.city_item()))
    dataset = ConvoMemDataset(tmp_path)
    assert len(dataset) == 20
    ids = [question.question_id for question in dataset.questions()]
    for question_id in reversed(ids):
        assert dataset.gold(question_id).evidence_turns == ("c-oslo:0",)


def test_linked_files_keep_the_names_of_their_folders(tmp_path: Path) -> None:
    blob = write_json(tmp_path / "blobs" / "0a1b2c", [files.batched_case()])
    link = tmp_path / SPOKEN
    link.parent.mkdir(parents=True)
    link.symlink_to(blob)
    assert next(ConvoMemDataset(link).questions()).haystack_id == CASE
    assert len(ConvoMemDataset(tmp_path)) == 2


def test_hashes_of_a_folder(tmp_path: Path) -> None:
    folder = files.write_folder(tmp_path / "a")
    names = [
        "abstention_evidence/one.json",
        "preference_evidence/1_evidence/batched_000.json",
        "user_evidence/1_evidence/p1_Nurse.json",
        "user_evidence/2_evidence/batch/batched_000.json",
    ]
    lines = [f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in names]
    before = ConvoMemDataset(folder)
    assert before.sha256 == sha256_bytes("".join(lines).encode())
    again = ConvoMemDataset(files.write_folder(tmp_path / "b"))
    assert (again.sha256, again.content_sha256) == (before.sha256, before.content_sha256)
    (tmp_path / "b" / names[0]).rename(tmp_path / "b" / "abstention_evidence/two.json")
    renamed = ConvoMemDataset(tmp_path / "b")
    assert renamed.sha256 != before.sha256
    assert renamed.content_sha256 != before.content_sha256


def test_hashes_of_a_file(tmp_path: Path) -> None:
    case = files.batched_case()
    before = open_case(tmp_path, case)
    sha256, content = before.sha256, before.content_sha256
    assert sha256 == sha256_bytes(before.path.read_bytes())
    before.path.write_text(json.dumps([{key: case[key] for key in reversed(case)}], indent=2))
    after = ConvoMemDataset(before.path)
    assert after.sha256 != sha256
    assert after.content_sha256 == content


@pytest.mark.parametrize(
    "change",
    [
        lambda case: case["evidenceItems"][0].update(answer="Rome"),
        lambda case: case["evidenceItems"][1].update(question="What?"),
        lambda case: case["evidenceItems"][1]["message_evidences"].pop(),
        lambda case: case["evidenceItems"][1]["conversations"].pop(),
        lambda case: case["conversations"][1]["messages"].pop(),
        lambda case: case["conversations"][1]["messages"][0].update(speaker="Assistant"),
        lambda case: case["conversations"].reverse(),
        lambda case: case.update(contextSize=5),
    ],
)
def test_the_content_hash_sees_every_change(tmp_path: Path, change: Change) -> None:
    before = open_case(tmp_path, files.batched_case()).content_sha256
    case = copy.deepcopy(files.batched_case())
    change(case)
    assert open_case(tmp_path, case).content_sha256 != before


def test_unknown_ids_are_told_with_the_nearest(tmp_path: Path) -> None:
    dataset = open_case(tmp_path, files.batched_case())
    with pytest.raises(DataError, match=rf"no haystack 'user'.*{CASE}"):
        dataset.haystack("user")
    with pytest.raises(DataError, match=rf"no question '{CASE}/q2'.*Did you mean '{CASE}/q\d'"):
        dataset.gold(f"{CASE}/q2")
    with pytest.raises(DataError, match=rf"no question '{CASE}/q00'"):
        dataset.gold(f"{CASE}/q00")
    with pytest.raises(DataError, match=rf"no question 'x'.*{CASE}/q0"):
        dataset.gold("x")


FAULTS: list[tuple[str, Change, str, str]] = [
    ("no items", lambda case: case.pop("evidenceItems"), "evidenceItems", "'evidenceItems' is missing"),
    ("no conversations", lambda case: case.pop("conversations"), "conversations", "'conversations' is missing"),
    ("null haystack", lambda case: case.update(conversations=None), "conversations", "'conversations' is missing"),
    ("no haystack", lambda case: case.update(conversations=[]), "conversations", "has no conversation"),
    ("size", lambda case: case.update(contextSize="4"), "contextSize", "got str"),
    (
        "no question",
        lambda case: case["evidenceItems"][1].pop("question"),
        "evidenceItems[1].question",
        "'question' is missing",
    ),
    (
        "blank answer",
        lambda case: case["evidenceItems"][0].update(answer=" "),
        "evidenceItems[0].answer",
        "empty or blank",
    ),
    ("answer", lambda case: case["evidenceItems"][0].update(answer=5), "evidenceItems[0].answer", "got int"),
    (
        "no evidence messages",
        lambda case: case["evidenceItems"][0].pop("message_evidences"),
        "evidenceItems[0].message_evidences",
        "is missing",
    ),
    (
        "evidence without text",
        lambda case: case["evidenceItems"][1]["message_evidences"][0].pop("text"),
        "evidenceItems[1].message_evidences[0].text",
        "'text' is missing",
    ),
    (
        "item without conversations",
        lambda case: case["evidenceItems"][1].update(conversations=[]),
        "evidenceItems[1].conversations",
        "has no conversation",
    ),
    (
        "conversation of the item is elsewhere",
        lambda case: case["evidenceItems"][1]["conversations"].append(conversation("c-new", "Never said")),
        "evidenceItems[1].conversations[2]",
        "The conversation 'c-new' of the item is not among those of its test case",
    ),
    (
        "nameless conversation of the item is elsewhere",
        lambda case: case["evidenceItems"][0]["conversations"].append(conversation(None, "Never said")),
        "evidenceItems[0].conversations[1]",
        "The conversation of the item is not among",
    ),
    ("no messages", lambda case: case["conversations"][2].pop("messages"), "conversations[2].messages", "is missing"),
    (
        "nothing said",
        lambda case: case["conversations"][2].update(messages=[]),
        "conversations[2].messages",
        "has no message",
    ),
    ("id", lambda case: case["conversations"][3].update(id=7), "conversations[3].id", "got int"),
    (
        "speaker",
        lambda case: case["conversations"][1]["messages"][1].update(speaker="John"),
        "conversations[1].messages[1].speaker",
        "'John' is not a speaker",
    ),
    (
        "text",
        lambda case: case["conversations"][1]["messages"][0].update(text=None),
        "conversations[1].messages[0].text",
        "got null",
    ),
]


@pytest.mark.parametrize(
    ("change", "field", "what"), [fault[1:] for fault in FAULTS], ids=[fault[0] for fault in FAULTS]
)
def test_faults_name_file_record_and_field(tmp_path: Path, change: Change, field: str, what: str) -> None:
    broken = copy.deepcopy(files.batched_case())
    change(broken)
    path = write_json(tmp_path / SPOKEN, [files.batched_case(), broken])
    with pytest.raises(DataError) as caught:
        read_everything(ConvoMemDataset(path))
    message = str(caught.value)
    assert f"({path}, record 2 (counted from 1), field {field})" in message
    assert what in message


def test_a_record_that_is_no_object(tmp_path: Path) -> None:
    path = write_json(tmp_path / SPOKEN, [files.batched_case(), "text"])
    with pytest.raises(DataError, match=r"Expected object, got str.*record 2"):
        ConvoMemDataset(path)


def test_faults_of_an_evidence_file_name_the_item(tmp_path: Path) -> None:
    path = tmp_path / "user_evidence/1_evidence/p1.json"
    broken = item("Where?", "Oslo", [], {"messages": []})
    dataset = ConvoMemDataset(write_json(path, evidence_file(files.city_item(), broken)))
    assert len(dataset.haystack("user_evidence-1e-p1-0").sessions) == 1
    with pytest.raises(DataError, match=r"no message .*p1\.json, .*evidence_items\[1\]\.conversations\[0\]\.messages"):
        dataset.haystack("user_evidence-1e-p1-1")


def test_a_case_that_states_its_size_is_no_evidence_file(tmp_path: Path) -> None:
    path = write_json(tmp_path / SPOKEN, {"evidenceItems": [files.city_item()], "contextSize": 4})
    with pytest.raises(DataError, match="'conversations' is missing"):
        ConvoMemDataset(path)


@pytest.mark.parametrize("document", [evidence_file(), [files.case_of(conversations=[EGGS])]])
def test_a_data_set_without_questions(tmp_path: Path, document: object) -> None:
    with pytest.raises(DataError, match="has no question"):
        ConvoMemDataset(write_json(tmp_path / SPOKEN, document))


@pytest.mark.parametrize(
    ("content", "expected"),
    [(b"", "file is empty"), (b"[]", "empty array"), (b"<html>", "not JSON"), (b"[{}] x", "not JSON"), (b"3", "array")],
)
def test_files_of_another_shape(tmp_path: Path, content: bytes, expected: str) -> None:
    path = write_json(tmp_path / SPOKEN, [])
    path.write_bytes(content)
    with pytest.raises(DataError, match=expected) as caught:
        ConvoMemDataset(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("document", [[files.batched_case()], evidence_file(files.pets_item())])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_a_truncated_file_is_told_with_its_size(tmp_path: Path, document: object, share: float) -> None:
    path = write_json(tmp_path / SPOKEN, document)
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
    for place in (path, tmp_path):
        with pytest.raises(DataError, match=rf"looks truncated.*{path.stat().st_size:,} bytes.*batched_000"):
            ConvoMemDataset(place)


def test_text_that_is_not_unicode(tmp_path: Path) -> None:
    path = write_json(tmp_path / SPOKEN, [files.batched_case()])
    path.write_bytes(path.read_bytes().replace(b"Seven minutes", b"Seven \xff"))
    with pytest.raises(DataError, match=r"not valid Unicode.*conversations\[1\]"):
        ConvoMemDataset(path).haystack(CASE)


def test_two_files_that_give_the_same_ids(tmp_path: Path) -> None:
    first = write_json(tmp_path / "one" / SPOKEN, [files.batched_case()])
    second = write_json(tmp_path / "two" / SPOKEN, [files.batched_case()])
    with pytest.raises(DataError, match=rf"same haystack id, '{CASE}', comes from {first}.*{second}"):
        ConvoMemDataset(tmp_path)


def test_a_file_name_that_makes_no_id(tmp_path: Path) -> None:
    path = write_json(tmp_path / "user_evidence/1_evidence/a\nb.json", [files.batched_case()])
    with pytest.raises(DataError, match="cannot be printed"):
        ConvoMemDataset(path)


@pytest.mark.parametrize("place", ["one.json", "1_evidence/one.json"])
def test_a_file_in_no_category(tmp_path: Path, place: str) -> None:
    path = write_json(tmp_path / "user_evidnce" / place, [files.batched_case()])
    with pytest.raises(
        DataError, match=r"names the category.*<category>/<n>_evidence/.*mean 'user_evidence'"
    ) as caught:
        ConvoMemDataset(path)
    assert str(path) in str(caught.value)


def test_a_misspelt_category_beside_good_ones_is_not_passed_over(tmp_path: Path) -> None:
    files.write_folder(tmp_path)
    write_json(tmp_path / "changing_evidense/2_evidence/p1.json", evidence_file(files.pets_item()))
    with pytest.raises(DataError, match=r"names the category.*Did you mean 'changing_evidence'"):
        ConvoMemDataset(tmp_path)


def test_a_folder_without_files_of_convomem(tmp_path: Path) -> None:
    write_json(tmp_path / "filler_conversations" / "one.json", [EGGS])
    with pytest.raises(DataError, match=r"no file of ConvoMem.*<category>/<n>_evidence/\*\.json.*preference_evidence"):
        ConvoMemDataset(tmp_path)


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
