"""The hand-written cases of the rule extractor, from `extraction_cases.txt`."""

import re
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from longmemeval.memory.engram.extraction.rules import RuleExtractor
from longmemeval.memory.engram.parameters import normalised
from longmemeval.memory.engram.records import Claim, Episode
from longmemeval.memory.engram.timeline import Ledger

SAID = datetime(2024, 3, 15, 10, 0)
_CLAIM = re.compile(
    r"(?:(?P<kind>end|retract) )?(?:(?P<subject>[\w' ]+): )?(?P<predicate>[\w:]+(?: [\w ]+?)?) = ?"
    r"(?P<object>.*?)(?: from (?P<date>\d{4}-\d\d-\d\d))?$"
)


class Expected(NamedTuple):
    kind: str
    subject: str
    predicate: str
    object: str
    date: str | None


class Case(NamedTuple):
    said: str
    asked: str
    speaker: str
    expected: tuple[Expected, ...]


def read_cases() -> list[Case]:
    cases: list[Case] = []
    asked = speaker = ""
    for line in (Path(__file__).parent / "extraction_cases.txt").read_text().splitlines():
        sign, _, rest = line.partition(" ")
        if sign == "?":
            asked = rest
        elif sign == "@":
            speaker = rest
        elif sign == ">":
            cases.append(Case(rest, asked, speaker, ()))
            asked = speaker = ""
        elif sign == "=":
            cases[-1] = cases[-1]._replace(expected=(*cases[-1].expected, expected(rest, cases[-1].speaker)))
    return cases


def expected(text: str, speaker: str) -> Expected:
    found = _CLAIM.fullmatch(text)
    assert found, text
    kind, subject, value = found["kind"] or "assert", found["subject"] or speaker or "user", normalised(found["object"])
    return Expected(kind, subject, found["predicate"], value, found["date"])


def extracted(case: Case, day: datetime = SAID) -> list[Claim]:
    before = Episode("s:0", "s", "assistant", "", case.asked, day, day) if case.asked else None
    episode = Episode("s:1", "s", "user", case.speaker, case.said, day, day)
    return RuleExtractor()(episode, before, Ledger())


def meets(claim: Claim, wanted: Expected) -> bool:
    same = (claim.kind, claim.subject, claim.predicate, normalised(claim.object)) == wanted[:4]
    return same and wanted.date in (None, f"{claim.valid_at:%Y-%m-%d}")
