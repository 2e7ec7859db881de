"""Files of ConvoMem's shape for tests: small ones written by hand, a large one written in a stream."""

import json
from pathlib import Path
from typing import Any

from longmemeval.benchmarks.convomem.loader import ConvoMemDataset
from longmemeval.dataset import Dataset

Json = dict[str, Any]

SPOKEN = "user_evidence/2_evidence/batched_000.json"
CASE = "user_evidence-2e-batched_000-0"


def conversation(identifier: str | None, *texts: str, evidence: bool = False) -> Json:
    """A conversation in which User and Assistant alternate; without `id` when `identifier` is None."""
    speakers = ("User", "Assistant")
    messages = [{"speaker": speakers[index % 2], "text": text} for index, text in enumerate(texts)]
    named = {} if identifier is None else {"id": identifier}
    return {"messages": messages, **named, "containsEvidence": evidence, "model_name": "secret-model"}


OSLO = conversation("c-oslo", "I moved to Oslo", "How nice", evidence=True)
CAT = conversation("c-cat", "Hello", "Hi", "My cat is called Tom", "Noted", evidence=True)
DOG = conversation("c-dog", "My dog is called Rex", "Noted", evidence=True)
EGGS = conversation("c-eggs", "How do I boil an egg?", "Seven minutes")


def item(question: str, answer: str, evidence: list[str], *conversations: Json, **extra: object) -> Json:
    """An evidence item with every field of the official schema."""
    return {
        "question": question,
        "answer": answer,
        "message_evidences": [{"speaker": "User", "text": text} for text in evidence],
        "conversations": list(conversations),
        "category": "Professional Life",
        "scenario_description": None,
        "personId": "p1",
        "use_case_model_name": "secret-model",
        "core_model_name": None,
        **extra,
    }


def city_item(**extra: object) -> Json:
    return item("Where do I live?", "Oslo", ["I moved to Oslo"], OSLO, **extra)


def pets_item(**extra: object) -> Json:
    texts = ["My cat is called Tom", "My dog is called Rex"]
    return item("What are my pets called?", "Tom and Rex", texts, CAT, DOG, **extra)


def evidence_file(*items: Json) -> Json:
    return {"evidence_items": list(items), "checkpoint": "80eba47"}


def case_of(*items: Json, conversations: list[Json], size: int | None = None) -> Json:
    return {"evidenceItems": list(items), "conversations": conversations, "contextSize": size}


def batched_case() -> Json:
    """Two questions over four conversations; each one's evidence is haystack for the other."""
    return case_of(city_item(), pets_item(), conversations=[CAT, EGGS, OSLO, DOG], size=4)


def write_json(path: Path, document: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def write_folder(folder: Path) -> Path:
    """Both kinds of file in three categories, at two depths, beside files that are none of theirs."""
    write_json(folder / "user_evidence/1_evidence/p1_Nurse.json", evidence_file(city_item(), city_item()))
    write_json(folder / "user_evidence/2_evidence/batch/batched_000.json", [batched_case(), batched_case()])
    write_json(folder / "preference_evidence/1_evidence/batched_000.json", [batched_case()])
    abstained = item("What is my car?", "There is no information", ["I moved to Oslo"], OSLO)
    write_json(folder / "abstention_evidence/one.json", case_of(abstained, conversations=[EGGS, OSLO]))
    write_json(folder / "dataset_info.json", {"license": "x"})
    write_json(folder / ".cache/user_evidence/1_evidence/old.json", {})
    return folder


def write_large_file(path: Path, cases: int, conversations: int, items: int = 4, messages: int = 100) -> Path:
    """A test-case file of `cases` cases, written in a stream.

    The first conversations of a case are those of its items, one each; 100 messages make a conversation of 15 KB.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as handle:
        for case in range(cases):
            texts = [
                [f"{case} {number} {index} " + "word " * 26 for index in range(messages)] for number in range(items)
            ]
            own = [conversation(f"{case}-{number}", *lines, evidence=True) for number, lines in enumerate(texts)]
            asked = [
                item(f"Question {case} {number}?", "word", [texts[number][messages // 2]], own[number])
                for number in range(items)
            ]
            filler = [
                conversation(f"{case}-filler-{number}", *texts[number % items])
                for number in range(conversations - items)
            ]
            document = case_of(*asked, conversations=own + filler, size=conversations)
            handle.write(("[" if case == 0 else ", ") + json.dumps(document))
        handle.write("]")
    return path


def open_case(tmp_path: Path, *cases: Json) -> ConvoMemDataset:
    return ConvoMemDataset(write_json(tmp_path / SPOKEN, list(cases)))


def read_everything(dataset: Dataset) -> None:
    for question in dataset.questions():
        dataset.haystack(question.haystack_id)
        dataset.gold(question.question_id)
