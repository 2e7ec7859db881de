"""What goes between a command and its workers; what is told where an engine is not installed."""

import pickle
import sys
from contextlib import closing
from pathlib import Path
from threading import Event

import pytest

from longmemeval.core.caches import HubConnection, HubLostError, ServedCache, disconnect
from longmemeval.core.executors.cluster import Hub, Reference, identity
from longmemeval.core.executors.protocol import Done, Task
from longmemeval.core.executors.registry import executor_named
from longmemeval.core.journal import LockedError, locked
from longmemeval.errors import HarnessError


@pytest.mark.slow
def test_a_task_goes_through_the_scheduler_as_a_reference() -> None:
    text = "a haystack " * 100_000
    with closing(Hub("127.0.0.1")) as hub:
        number = hub.lend(Task("one", len, text, len(text)), lambda: True)
        call = Reference(hub.address, hub.key, number, 60.0, here)
        assert len(pickle.dumps(call)) < 1000
        try:
            assert call() == Done("one", len(text))
        finally:
            disconnect()


def here() -> str:
    return "here"


@pytest.mark.slow
def test_a_text_is_one_workers_until_it_is_there_or_the_worker_is_gone(tmp_path: Path) -> None:
    path, keys = tmp_path / "embeddings.sqlite", [b"a", b"b"]
    with closing(Hub("127.0.0.1")) as hub:
        first, second = (HubConnection(hub.address, hub.key, name, identity()) for name in ("first", "second"))
        mine, others = ServedCache(first, path), ServedCache(second, path)
        assert mine.claim(keys) == keys
        assert others.claim([b"b", b"c"]) == [b"c"]
        mine.put_many({b"a": b"1"})
        assert others.get_many(keys) == {b"a": b"1"}
        assert others.claim(keys) == []
        with first.locked(tmp_path / "account", False):
            with pytest.raises(LockedError), second.locked(tmp_path / "account", False):
                pass
            with pytest.raises(LockedError), locked(tmp_path / "account", wait=False):
                pass
        with second.locked(tmp_path / "account", False):
            pass
        assert sorted(hub.drop_silent(0)) == ["first", "second"]
        with pytest.raises(HubLostError):
            mine.get_many(keys)
        third = ServedCache(HubConnection(hub.address, hub.key, "third", identity()), path)
        assert third.claim(keys) == [b"b"]


@pytest.mark.parametrize(("name", "module"), [("dask", "distributed"), ("ray", "ray")])
def test_without_the_extra(name: str, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(HarnessError, match=rf"install .*\[{name}\]'"):
        next(iter(executor_named(name).map([], None)))


def test_an_executor_of_this_machine_takes_no_address() -> None:
    with pytest.raises(HarnessError, match="does not take an address"):
        executor_named("threads@tcp://127.0.0.1:1")


@pytest.mark.slow
def test_while_the_command_is_stopped_nobody_is_silent() -> None:
    with closing(Hub("127.0.0.1")) as hub:
        worker = HubConnection(hub.address, hub.key, "one", identity())
        assert hub.drop_silent(2) == hub.drop_silent(2) == []
        worker.ask("beat")
        assert hub.drop_silent(2) == hub.drop_silent(2) == []
        assert hub.drop_silent(2) == ["one"]


@pytest.mark.slow
def test_who_waits_for_an_answer_is_not_silent() -> None:
    inside = Event()
    with closing(Hub("127.0.0.1")) as hub:
        worker = HubConnection(hub.address, hub.key, "one", identity())
        (peer,) = hub._peers

        def watched() -> bool:
            assert peer.waits
            assert [hub.drop_silent(0), hub.drop_silent(0)] == [[], []]
            inside.set()
            return False

        assert worker.ask("task", hub.lend(Task("slow", len, "", 0), watched)) is None
        assert inside.is_set()
        assert hub.drop_silent(0) == ["one"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("theirs", "told"),
    [
        ({"longmemeval": "0.0.9"}, "worker other has longmemeval 0.0.9 (here "),
        ({"its source": "ab" * 32}, "worker other has its source abababababab… (here "),
        ({"Python": "3.9", "numpy": "1.2.3"}, "worker other has Python 3.9 (here 3."),
        ({"a library": "that only it has"}, ""),
        (None, "worker other has longmemeval of an earlier version"),
    ],
)
def test_a_worker_of_other_versions_gets_no_task(theirs: dict[str, str] | None, told: str) -> None:
    with closing(Hub("127.0.0.1")) as hub:
        HubConnection(hub.address, hub.key, "same", identity())
        assert hub.refusal is None
        versions = {} if theirs is None else identity() | theirs
        if told:
            with pytest.raises(HubLostError):
                HubConnection(hub.address, hub.key, "other", versions)
            assert f"The workers of the cluster have other versions than this machine: {told}" in str(hub.refusal)
        else:
            HubConnection(hub.address, hub.key, "other", versions)
            assert hub.refusal is None
