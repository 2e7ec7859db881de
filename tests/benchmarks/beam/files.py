"""Folders of BEAM's shape for tests, and the real conversations."""

import json
from pathlib import Path
from typing import Any

from longmemeval.benchmarks.beam.format import GOLD_TEXTS

Json = dict[str, Any]


def batch(first_id: int, anchor: str | None, *texts: str) -> Json:
    """A batch of turns of two messages each; the date on its first message."""
    messages: list[Json] = [
        {"role": ("user", "assistant")[index % 2], "id": first_id + index, "content": text}
        for index, text in enumerate(texts)
    ]
    messages[0]["time_anchor"] = anchor
    return {
        "batch_number": 1,
        "turns": [messages[start : start + 2] for start in range(0, len(messages), 2)],
        "time_anchor": None,
    }


def probe(ability: str, rubric: list[str], **more: object) -> Json:
    """A question."""
    return {"question": f"What about {ability}?", GOLD_TEXTS[ability]: "So and so.", "rubric": rubric} | more


def conversation(
    home: Path, batches: list[Json], probes: dict[str, list[Json]], *, cut: object = None, plans: int = 0
) -> Path:
    """Write a folder `<size>/<n>`; with plans the batches stand in each of them."""
    write(home / "probing_questions" / "probing_questions.json", probes)
    for path in [home / f"plan-{plan}" / "chat.json" for plan in range(plans)] or [home / "chat.json"]:
        write(path, batches)
    if cut is not None:
        write(home / "chat_trunecated.json", cut)
    return home


def write(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
