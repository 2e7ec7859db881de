"""What the tests of adapters share: environments of real products, made once, and a made-up product."""

from collections.abc import Callable
from pathlib import Path

import pytest

from longmemeval.memory.products.install import install
from longmemeval.memory.products.installed import place_of
from longmemeval.memory.products.known import ADAPTERS
from tests.support import ROOT

ENVIRONMENTS = ROOT / ".cache" / "memories"
"""Real products, installed by the first test that needs them; a later run of the tests finds them there."""


@pytest.fixture
def with_product(tmp_path: Path) -> Callable[[str], Path]:
    """Installs the product of a name where it is missing, and gives an empty folder in which it is installed."""

    def put(name: str) -> Path:
        place = place_of(ADAPTERS.get(name), ENVIRONMENTS)
        if not place.installed:
            install(place)
        (tmp_path / "installed-memories").mkdir(exist_ok=True)
        (tmp_path / "installed-memories" / name).symlink_to(place.folder)
        return tmp_path

    return put
