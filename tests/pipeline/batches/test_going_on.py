"""A run by batch that is killed at any step goes on: nothing is paid for twice, nothing is lost."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count
from typing import TypeVar, cast

import pytest

from longmemeval.core.journal import Journal
from longmemeval.dataset import Dataset
from longmemeval.llm.costs import SPENDING, Account, spent_in
from longmemeval.llm.http.batch_endpoint import BatchEndpoint
from longmemeval.pipeline.batches.sending import BatchStore
from longmemeval.settings import Folders
from tests.batch_server import BatchServer
from tests.pipeline.batches.batched import ask, by_question
from tests.pipeline.helpers import answers, manifest

STEPS: dict[type, tuple[str, ...]] = {
    BatchStore: ("write", "write_requests", "write_replies"),
    BatchEndpoint: ("upload", "create", "status", "content"),
    Account: ("reserve", "record_cost"),
    Journal: ("append",),
}
"""Whatever a run by batch does outside of its own memory."""


T = TypeVar("T")


class Killed(KeyboardInterrupt):
    """The process ends here."""


class Steps:
    """Counts steps, and ends the process after one of them: before the next."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: list[str] = []
        self.deadly = 0
        for kind, names in STEPS.items():
            for name in names:
                monkeypatch.setattr(kind, name, self.watched(f"{kind.__name__}.{name}", getattr(kind, name)))

    def watched(self, name: str, step: Callable[..., T]) -> Callable[..., T | Awaitable[object]]:
        def plain(*given: object) -> T:
            number = self.begin(name)
            done = step(*given)
            self.end(number)
            return done

        async def awaited(*given: object, **named: object) -> object:
            number = self.begin(name)
            done = await cast(Awaitable[object], step(*given, **named))
            self.end(number)
            return done

        return awaited if asyncio.iscoroutinefunction(step) else plain

    def begin(self, name: str) -> int:
        self.names.append(name)
        return len(self.names)

    def end(self, number: int) -> None:
        if number == self.deadly:
            raise Killed


def test_killed_after_every_step(
    three: tuple[Dataset, Folders], server: BatchServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset, folders = three
    ask(dataset, folders, server, "whole")
    usage = manifest(folders, "whole")["totals"]["usage"]
    steps = Steps(monkeypatch)
    seen = set[str]()
    for number in count(1):
        run_id, sent = f"killed-{number}", len(server.batches)
        server.paid.clear()
        steps.names.clear()
        steps.deadly = number
        try:
            ask(dataset, folders, server, run_id)
        except Killed:
            seen.add(steps.names[number - 1])
        else:
            break
        steps.deadly = 0
        assert ask(dataset, folders, server, run_id).answered == 3
        assert by_question(folders, run_id) == by_question(folders, "whole")
        assert len(answers(folders, run_id)) == 3
        assert server.sizes[sent:] == [3]
        assert set(server.paid.values()) == {1}
        assert manifest(folders, run_id)["totals"]["usage"] == usage
        assert spent_in(folders.results_dir / run_id / SPENDING) == pytest.approx(usage["cost_usd"])
    assert number > 15
    assert seen == {f"{kind.__name__}.{name}" for kind, names in STEPS.items() for name in names}
