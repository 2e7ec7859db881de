"""A probe of a served memory: 64 lives at a time give the figures of one, and what a killed one paid for is kept."""

import json
import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from signal import SIGKILL
from typing import Any, ClassVar

import pytest
from msgspec import structs

from longmemeval.benchmarks.lives.making import LivesDataset, write_lives
from longmemeval.core.event_loop import complete
from longmemeval.memory.external.connect import connect
from longmemeval.memory.external.serve import MemoryServer
from longmemeval.memory.external.transports.service import MemoryService
from longmemeval.memory.external.transports.transport import InProcess
from longmemeval.pipeline.probe.lifecycle import WritableMemory, lifecycle
from longmemeval.pipeline.probe.probe import Forgets
from tests.memory.external.transported import SERVE, http_served
from tests.pipeline.helpers import start, stop_when
from tests.server import Fault, ModelServer
from tests.support import longmemeval

TOGETHER = """
import asyncio
from longmemeval.pipeline.probe.probe import Forgets

class Together(Forgets):
    '''No life goes on before as many have begun as may be under way at a time.'''

    capabilities = {"models": "none", "max_parallel": AT_ONCE}
    begun, all_begun = 0, {}

    async def add(self, session):
        if not self.kept:
            turn, Together.begun = self.begun // AT_ONCE, self.begun + 1
            event = self.all_begun.setdefault(turn, asyncio.Event())
            if self.begun % AT_ONCE == 0:
                event.set()
            await event.wait()
        super().add(session)
"""


class OneAtATime(Forgets):
    """The same memory in this process, one life after the other."""

    capabilities: ClassVar[Mapping[str, Any]] = {"models": "none", "max_parallel": 1}


@pytest.mark.thorough
def test_sixty_four_lives_at_a_time_give_the_figures_of_one(tmp_path: Path) -> None:
    lives = LivesDataset(write_lives(tmp_path / "lives.json", 7, 64, (10,))).lives_of(10)
    one = MemoryService(lambda on_progress: InProcess(MemoryServer(OneAtATime, "one")))
    expected = structs.replace(lifecycle(WritableMemory(one), lives), found_after_ms=None)
    (tmp_path / "together.py").write_text(TOGETHER.replace("AT_ONCE", "64"))
    with http_served("together:Together", tmp_path) as address:
        service = connect(address)
        found = structs.replace(lifecycle(WritableMemory(service), lives), found_after_ms=None)
        complete(service.close())
    assert found == expected
    assert found.notes == ()
    assert found.deletion is not None
    assert (found.deletion.mean, found.deletion.n) == (1, 128)


KEY = "sk-test-0123456789"
ASKS = '''
import json, urllib.request
from longmemeval.pipeline.probe.probe import Forgets

class Asks(Forgets):
    """Has a model read what it is given, and what it is asked."""

    capabilities = {"models": "offered", "max_parallel": 1}

    def __init__(self, chat_base_url):
        super().__init__()
        self.url = chat_base_url + "/chat/completions"

    def ask(self, text):
        body = json.dumps({"model": "any", "messages": [{"role": "user", "content": text}]}).encode()
        headers = {"Content-Type": "application/json", "Authorization": "Bearer longmemeval"}
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(urllib.request.Request(self.url, body, headers), timeout=600) as reply:
            return json.load(reply)["choices"][0]["message"]["content"]

    def add(self, session):
        self.ask("Read: " + " ".join(message.content for message in session.messages))
        super().add(session)

    def search(self, query, *, date, limit):
        return super().search(self.ask(query), date=date, limit=limit)
'''


class Counted(ModelServer):
    """Says again what it is told, and holds back one reply for good."""

    def __init__(self, held: int = 0) -> None:
        super().__init__(lambda body: str(body["messages"][-1]["content"]))
        self.arrived, self.hangs, self._held = 0, threading.Event(), held
        self.plan = self._planned

    def _planned(self) -> Fault | None:
        self.arrived += 1
        if self.arrived != self._held:
            return None
        self.hangs.set()
        return "hang"

    @property
    def asked(self) -> list[str]:
        return [request.body["messages"][-1]["content"] for request in self.chat_requests]


def arguments(server: ModelServer) -> list[str]:
    memory = f"process:{SERVE} asks:Asks"
    lives = ("--seed", "4", "--lives", "1", "--sessions", "10")
    models = ("--memory-model", "openai/gpt-4o-mini", "--api-base", server.url)
    return ["probe", "--memory", memory, *lives, *models, "--json"]


def shown(stdout: str) -> list[Any]:
    """The figures of `--json`, without times and places."""
    memories: list[dict[str, Any]] = json.loads(stdout)["memories"]
    for one in memories:
        del one["run_id"], one["lifecycle"]["found_after_ms"]
    return memories


@pytest.mark.thorough
@pytest.mark.slow
def test_a_killed_probe_goes_on_and_pays_for_nothing_twice(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("whole", "adding", "deleting")]
    for folder in folders:
        folder.mkdir()
        (folder / "asks.py").write_text(ASKS)
    with Counted() as server:
        whole = shown(longmemeval(*arguments(server), cwd=folders[0], OPENAI_API_KEY=KEY).stdout)
        asked = server.asked
    assert (whole[0]["notes"], whole[0]["lifecycle"]["deletion"]["mean"]) == ([], 1)
    assert len(asked) == len(set(asked))
    # While a history is added, and among the last calls of deleting.
    for folder, held in zip(folders[1:], (5, len(asked) - 1), strict=True):
        with Counted(held) as server:
            stop_when(start(*arguments(server), cwd=folder, OPENAI_API_KEY=KEY), server.hangs.is_set, SIGKILL)
            assert len(server.asked) == held
            again = shown(longmemeval(*arguments(server), cwd=folder, OPENAI_API_KEY=KEY).stdout)
            repeated = {text: times for text, times in Counter(server.asked).items() if times > 1}
        assert again == whole
        assert set(server.asked) == set(asked)
        # The one call that was never answered is all that is asked again.
        assert repeated == {server.asked[held - 1]: 2}
