"""The authors' judge of LoCoMo-Plus apart from the harness: its words, what it sends about an answer, its labels."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.benchmarks.checking import Expected, Expecting, choice
from tests.conftest import real_file

JUDGES = ("locomo-plus@openai/gpt-4o-mini", "locomo-plus-substring@openai/gpt-4o-mini")
REPLIES = (
    ('{"label": "correct", "reason": "r"}', 1.0, 1.0),
    ('{"label": "wrong", "reason": "r"}', 0.0, 0.0),
    ("incorrect", None, 1.0),
)
"""A reply, and what it counts: read strictly, and as the authors' code reads it."""


def official_texts() -> dict[str, str]:
    """The authors' texts by their names."""
    document = json.loads(real_file("../protocol/locomo_plus_judge_templates.json").read_bytes())
    return {name: template["text"] for name, template in document["templates"].items()}


def prompt_file(file: Path, texts: dict[str, str]) -> Path:
    """The authors' file of prompts, made again from their texts; never run."""
    judges = {name: text for name, text in texts.items() if "{pred}" in text}
    file.write_text(
        f"CONV_START_PROMPT = {texts['CONV_START_PROMPT']!r}\nPROMPT_TEMPLATES = {judges!r}\nraise SystemExit\n"
    )
    return file


def prompts(items: Path, texts: dict[str, str], said: Mapping[int, str]) -> dict[int, str]:
    """What the official code sends about answers, by the number of the item."""
    conversations = [one["conversation"] for one in json.loads(items.with_name("locomo10.json").read_bytes())]
    cues: list[dict[str, Any]] = json.loads(items.read_bytes())
    made = {}
    for number, answer in said.items():
        names = {side: conversations[number % 10][f"speaker_{side.lower()}"] for side in "AB"}
        lines = [line.strip() for line in cues[number]["cue_dialogue"].split("\n")]
        evidence = "\n".join(f"{names[line[0]]}\uff1a{line[2:].strip()}" for line in lines)
        filled = texts["Cognitive"].format(evidence=evidence, pred=answer)
        made[number] = texts["CONV_START_PROMPT"].format("A", "B") + filled.strip()
    return made


def expecting(items: Path, texts: dict[str, str]) -> Expecting:
    """What the official code sends about answers to the questions of a file of items."""

    def expected(said: Mapping[str, str]) -> Iterator[Expected]:
        numbered = {int(name.rpartition("_")[2].partition("/")[0]): answer for name, answer in said.items()}
        for prompt in prompts(items, texts, numbered).values():
            reply, strict, substring = REPLIES[choice(prompt, len(REPLIES))]
            yield Expected({(("user", prompt),): reply}, {"locomo-plus": strict, "locomo-plus-substring": substring})

    return expected
