"""What is wrong with a file of ConvoMem is told with its place."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from longmemeval.benchmarks.convomem.loader import ConvoMemDataset
from longmemeval.errors import DataError
from tests.benchmarks.convomem import files
from tests.benchmarks.convomem.files import (
    CASE,
    EGGS,
    SPOKEN,
    conversation,
    evidence_file,
    item,
    read_everything,
    write_json,
)

Change = Callable[[Any], object]


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
