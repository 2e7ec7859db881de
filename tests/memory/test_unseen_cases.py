"""Extraction by rules on sentences that were written after the rules: what they read of texts nobody wrote them for."""

import sys
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from longmemeval.memory.engram.parameters import normalised
from longmemeval.memory.engram.records import Claim
from longmemeval.memory.nodes.schema import Entry
from tests.memory.engram import cases as engram
from tests.memory.nodes import test_extraction as nodes

CASES = Path(__file__).with_name("unseen_cases.txt")
Wanted = tuple[str, bool]
"""The line of a case, and whether it has to be found."""


class Unseen(NamedTuple):
    """What Anna says on a day, and what may be found in it."""

    said: str
    asked: str
    day: datetime
    claims: list[Wanted]
    entries: list[Wanted]


def unseen() -> list[Unseen]:
    read: list[Unseen] = []
    asked = ""
    for line in CASES.read_text(encoding="utf-8").splitlines():
        sign, _, rest = line.partition(" ")
        if sign == "?":
            asked = rest
        elif sign == ">":
            day = rest[1:11] if rest.startswith("@") else "2024-03-15"
            said = rest[12:] if rest.startswith("@") else rest
            read.append(Unseen(said, asked, datetime.fromisoformat(f"{day}T10:00"), [], []))
            asked = ""
        elif line and sign != "#":
            wanted = rest if sign == "~" else line
            kept = read[-1].claims if wanted.startswith("= ") else read[-1].entries
            kept.append((wanted.removeprefix("= "), sign != "~"))
    return read


def claims_of(case: Unseen) -> list[Claim]:
    return engram.extracted(engram.Case(case.said, case.asked, "Anna", ()), case.day)


def is_claim(claim: Claim, line: str) -> bool:
    wanted = engram.expected(line, "Anna")
    same = (claim.kind, claim.subject, claim.predicate) == wanted[:3]
    return same and wanted.object in normalised(claim.object) and wanted.date in (None, f"{claim.valid_at:%Y-%m-%d}")


def entries_of(case: Unseen) -> list[Entry]:
    return [] if case.asked else nodes.found(nodes.Case(0, case.said, None, case.day, []))


def is_entry(entry: Entry, line: str) -> bool:
    node, _, rest = line.partition(": ")
    wanted = [piece.strip() for piece in rest.split("|")]
    if node == "event" and len(wanted) == 1:
        return entry.node == nodes.NODES[node] and wanted[0] in str(entry.values.get("description"))
    return nodes.fits(entry, node, wanted)


class Score(NamedTuple):
    """Counts over all cases."""

    right: int
    found: int
    met: int
    wanted: int

    def __str__(self) -> str:
        return (
            f"precision {self.right / self.found:.2f} ({self.right} of {self.found}), "
            f"recall {self.met / self.wanted:.2f} ({self.met} of {self.wanted})"
        )


def scored(engine: bool) -> Score:
    right = found = met = wanted = 0
    for case in unseen():
        lines = case.claims if engine else case.entries
        if engine:
            table = {repr(one): [is_claim(one, line) for line, _ in lines] for one in claims_of(case)}
        else:
            table = {repr(one): [is_entry(one, line) for line, _ in lines] for one in entries_of(case)}
        for made, fits in table.items():
            is_right = any(fit and must for fit, (_, must) in zip(fits, lines, strict=True))
            right += is_right
            found += is_right or not any(fits)
            if not any(fits):
                sys.stdout.write(f"{case.said!r}: wrong: {made}\n")
        for place, (line, must) in enumerate(lines):
            hit = any(fits[place] for fits in table.values())
            wanted += must
            met += must and hit
            if must and not hit:
                sys.stdout.write(f"{case.said!r}: missed: {line}\n")
    return Score(right, found, met, wanted)


def test_the_rules_of_the_engine_on_unseen_cases() -> None:
    score = scored(engine=True)
    sys.stdout.write(f"{len(unseen())} cases, engine: {score}\n")
    assert score.right / score.found >= 0.9


def test_the_rules_of_the_nodes_on_unseen_cases() -> None:
    score = scored(engine=False)
    sys.stdout.write(f"{len(unseen())} cases, nodes: {score}\n")
    assert score.right / score.found >= 0.9
