"""The engine behind `add`, `search` and `delete`, as any memory of a user's."""

from datetime import datetime
from pathlib import Path

from longmemeval.memory.engram.served import ServedEngram
from longmemeval.memory.external.serve import Message, Session

ASKED = datetime(2024, 4, 1)


def _session(name: str, day: int, *texts: str) -> Session:
    messages = tuple(Message(f"m_{name}_{place}", "user", "", text) for place, text in enumerate(texts))
    return Session(name, datetime(2024, 3, day), messages)


def _found(memory: ServedEngram, query: str) -> list[str]:
    return [hit["text"] for hit in memory.search(query, date=ASKED, limit=10)]


def test_what_is_deleted_is_gone_from_its_file_too(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("one", "saved", "two")]
    for folder in folders:
        folder.mkdir()
    memory = ServedEngram(folders[0])
    memory.add(_session("a", 1, "I live in Ghent.", "The code of my bicycle lock is 4711."))
    memory.add(_session("b", 2, "I adopted a beagle."))
    hits = memory.search("What is the code of my bicycle lock?", date=ASKED, limit=10)
    assert [hit["message_ids"] for hit in hits if "4711" in hit["text"]] == [["m_a_1"]]
    memory.delete("bicycle lock")
    memory.save(folders[1])
    again = ServedEngram(folders[2])
    again.load(folders[1])
    for one in (memory, again):
        assert not any("4711" in text for text in _found(one, "What is the code of my bicycle lock?"))
        assert any("Ghent" in text for text in _found(one, "Where do I live?"))
    assert not any("4711" in file.read_text() for folder in folders for file in folder.rglob("*.json"))
