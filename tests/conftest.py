"""Shared fixtures: the real data where it is at hand."""

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from tempfile import gettempdir

import pytest
from hypothesis import settings

from longmemeval.core.remote import places
from longmemeval.core.secrets import redaction
from longmemeval.settings import Folders
from tests.pipeline.helpers import folders_in
from tests.tiers import begins_something, later_variants

pytest_plugins = ["tests.schedule"]

# Workers of pytest-xdist are told a width; commands write into pipes here, which have none.
os.environ.pop("COLUMNS", None)

# Models that whoever runs the tests has downloaded would change what commands find on this machine.
os.environ |= {"FASTEMBED_CACHE_PATH": str(Path(gettempdir()) / "longmemeval-no-models"), "HF_HUB_OFFLINE": "1"}

# A shell that runs the tests in the background has interrupts ignored, and every command they begin inherits that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes says more of the machine than of what is tested. 20 are enough to find what is broken
# everywhere; `--thorough` tries hypothesis's own hundred.
settings.register_profile("usual", deadline=None, max_examples=20)
settings.register_profile("thorough", deadline=None, max_examples=100)

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


def pytest_addoption(parser: pytest.Parser) -> None:
    """`pytest tests/cli/test_snapshots.py --write-snapshots` writes what the terminal shows now."""
    parser.addoption("--write-snapshots", action="store_true", help="write tests/cli/snapshots again")
    parser.addoption("--thorough", action="store_true", help="run those marked `thorough` too, with many examples")
    parser.addoption("--products", action="store_true", help="run the tests marked `products`, and only these")


def real_file(name: str) -> Path:
    """The real benchmark file `name`; skips the test without it unless REQUIRE_REAL_DATA=1."""
    path = SHARED_DATA / name
    if not path.exists():
        message = f"real benchmark file {name} is not beside the project (licences forbid shipping it)"
        if os.environ.get("REQUIRE_REAL_DATA") == "1":
            pytest.fail(message)
        pytest.skip(message)
    return path


@pytest.fixture(scope="session")
def real_longmemeval() -> Path:
    return real_file("longmemeval_e47becba.json")


@pytest.fixture(autouse=True)
def _addresses_and_paths_of_this_test_alone() -> Iterator[None]:
    """What is taken for a secret because it stood in an address of one test is none in the next.

    And no text is searched for the folders of all the tests before it.
    """
    secrets, given, shortened = set(redaction._from_addresses), places._given, places._shortened
    places._given, places._shortened = dict(given), list(shortened)
    yield
    places._given, places._shortened = given, shortened
    redaction._from_addresses.clear()
    redaction._from_addresses.update(secrets)


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return folders_in(tmp_path)


def pytest_configure(config: pytest.Config) -> None:
    """Many examples of property tests with `--thorough` alone."""
    settings.load_profile("thorough" if config.getoption("--thorough") else "usual")


def pytest_collection() -> None:
    """Collect no garbage while tests are collected: nearly all that is made stays to the end."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Take what was imported and collected out of garbage collection, which is then seldom worth its time."""
    gc.freeze()
    gc.set_threshold(10_000)
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what begins processes or servers as slow; leave out the tiers that were not asked for."""
    products, thorough = bool(config.getoption("--products")), bool(config.getoption("--thorough"))
    variants = set() if thorough else later_variants(items)
    others = [
        item
        for item in items
        if bool(item.get_closest_marker("products")) != products
        or (item.get_closest_marker("thorough") and not thorough)
        or item in variants
    ]
    config.hook.pytest_deselected(items=others)
    items[:] = [item for item in items if item not in others]
    for item in items:
        if begins_something(item):
            item.add_marker(pytest.mark.slow)
