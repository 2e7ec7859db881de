"""Which worker runs which test, where there are several.

The tests of a module that prepares something for all of them stay on one worker, so that it is prepared once, and so do
those of modules that name one `xdist_group`. (These groups are read from the files: pytest-xdist 3.8 writes them where
pytest 9.2 no longer looks.) First come tests that may take longer than others, by a `timeout` of their own, then the
others that begin something, then the thorough ones, and quick ones last, so that no worker ends long after the others.
Among each of these they are mixed: tests of one file often wait for the same, and workers that all wait leave time.
"""

import re
import zlib
from functools import cache
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling


class Schedule(LoadScopeScheduling):
    """Modules that prepare something once as a whole, groups of them together, tests of other modules one by one."""

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        self._root = config.rootpath
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return group_of(self._root / nodeid.partition("::")[0]) or nodeid


@cache
def group_of(module: Path) -> str:
    """What the tests of a module are kept together by: a named group, the module itself, or nothing (empty)."""
    texts = [file.read_text(encoding="utf-8") for file in (module, module.with_name("conftest.py")) if file.exists()]
    if named := re.search(r'xdist_group\("(.+?)"\)', texts[0]):
        return named[1]
    once = "xdist_group(" in texts[0] or any('scope="module"' in text for text in texts)
    return str(module) if once else ""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Schedule | None:
    """The schedule of `-n`; another `--dist` is left as it is."""
    return Schedule(config, log) if config.getvalue("dist") == "load" else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Workers have the slow tests first; the order of a process alone stays that of the files."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: (_turn(item), _mixed(item)))


def _mixed(item: pytest.Item) -> int:
    """Return a number that is the same for all that stay together, and for every worker."""
    return zlib.crc32((group_of(item.path) or item.nodeid).encode())


def _turn(item: pytest.Item) -> int:
    """Return when a test has its turn: what long ones leave of the time, many short ones fill."""
    patience = item.get_closest_marker("timeout")
    if patience and patience.args[0] > float(item.config.getini("timeout")):
        return -1
    if item.get_closest_marker("thorough"):
        return 1
    return 0 if item.get_closest_marker("slow") else 2
