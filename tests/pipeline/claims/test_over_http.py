"""Claims of readers and of rankings over HTTP: killed half-way and resumed, with no call paid twice.

A claim of a product is tried like this in tests/memory/products/test_claims.py.
"""

from pathlib import Path

import pytest

from tests.pipeline.claims.provider import Provider
from tests.pipeline.claims.test_attempt import SETTINGS
from tests.pipeline.claims.test_catalogue import ROW, write

EMBEDDER = "openai:text-embedding-3-small"


@pytest.mark.thorough
@pytest.mark.parametrize("hangs_at", [12, 45], ids=["answering", "judging"])
def test_a_claim_of_a_reader(hangs_at: int, tmp_path: Path) -> None:
    settings = SETTINGS | {"model": "openai/gpt-4o-mini", "judge": "lenient@openai/gpt-4o-mini"}
    path = write(tmp_path, benchmark="longmemeval", settings=settings, rows=[ROW | {"value": 0.99}], n=30)
    with Provider(hangs_at) as provider:
        done = provider.killed_and_resumed(f"{path}/one", "--sample", "30", cwd=tmp_path)
        assert provider.paid.total() == 2 * 30
    assert done["verdict"]["measured"]["n"] == 30
    assert done["verdict"]["finding"] == "not reproduced"


@pytest.mark.thorough
@pytest.mark.parametrize("protocol", ["standard", "official"])
def test_a_claim_of_rankings_by_a_remote_embedder(protocol: str, tmp_path: Path) -> None:
    """Under the official protocol texts of its own are embedded, else those that were prepared."""
    settings = {"dataset": "sample", "memory": "semantic-recall", "prepare": {"embedder": EMBEDDER}}
    asked = settings | {"protocol": protocol, "granularity": "session", "measure": "recall_all@5"}
    path = write(tmp_path, benchmark="longmemeval", settings=asked, rows=[ROW | {"value": 0.999}], n=None)
    with Provider(3) as provider:
        done = provider.killed_and_resumed(f"{path}/one", cwd=tmp_path)
    assert done["verdict"]["finding"] == "not reproduced", "vectors of hashes find next to nothing"
