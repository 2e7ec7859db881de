"""A claim of a product: LangMem in an environment of its own, over HTTP, killed half-way and resumed."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.memory.products.products import DIMENSION, planted, words_vector
from tests.memory.products.test_langmem import remembered
from tests.pipeline.claims.provider import Provider, answer_or_label
from tests.pipeline.claims.test_catalogue import ROW, write
from tests.support import write_dataset

MODEL = "openai/gpt-4o-mini"
SETTINGS = {
    "dataset": "planted",
    "get": "The test writes it",
    "memory": "langmem",
    "prepare": {"memory_model": MODEL, "embedder": "openai:text-embedding-3-small", "jobs": 1},
    "model": MODEL,
    "reading": {"method": "memories"},
    "judge": f"lenient@{MODEL}",
}


@pytest.mark.thorough
def test_a_claim_of_a_product(with_product: Callable[[str], Path]) -> None:
    """Killed while its second history is told: what the first one cost is not paid again."""
    folder = with_product("langmem")
    records = [planted(number) | {"question": f"What colour has coat {number}?"} for number in range(3)]
    write_dataset(folder / "d.json", *records)
    rows = [ROW | {"value": 0.9, "by_group": {"single-session-user": 0.9}}]
    path = write(folder, benchmark="longmemeval", settings=SETTINGS, rows=rows, n=3)

    def message(body: dict[str, Any]) -> dict[str, Any]:
        return remembered(body) if body.get("tools") else {"content": answer_or_label(body)}

    with Provider(12, vector=words_vector, dimension=DIMENSION) as provider:
        provider.message = message
        done = provider.killed_and_resumed(f"{path}/one", "--dataset", "d.json", cwd=folder)
        asked = [json.dumps(one.body) for one in provider.chat_requests]
    assert sum("generous" in one for one in asked) == 3
    assert any("tools" in one.body for one in provider.chat_requests)
    assert done["verdict"]["measured"] == {"value": 0.0, "interval": done["verdict"]["measured"]["interval"], "n": 3}
    assert done["verdict"]["finding"] == "not reproduced"
    assert done["groups"]["single-session-user"]["finding"] == "not reproduced"
