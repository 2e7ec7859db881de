"""A small sample of each benchmark, as its authors' files are, for what holds for every benchmark."""

import copy
import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from longmemeval.benchmarks.personamem.loader import FIELDS
from tests.benchmarks.beam import files as beam
from tests.benchmarks.beam.test_loader import BATCHES, PROBES
from tests.benchmarks.convomem.files import SPOKEN, batched_case, write_json
from tests.benchmarks.factconsolidation.test_factconsolidation import made as facts
from tests.benchmarks.faults import Change
from tests.benchmarks.locomo.test_loader import make_conversation
from tests.benchmarks.locomo_plus.test_loader import make_data, make_item
from tests.benchmarks.longmemeval.test_loader import make_record
from tests.benchmarks.longmemeval.test_loader import write as write_records
from tests.benchmarks.personamem.test_personamem import made as persona


class Sample(NamedTuple):
    """How to write one, and what is known of it."""

    write: Callable[[Path, Change], Path]
    """Writes it below a folder, its last record changed; the path to load."""
    questions: int
    place: str
    """What names the last record in an error."""
    hidden: tuple[str, ...]
    """Texts of the files that no memory and no model may see."""


def unchanged(record: object) -> None:
    """Leave a record as it is."""


def _changed(record: dict[str, Any], change: Change) -> dict[str, Any]:
    record = copy.deepcopy(record)
    change(record)
    return record


def _longmemeval(folder: Path, change: Change) -> Path:
    return write_records(folder / "data.json", make_record("first"), _changed(make_record("second"), change))


def _locomo(folder: Path, change: Change) -> Path:
    first, second = make_conversation("first"), make_conversation("second")
    return write_records(folder / "data.json", first, _changed(second, change))


def _locomo_plus(folder: Path, change: Change) -> Path:
    return make_data(folder, make_item(), _changed(make_item(), change))


def _convomem(folder: Path, change: Change) -> Path:
    return write_json(folder / SPOKEN, [batched_case(), _changed(batched_case(), change)])


def _beam(folder: Path, change: Change) -> Path:
    probes = {ability: [one | {"question": "What of it?"} for one in listed] for ability, listed in PROBES.items()}
    return beam.conversation(folder / "100K" / "1", BATCHES, _changed(probes, change))


def _factconsolidation(folder: Path, change: Change) -> Path:
    return write_records(folder / "data.json", _changed(facts(), change))


def _personamem(folder: Path, change: Change) -> Path:
    made = persona(folder / "data")
    path = made / "questions_1k.csv"
    with path.open(newline="") as file:
        (row,) = csv.DictReader(file)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        writer.writerow(_changed(row, change))
    return made


def _conversations(folder: Path, change: Change) -> Path:
    def message(role: str, text: str) -> dict[str, str]:
        return {"role": role, "text": text}

    said = [
        [message("user", "I moved to Oslo."), message("assistant", "How nice!")],
        [message("user", "My cat is called Tom."), message("assistant", "Noted.")],
    ]
    sessions = [
        {"id": f"s{number:04}", "date": f"2026-01-0{number}T10:00:00", "messages": messages}
        for number, messages in enumerate(said, start=1)
    ]
    write_json(folder / "own" / "sessions.json", {"format": 1, "sessions": sessions})
    known = {
        "id": "q01",
        "question": "Where do I live?",
        "type": "city",
        "answer": "Norway's capital",
        "evidence": ["s0001:0"],
    }
    unknown = {"id": "q02", "question": "What is my dog called?"}
    # YAML is a superset of JSON.
    return write_json(folder / "own" / "questions.yaml", [known, _changed(unknown, change)]).parent


def _lives(folder: Path, change: Change) -> Path:
    record = {"lives_seed": 7, "lives": 1, "sessions": [10]}
    path = folder / "lives.json"
    path.write_text(json.dumps(_changed(record, change)))
    return path


SAMPLES = {
    "longmemeval": Sample(_longmemeval, 2, "record 2 (counted from 1)", ("has_answer",)),
    "locomo": Sample(
        _locomo, 10, "record 2 (counted from 1)", ("HIDDEN", "Bo's", "STRAY", "Work; love", "D10", "observation")
    ),
    "locomo-plus": Sample(_locomo_plus, 2, "record 2", ("causal", "two weeks later")),
    "convomem": Sample(
        _convomem, 4, "record 2 (counted from 1)", ("ontainsEvidence", "secret-model", "Professional", "p1")
    ),
    "beam": Sample(_beam, 10, "probing_questions.json", ("So and so.", "no information", "exactly four weeks")),
    "factconsolidation": Sample(_factconsolidation, 1, "record 1", ("qa_pair_ids",)),
    "personamem": Sample(_personamem, 1, "row 1", ("correct_answer", "shared_context_id")),
    "conversations": Sample(_conversations, 2, "", ("Norway's capital",)),
    "lives": Sample(_lives, 16, "lives.json", ("lives_seed",)),
}
"""By the name of the benchmark."""
