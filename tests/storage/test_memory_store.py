import json
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longmemeval.errors import FixtureError, HarnessError
from longmemeval.records import Haystack, Message, Session, Turn
from longmemeval.storage.memory_store import MemoryStore, Thread

MAY = datetime(2023, 5, 20, 2, 21)
JUNE = datetime(2023, 6, 1, 9, 0, 30)
HAYSTACK = Haystack(
    "h1",
    (
        Session("s1", MAY, "May", (Turn("user", "I moved to Zürich", "Ann"), Turn("assistant", "Congratulations!"))),
        Session("empty", MAY, "May", ()),
        Session("s2", JUNE, "June", (Turn("user", "I moved again"),)),
    ),
)


def test_db_json_has_exactly_the_documented_keys() -> None:
    store = MemoryStore.from_haystack(HAYSTACK)

    assert json.loads(store.persist()) == {
        "format": 1,
        "resource": {"id": "resource_h1", "working_memory": None},
        "threads": [
            {"id": name, "resource_id": "resource_h1", "created_at": date, "updated_at": date}
            for name, date in (
                ("s1", "2023-05-20T02:21:00"),
                ("empty", "2023-05-20T02:21:00"),
                ("s2", "2023-06-01T09:00:30"),
            )
        ],
        "messages": [
            {
                "id": message_id,
                "thread_id": message_id.split(":")[0],
                "role": role,
                "speaker": speaker,
                "content": content,
                "created_at": date,
                "index": index,
            }
            for message_id, role, speaker, content, date, index in (
                ("s1:0", "user", "Ann", "I moved to Zürich", "2023-05-20T02:21:00", 0),
                ("s1:1", "assistant", "", "Congratulations!", "2023-05-20T02:21:00", 1),
                ("s2:0", "user", "", "I moved again", "2023-06-01T09:00:30", 0),
            )
        ],
    }


def test_db_json_can_be_read_by_a_person() -> None:
    text = MemoryStore.from_haystack(HAYSTACK).persist().decode()

    assert '\n      "content": "I moved to Zürich",\n' in text
    assert '"working_memory": null' in text


def test_messages_by_resource_thread_id_and_position() -> None:
    store = MemoryStore.from_haystack(HAYSTACK)

    assert [message.message_id for message in store.messages] == ["s1:0", "s1:1", "s2:0"]
    assert [message.message_id for message in store.messages_of("s1")] == ["s1:0", "s1:1"]
    assert store.messages_of("empty") == []
    assert store.messages_of("question_thread_q") == []
    assert store.message("s2:0").content == "I moved again"
    assert store.positions == {"s1:0": 0, "s1:1": 1, "s2:0": 2}
    with pytest.raises(HarnessError, match=r"No message 's9:0'"):
        store.message("s9:0")


def test_a_store_refuses_what_contradicts_it() -> None:
    store = MemoryStore("r")
    store.add_thread(Thread("t", "r", MAY, MAY))
    message = Message("t:0", "t", "user", "", "hello", MAY, 0)
    store.add_messages([message])

    with pytest.raises(HarnessError, match="stored twice"):
        store.add_thread(Thread("t", "r", MAY, MAY))
    with pytest.raises(HarnessError, match="belongs to 'other'"):
        store.add_thread(Thread("u", "other", MAY, MAY))
    with pytest.raises(HarnessError, match="stored twice"):
        store.add_messages([message])
    with pytest.raises(HarnessError, match="thread 'u', which is not stored"):
        store.add_messages([Message("u:0", "u", "user", "", "hello", MAY, 0)])
    assert store.messages == [message]


turns = st.builds(
    Turn, st.sampled_from(["user", "assistant"]), st.text(), st.text(max_size=5), st.none() | st.text(max_size=5)
)
sessions = st.builds(Session, st.text(max_size=3), st.datetimes(), st.just(""), st.lists(turns, max_size=3).map(tuple))


@pytest.mark.slow
@given(st.builds(Haystack, st.text(), st.lists(sessions, max_size=4).map(tuple)))
def test_persist_then_hydrate_loses_nothing(haystack: Haystack) -> None:
    store = MemoryStore.from_haystack(haystack)
    data = store.persist()

    restored = MemoryStore.hydrate(data, "db.json")

    assert restored.persist() == data
    assert restored.messages == store.messages
    assert restored.threads == store.threads
    assert restored.resource == store.resource


def test_a_newer_format_is_refused_by_name_whatever_else_it_holds() -> None:
    with pytest.raises(FixtureError, match=r"format 2 is newer than this version understands \(1\): upgrade") as caught:
        MemoryStore.hydrate(b'{"format": 2, "people": []}', "x/db.json")
    assert caught.value.where == "x/db.json"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not json",
        b"{}",
        b"[]",
        b'{"format": 0}',
        b'{"format": "1"}',
        b"\xff\xfe",
        b'{"format": 1, "resource": 3}',
    ],
)
def test_garbage_is_an_error_that_names_the_file(data: bytes) -> None:
    with pytest.raises(FixtureError) as caught:
        MemoryStore.hydrate(data, "x/db.json")
    assert caught.value.where == "x/db.json"
    assert "prepare --force" in caught.value.fix


def test_a_db_that_contradicts_itself_is_refused() -> None:
    document = json.loads(MemoryStore.from_haystack(HAYSTACK).persist())
    document["threads"].pop(0)

    with pytest.raises(FixtureError, match="thread 's1', which is not stored"):
        MemoryStore.hydrate(json.dumps(document).encode(), "db.json")
