"""Names, titles and quotations that contain pronouns: a fact that has one of their words has them word for word."""

import re
import sys
from datetime import datetime
from pathlib import Path

from longmemeval.memory.engram import Engram

TITLES = [
    line.split(" | ")
    for line in (Path(__file__).parent / "titles.txt").read_text(encoding="utf-8").splitlines()
    if not line.startswith(";")
]
FOUND = 79
"""Names of which the rules made a fact, of 108; the others yield nothing."""


def test_a_name_is_kept_word_for_word() -> None:
    wrong, whole = [], 0
    for said, name in TITLES:
        engine = Engram()
        engine.tell(said, datetime(2024, 3, 15, 10))
        texts = [fact.text for fact in engine.facts()]
        word = re.compile("|".join(rf"\b{word}\b" for word in re.findall(r"\w{4,}", name)) or re.escape(name))
        wrong += [f"{said} {text}" for text in texts if word.search(text) and name not in text]
        whole += any(name in text for text in texts)
    sys.stdout.write(f"{whole} of {len(TITLES)} names found\n")
    assert len(TITLES) >= 100
    assert wrong == []
    assert whole >= FOUND
