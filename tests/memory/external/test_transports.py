"""The same memory in process, as a child process, over HTTP and in another language: same results, checked messages."""

import asyncio
import sys
from datetime import datetime
from pathlib import Path

import jsonschema
import msgspec
import pytest

from longmemeval.memory.external.ingestion import Unit, batches
from longmemeval.memory.external.messages import (
    PARAMETERS,
    RESULTS,
    Add,
    Open,
    Search,
    SearchItem,
    SentMessage,
    SentSession,
)
from longmemeval.memory.external.recalled import OpaqueIds
from longmemeval.memory.external.serve import MemoryServer
from longmemeval.memory.external.transports.child_process import ChildProcess
from longmemeval.memory.external.transports.service import MemoryService
from longmemeval.memory.external.transports.transport import ServiceError
from tests.memory.external.transported import CARRIERS, EXAMPLE, haystack, memory_service, session, valid
from tests.support import ROOT

ASKED = datetime(2023, 6, 1, 12, 0)
_, MESSAGES = haystack(
    "gpt4_2655b836_abs",
    session("filler_1", 1, "Hello there.", "Hi! How can I help?"),
    session(
        "answer_280352e9_1", 2, "I adopted a beagle called Pixel.", "Beagles need walks.", "Pixel and I walk a lot."
    ),
    session("filler_2", 3, "I moved to Lisbon, said she: “olá”.", "Lovely."),
)
IDS = OpaqueIds("gpt4_2655b836_abs", MESSAGES)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "mymem.py").write_text(EXAMPLE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "mymem", raising=False)
    return tmp_path


async def prepared(service: MemoryService, directory: Path, scope: str = "h_1") -> None:
    directory.mkdir(exist_ok=True)
    there = await service.open(Open(scope, str(directory), "prepare"))
    for batch in batches(scope, MESSAGES, IDS, (await service.hello()).capabilities.unit):
        if batch.batch_id not in there.batch_ids:
            await service.add(batch)
    assert (await service.ready(scope)).state == "ready"
    await service.snapshot(scope)


async def found(service: MemoryService, query: str, limit: int = 10, scope: str = "h_1") -> tuple[SearchItem, ...]:
    return (await service.search(Search(scope, query, ASKED, limit))).items


@pytest.mark.parametrize("transport", CARRIERS)
def test_every_carrier_gives_the_same_hits(transport: str, folder: Path) -> None:
    async def work(service: MemoryService) -> tuple[SearchItem, ...]:
        await prepared(service, folder / "kept")
        await service.open(Open("h_1", str(folder / "kept"), "read"))
        return await found(service, "Does Pixel the beagle walk in Lisbon?")

    with memory_service(transport, folder) as (service, taps):
        hits = asyncio.run(work(service))
    shown = [(item.text, item.score, item.date, item.speaker, item.message_ids) for item in hits]
    beagle, walks = ("answer_280352e9_1:0", "answer_280352e9_1:2")
    assert shown == [
        ("I adopted a beagle called Pixel.", 2.0, datetime(2023, 5, 2, 9, 30), "user", (IDS.messages[beagle],)),
        ("Pixel and I walk a lot.", 2.0, datetime(2023, 5, 2, 9, 30), "user", (IDS.messages[walks],)),
        (MESSAGES[5].content, 1.0, datetime(2023, 5, 3, 9, 30), "user", (IDS.messages["filler_2:0"],)),
    ]
    assert [method for method, _ in taps[0].sent[:4]] == ["hello", "open", "add", "add"]


@pytest.mark.parametrize("transport", CARRIERS)
def test_a_restart_finds_what_was_saved(transport: str, folder: Path) -> None:
    with memory_service(transport, folder) as (service, _):
        asyncio.run(prepared(service, folder / "kept"))

    async def again(service: MemoryService) -> tuple[SearchItem, ...]:
        there = await service.open(Open("h_1", str(folder / "kept"), "prepare"))
        assert there.batch_ids == tuple(IDS.sessions.values())
        return await found(service, "beagle")

    with memory_service(transport, folder) as (service, _):
        assert [item.text for item in asyncio.run(again(service))] == ["I adopted a beagle called Pixel."]


@pytest.mark.parametrize("transport", CARRIERS)
def test_scopes_are_apart_and_a_batch_counts_once(transport: str, folder: Path) -> None:
    async def work(service: MemoryService) -> None:
        for scope in ("h_1", "h_2"):
            (folder / scope).mkdir()
            await service.open(Open(scope, str(folder / scope), "prepare"))
        first, second, _ = batches("h_1", MESSAGES, IDS, "session")
        await asyncio.gather(*(service.add(batch) for batch in (first, second, first, second)))
        assert len(await found(service, "beagle hello")) == 2
        assert await found(service, "beagle hello", scope="h_2") == ()
        assert len(await found(service, "beagle hello", limit=1)) == 1
        await service.reset("h_1")
        assert await found(service, "beagle hello") == ()

    with memory_service(transport, folder) as (service, _):
        asyncio.run(work(service))


@pytest.mark.parametrize("transport", CARRIERS)
def test_what_was_deleted_does_not_come_back(transport: str, folder: Path) -> None:
    async def work(service: MemoryService, directory: Path) -> list[str]:
        there = await service.open(Open("h_1", str(directory), "prepare"))
        for batch in batches("h_1", MESSAGES, IDS, "session"):
            await service.add(batch)  # Those that are there change nothing.
        if not there.batch_ids:
            await service.snapshot("h_1")
            await service.open(Open("h_1", str(directory), "prepare"))
            await service.delete("h_1", "beagle")
        return [item.text for item in await found(service, "beagle Pixel")]

    (folder / "kept").mkdir()
    for _ in range(2):  # The second is another process, which ended without a snapshot after deleting.
        with memory_service(transport, folder) as (service, _):
            assert (asyncio.run(service.hello())).capabilities.delete
            assert asyncio.run(work(service, folder / "kept")) == ["Pixel and I walk a lot."]


@pytest.mark.parametrize("transport", CARRIERS)
def test_the_schema_has_every_message_of_every_carrier(transport: str, folder: Path) -> None:
    """All methods, results and a fault; the lines of a child process and the bodies over HTTP as they are sent."""
    lines: list[tuple[str, bytes]] = []

    async def work(service: MemoryService) -> None:
        await prepared(service, folder / "kept")
        await service.open(Open("h_1", str(folder / "kept"), "read"))
        assert len(await found(service, "beagle")) == 1
        assert len((await service.list("h_1")).items) == 7
        await service.delete("h_1", "beagle")
        await service.reset("h_1")
        with pytest.raises(ServiceError, match="this scope is not open"):
            await found(service, "beagle", scope="h_9")
        await service.close()

    with memory_service(transport, folder, lines=lines) as (service, taps):
        asyncio.run(work(service))
    assert {method for method, _ in taps[0].sent} == set(PARAMETERS)
    assert {method for method, _ in taps[0].received} == set(RESULTS)
    if transport in ("child process", "node"):
        names = [name for name, _ in lines]
        assert names.count("request") == names.count("response") == len(taps[0].sent)
    for name, line in lines:
        valid(msgspec.json.decode(line), name)


def test_the_schema_refuses_what_is_no_message() -> None:
    for document, name in (
        ({"id": 1, "method": "find", "params": {}}, "request"),
        ({"result": {}}, "response"),
        ({"method": "progress", "params": {"scope": "h", "done": -1}}, "notification"),
        ({"scope": "h", "query": "?", "as_of": "2023-05-20T10:00:00Z", "limit": 1}, "search.params"),
        ({"items": [{"kind": "message"}]}, "search.result"),
    ):
        with pytest.raises(jsonschema.ValidationError):
            valid(document, name)


@pytest.mark.parametrize("transport", CARRIERS)
def test_a_fault_is_told_and_the_rest_goes_on(transport: str, folder: Path) -> None:
    async def work(service: MemoryService) -> None:
        with pytest.raises(ServiceError, match="this scope is not open") as told:
            await found(service, "beagle", scope="h_9")
        assert told.value.code == "not_open"
        await prepared(service, folder / "kept")
        assert service.beginnings == 1

    with memory_service(transport, folder) as (service, _):
        asyncio.run(work(service))


@pytest.mark.slow
def test_the_standard_library_is_all_that_a_child_needs(folder: Path) -> None:
    """`serve.py` by its path, where there is neither longmemeval nor any other package."""
    command = [sys.executable, "-I", "-S", str(ROOT / "longmemeval/memory/external/serve.py"), "mymem:MyMemory"]
    service = MemoryService(lambda on_progress: ChildProcess(command, on_progress))

    async def work() -> None:
        try:
            await prepared(service, folder / "kept")
            await service.open(Open("h_1", str(folder / "kept"), "read"))
            assert len(await found(service, "beagle")) == 1
        finally:
            await service.close()

    asyncio.run(work())


@pytest.mark.parametrize("transport", CARRIERS[:3])
def test_what_is_set_reaches_the_class(transport: str, folder: Path) -> None:
    async def work(service: MemoryService) -> None:
        await service.open(Open("h_1", "", "prepare", {"shortest": 20}))
        await service.add(Add("h_1", "b", SentSession("s", ASKED, (SentMessage("m", "user", "", "A beagle."),))))
        assert await found(service, "beagle") == ()
        with pytest.raises(ServiceError, match="MyMemory cannot be made: got an unexpected keyword argument 'longest'"):
            await service.open(Open("h_1", "", "prepare", {"longest": 1}))

    with memory_service(transport, folder) as (service, _):
        asyncio.run(work(service))


MODELS = {
    "chat_base_url": "http://127.0.0.1:9/a/v1",
    "chat_model": "openai/small",
    "embedding_base_url": "http://127.0.0.1:9/b/v1",
    "embedding_model": "hashing:64",
    "embedding_dimension": 64,
}
SHOWS_WHAT_IT_GOT = """
class Shows:
    def __init__(self, folder, chat_base_url, chat_model="its own", embedding_base_url="", embedding_model="",
                 embedding_dimension=3, depth=1):
        self.got = [chat_base_url, chat_model, embedding_base_url, embedding_model, embedding_dimension, depth]
        self.folder = folder
        assert not list(folder.iterdir())
        (folder / "half-done").write_text("unsaved")

    def add(self, session):
        pass

    def search(self, query, *, date, limit):
        return [repr(self.got)]

    def save(self, folder):
        (folder / "kept").write_text("saved")

    def load(self, folder):
        self.got.append((folder / "kept").read_text())

    def close(self):
        (self.folder.parent / "closed").write_text((self.folder / "half-done").read_text())
"""


@pytest.mark.parametrize("transport", CARRIERS[:3])
def test_a_class_gets_the_folder_and_the_models_that_it_names(transport: str, folder: Path) -> None:
    (folder / "shows.py").write_text(SHOWS_WHAT_IT_GOT)

    async def work(service: MemoryService) -> None:
        (folder / "kept").mkdir()
        request = Open("h_1", str(folder / "kept"), "prepare", {"depth": 2})
        await service.open(msgspec.structs.replace(request, **MODELS))
        assert (await found(service, "anything"))[0].text == repr([*MODELS.values(), 2])
        await service.snapshot("h_1")
        assert sorted(path.name for path in (folder / "kept").iterdir()) == ["closed", "saved"]
        await service.open(Open("h_1", str(folder / "kept"), "read"))
        assert (await found(service, "anything"))[0].text == repr(["", "its own", "", "", 3, 1, "saved"])

    with memory_service(transport, folder, "shows:Shows") as (service, _):
        asyncio.run(work(service))


@pytest.mark.parametrize("transport", CARRIERS)
def test_nothing_that_tells_the_answer_goes_out(transport: str, folder: Path) -> None:
    """The history's own ids are full of labels: `answer_…`, `…_abs`. Not one byte of them is sent."""
    with memory_service(transport, folder) as (service, taps):
        asyncio.run(prepared(service, folder / "kept"))
    sent = b"\n".join(params for _, params in taps[0].sent)
    assert b"Beagles need walks." in sent
    kept = b"\n".join(path.read_bytes() for path in (folder / "kept").rglob("*") if path.is_file())
    for label in (b"answer", b"_abs", b"filler", b"gpt4", b"question", b"has_answer", b"single-session", b"evidence"):
        assert label not in sent.lower()
        assert label not in kept.lower()


@pytest.mark.parametrize(("unit", "sizes"), [("session", [2, 3, 2]), ("pair", [2, 2, 1, 2]), ("turn", [1] * 7)])
def test_batches_hold_the_unit_of_the_service(unit: Unit, sizes: list[int]) -> None:
    made = list(batches("h_1", MESSAGES, IDS, unit))
    assert [len(batch.session.messages) for batch in made] == sizes
    assert len({batch.batch_id for batch in made}) == len(made)
    texts = [message.content for batch in made for message in batch.session.messages]
    assert texts == [message.content for message in MESSAGES]
    assert {batch.session.date for batch in made} == {message.created_at for message in MESSAGES}


def test_ids_lead_back_and_belong_to_one_history() -> None:
    sent = [IDS.messages[message.message_id] for message in MESSAGES]
    assert IDS.own_messages(sent) == tuple(message.message_id for message in MESSAGES)
    assert IDS.own_sessions([IDS.sessions["filler_2"]], ["answer_280352e9_1:0"]) == ("answer_280352e9_1", "filler_2")
    assert not set(sent) & set(OpaqueIds("another", MESSAGES).messages.values())
    for stranger in ("m_0000000000000000", "answer_280352e9_1:0", IDS.sessions["filler_1"]):
        with pytest.raises(ServiceError, match="message id that it was not given for this history"):
            IDS.own_messages([stranger])


class ByTokens:
    """Says which budget of tokens it is told."""

    def add(self, session: object) -> None:
        """Nothing."""

    def search(self, query: str, *, date: datetime, limit: int, token_budget: int | None = None) -> list[str]:
        return [f"{token_budget} tokens"]


def test_a_search_that_names_a_budget_of_tokens_is_told_it() -> None:
    async def found(**params: object) -> object:
        server = MemoryServer(ByTokens, "ByTokens")
        await server.call("open", {"scope": "s", "directory": "", "mode": "prepare"})
        asked = {"scope": "s", "query": "?", "as_of": "2024-01-01T00:00:00", "limit": 1, **params}
        return (await server.call("search", asked))["items"]

    assert asyncio.run(found(token_budget=500)) == [{"text": "500 tokens"}]
    assert asyncio.run(found()) == [{"text": "None tokens"}]
