"""The official reader's prompt from the benchmark's own file, and from one that is in disorder."""

import json
from pathlib import Path
from typing import Any

from longmemeval.benchmarks.longmemeval.loader import LongMemEvalDataset
from longmemeval.memory.items import message_item
from longmemeval.reading.options import HistoryFormat
from longmemeval.reading.prompts import message_chunks, render_history
from longmemeval.records import Recall
from longmemeval.storage.memory_store import MemoryStore
from tests.support import record, write_dataset


def rendered(path: Path, layout: HistoryFormat) -> str:
    """The whole history of a file's only question, as this project shows it."""
    (haystack,) = LongMemEvalDataset(path).haystacks()
    recall = Recall(tuple(message_item(message) for message in MemoryStore.from_haystack(haystack).messages))
    return render_history(recall, message_chunks(recall), layout)


def official(entry: dict[str, Any], layout: HistoryFormat) -> str:
    """The same by the rules of `prepare_prompt`: sessions sorted by date text, turns without their label."""
    sessions = sorted(zip(entry["haystack_dates"], entry["haystack_sessions"], strict=True), key=lambda pair: pair[0])
    history = ""
    for number, (date, turns) in enumerate(sessions, start=1):
        if layout == "official-json":
            content = "\n" + json.dumps([{"role": turn["role"], "content": turn["content"]} for turn in turns])
        else:
            content = "".join("\n\n{}: {}".format(turn["role"], turn["content"].strip()) for turn in turns)
        history += f"\n### Session {number}:\nSession Date: {date}\nSession Content:\n{content}\n"
    return history


def test_real_history_is_the_official_readers(real_longmemeval: Path) -> None:
    (entry,) = json.loads(real_longmemeval.read_text(encoding="utf-8"))
    for layout in ("official-json", "official-nl"):
        assert rendered(real_longmemeval, layout) == official(entry, layout)


def test_sessions_are_sorted_by_date_and_ties_keep_the_files_order(tmp_path: Path) -> None:
    sessions = [[{"role": "user", "content": text}] for text in ("late", "tie one", "tie two", "first")]
    one = record(
        haystack_sessions=sessions,
        haystack_session_ids=["z", "y", "answer_1", "z"],
        haystack_dates=[
            "2023/05/22 (Mon) 09:15", "2023/05/20 (Sat) 02:21", "2023/05/20 (Sat) 02:21", "2022/12/31 (Sat) 23:59",
        ],
    )  # fmt: skip
    path = write_dataset(tmp_path / "small.json", one)
    assert rendered(path, "official-nl") == (
        "\n### Session 1:\nSession Date: 2022/12/31 (Sat) 23:59\nSession Content:\n\n\nuser: first\n"
        "\n### Session 2:\nSession Date: 2023/05/20 (Sat) 02:21\nSession Content:\n\n\nuser: tie one\n"
        "\n### Session 3:\nSession Date: 2023/05/20 (Sat) 02:21\nSession Content:\n\n\nuser: tie two\n"
        "\n### Session 4:\nSession Date: 2023/05/22 (Mon) 09:15\nSession Content:\n\n\nuser: late\n"
    )
    assert rendered(path, "official-json") == official(one, "official-json")
