"""Which worker runs which test, where there are several.

The tests of a module that prepares something for all of them stay on one worker, so that it is prepared once; they
come first, the other tests that begin something after them and quick ones last, so that no worker ends long after the
others. (The mark `xdist_group` does not do it: pytest-xdist 3.8 writes it where pytest 9.2 no longer looks.)
"""

from functools import cache
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling


class Schedule(LoadScopeScheduling):
    """Modules that prepare something once as a whole, tests of other modules one by one."""

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        self._root = config.rootpath
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        module = nodeid.partition("::")[0]
        return module if prepares_once(self._root / module) else nodeid


@cache
def prepares_once(module: Path) -> bool:
    """Whether a test module, or the conftest.py beside it, has a fixture for all tests of a module."""
    files = (module, module.with_name("conftest.py"))
    return any('scope="module"' in file.read_text(encoding="utf-8") for file in files if file.exists())


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Schedule | None:
    """The schedule of `-n`; another `--dist` is left as it is."""
    return Schedule(config, log) if config.getvalue("dist") == "load" else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Workers have the slow tests first; the order of a process alone stays that of the files."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: item.get_closest_marker("slow") is None)
