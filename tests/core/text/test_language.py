"""Texts that are recognisably not English."""

import json

import pytest

from longmemeval.core.text.words import is_foreign
from tests.support import ROOT


@pytest.mark.parametrize(
    ("text", "foreign"),
    [
        ("Wie viel zahle ich für eine Stunde?", True),
        ("Du zahlst 38 £ pro Stunde.", True),
        ("¿Cuánto pago por la clase?", True),
        ("Tu paies 38 € et tu y vas avec Ana.", True),
        ("Hoeveel betaal ik voor een les?", True),
        ("チェロのレッスンは3800円です。", True),
        ("每周三天", True),
        ("Сколько я плачу?", True),
        ("You pay £38 for a lesson.", False),
        ("For 休, to rest, imagine a tired hiker.", False),
        ("You watched La La Land and Das Boot in Los Angeles.", False),
        ("Oslo", False),
        ("38", False),
        ("", False),
    ],
)
def test_languages(text: str, foreign: bool) -> None:
    assert is_foreign(text) is foreign


def test_the_sample_is_english() -> None:
    records = json.loads((ROOT / "data" / "sample" / "sample.json").read_bytes())
    assert not [text for one in records for text in (one["question"], str(one["answer"])) if is_foreign(text)]
