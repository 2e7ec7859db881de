"""Extraction by rules over hand-written cases: what is found is right, and how much of what is there is found."""

import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import pytest

from longmemeval.memory.nodes.extraction.rules import rule_entries
from longmemeval.memory.nodes.library import shipped_nodes
from longmemeval.memory.nodes.part import proven
from longmemeval.memory.nodes.schema import Entry
from longmemeval.records import Haystack, Session, Turn
from longmemeval.storage.messages import haystack_messages

CASES = Path(__file__).with_name("cases.txt")
NODES = {"event": "temporal-event", "attribute": "attribute", "process": "life-process", "person": "relationship"}


class Case(NamedTuple):
    """What Anna says on a day, and every entry that may be found in it."""

    line: int
    text: str
    caption: str | None
    day: datetime
    expected: list[tuple[str, list[str]]]


def cases() -> Iterator[Case]:
    case: Case | None = None
    for number, line in enumerate(CASES.read_text(encoding="utf-8").splitlines(), start=1):
        if line.startswith("> "):
            if case:
                yield case
            said, day = line[2:], datetime(2024, 3, 1, 10)
            if said.startswith("@"):
                day, said = datetime.fromisoformat(f"{said[1:11]}T10:00"), said[12:]
            said, _, caption = said.partition(" [[")
            case = Case(number, said, caption.removesuffix("]]") or None, day, [])
        elif case and line and not line.startswith("#"):
            node, _, rest = line.partition(": ")
            case.expected.append((node, [piece.strip() for piece in rest.split("|")]))
    if case:
        yield case


def found(case: Case) -> list[Entry]:
    turns = (Turn("user", case.text, "Anna", case.caption), Turn("assistant", "I see.", "Ben"))
    session = Session("s", case.day, "", turns)
    messages = haystack_messages(Haystack("h", (session,)))
    kept, lost = proven(rule_entries(session, messages, shipped_nodes().nodes), messages)
    assert lost == 0, case
    return kept


def days(entry: Entry) -> str:
    named = next(iter(entry.dates.values()), None)
    if named is None:
        return ""
    return f"{named.start}" if named.start == named.end else f"{named.start}..{named.end}"


def fits(entry: Entry, node: str, wanted: list[str]) -> bool:
    """Whether an entry is the one that a line of a case describes."""
    if entry.node != NODES[node]:
        return False
    value = entry.values.get
    match node:
        case "event":
            same = wanted[0] in str(value("description"))
            return same and days(entry) == (wanted[1] if len(wanted) > 1 else "")
        case "attribute":
            return [value("entity"), value("category")] == wanted[:2] and wanted[2] in str(value("value"))
        case "process":
            return wanted[0] in str(value("name")) and [value("kind"), value("status")] == wanted[1:]
    return [value("role"), value("related") or "-", value("tone")] == wanted


class Score(NamedTuple):
    """Counts of one node over all cases."""

    right: int
    found: int
    expected: int


def scored() -> tuple[dict[str, Score], list[str]]:
    counts = {node: [0, 0, 0] for node in NODES}
    wrong: list[str] = []
    for case in cases():
        entries = found(case)
        left = list(entries)
        for node, wanted in case.expected:
            hit = next((entry for entry in left if fits(entry, node, wanted)), None)
            counts[node][2] += 1
            if hit is None:
                wrong.append(f"{case.line}: missed {node} {wanted}")
            else:
                left.remove(hit)
                counts[node][0] += 1
        for entry in entries:
            counts[next(short for short, name in NODES.items() if name == entry.node)][1] += 1
        wrong += [f"{case.line}: should not be: {entry.node} {entry.values} {days(entry)}" for entry in left]
    return {node: Score(*numbers) for node, numbers in counts.items()}, wrong


@pytest.mark.slow
def test_precision_is_at_least_nine_in_ten(capsys: pytest.CaptureFixture[str]) -> None:
    """The rules were written beside these cases: this holds what they do, it is no estimate for other texts."""
    scores, wrong = scored()
    lines = [
        f"{node}: precision {score.right / score.found:.3f} of {score.found}, "
        f"recall {score.right / score.expected:.3f} of {score.expected}"
        for node, score in scores.items()
    ]
    with capsys.disabled():
        sys.stdout.write("\n" + "\n".join(lines) + "\n")
    right, number, expected = (sum(column) for column in zip(*scores.values(), strict=True))
    assert len(list(cases())) >= 150
    assert expected >= 150
    assert right / number >= 0.9, "\n".join(wrong)
    assert all(score.right / score.found >= 0.9 for score in scores.values()), "\n".join(wrong)
    assert right / expected >= 0.8, "\n".join(wrong)


def test_an_assistant_without_a_name_and_what_is_played_are_left_out() -> None:
    said = "I bought a red bicycle last week."
    for turns in (
        (Turn("assistant", said),),
        (Turn("user", "Act as a pirate and talk to me."), Turn("user", said)),
        (Turn("user", f"Please translate this text: {said}"),),
        (Turn("user", f"Anna: {said}\nBen: Nice!\nAnna: Yes!"),),
    ):
        session = Session("s", datetime(2024, 3, 1), "", turns)
        messages = haystack_messages(Haystack("h", (session,)))
        assert rule_entries(session, messages, shipped_nodes().nodes) == []
