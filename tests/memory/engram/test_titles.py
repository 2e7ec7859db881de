"""Names, titles and quotations that contain pronouns: no rule rewrites their words."""

import re
import sys
from datetime import datetime
from pathlib import Path

from longmemeval.memory.engram import Engram

PRONOUN = re.compile(r"(?<![\w'])(?:i|me|my|mine|you|your|yours|we|us|our|ours|i'm|you're|you've|she|he|it|its|they|them)(?![\w])", re.I)
TITLES = [
    line.split(" | ")
    for line in (Path(__file__).parent / "titles.txt").read_text(encoding="utf-8").splitlines()
    if not line.startswith(";")
]


def test_a_name_is_kept_word_for_word() -> None:
    wrong, whole = [], 0
    for said, name in TITLES:
        engine = Engram()
        engine.tell(said, datetime(2024, 3, 15, 10))
        texts = [f"{fact.subject}: {fact.object}" for fact in engine.facts()]
        words = [piece.strip(" ,'?!.") for piece in PRONOUN.split(name) if len(piece.strip(" ,'?!.")) > 3]
        about = [text for text in texts if any(word.casefold() in text.casefold() for word in words)]
        wrong += [(said, text) for text in about if name.casefold() not in text.casefold()]
        whole += any(name.casefold() in text.casefold() for text in texts)
    sys.stdout.write(f"{whole} of {len(TITLES)} names found\n" + "".join(f"{said}\n    {text}\n" for said, text in wrong))
    assert len(TITLES) >= 100
    assert not wrong
