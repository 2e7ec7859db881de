"""The ceiling sees the evidence sessions, nothing else, and only with gold in its hands."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from longmemeval.benchmarks.longmemeval.loader import LongMemEvalDataset
from longmemeval.core.event_loop import complete
from longmemeval.errors import HarnessError
from longmemeval.memory.configuration import MEMORIES, build_memory, resolve_configuration
from longmemeval.memory.protocol import MemoryTools
from longmemeval.pipeline.prepare.prepare import prepare
from longmemeval.records import Recall
from longmemeval.settings import Folders
from longmemeval.storage.fixture import Fixture, fixture_folder
from tests.models import ByLength
from tests.support import record, write_dataset


def no_vectors(text: str) -> NDArray[np.float32]:
    raise AssertionError("the oracle embeds nothing")


def oracle(folder: Path, one: dict[str, Any]) -> Recall:
    data = LongMemEvalDataset(write_dataset(folder / "small.json", one))
    folders = Folders(data_dir=folder, prepared_dir=folder / "prepared", results_dir=folder / "results")
    prepare(data, ["oracle"], folders=folders)
    fixture = Fixture.open(fixture_folder(folders.prepared_dir, data.name, "default", one["question_id"]))
    (question,) = data.questions()
    memory = build_memory(resolve_configuration("oracle"), MemoryTools(no_vectors, data.gold))
    return complete(memory.recall(question, fixture))


def message_ids(recalled: Recall) -> list[str]:
    return [message_id for item in recalled.items for message_id in item.message_ids]


def test_evidence_sessions_are_shown_whole(tmp_path: Path) -> None:
    assert message_ids(oracle(tmp_path, record())) == ["answer_1:0", "answer_1:1"]


def test_several_evidence_sessions_come_in_time_order(tmp_path: Path) -> None:
    recalled = oracle(tmp_path, record(answer_session_ids=["filler_2", "answer_1"]))
    assert message_ids(recalled) == ["answer_1:0", "answer_1:1", "filler_2:0", "filler_2:1"]


def test_a_filler_session_that_comes_twice_is_left_out_twice(tmp_path: Path) -> None:
    recalled = oracle(tmp_path, record(haystack_session_ids=["filler_1", "answer_1", "filler_1"]))
    assert message_ids(recalled) == ["answer_1:0", "answer_1:1"]


def test_unanswerable_question_gets_the_sessions_that_mislead(tmp_path: Path) -> None:
    assert message_ids(oracle(tmp_path, record("q1_abs", answer="No car was mentioned."))) == [
        "answer_1:0",
        "answer_1:1",
    ]


def test_without_gold_there_is_no_oracle() -> None:
    with pytest.raises(HarnessError, match="gold"):
        build_memory(resolve_configuration("oracle"), MemoryTools(no_vectors))


def test_only_the_oracle_reads_gold() -> None:
    assert [name for name in MEMORIES.built_in if MEMORIES.get(name).reads_gold] == ["oracle"]
    for name in MEMORIES.built_in:
        if name != "oracle":
            build_memory(resolve_configuration(name), MemoryTools(no_vectors, reranker=lambda spec: ByLength()))
