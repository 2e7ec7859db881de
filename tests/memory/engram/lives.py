"""Short lives and what holds in them, from files such as `endings.txt`, and how much of it the rules know."""

import sys
from datetime import datetime, time
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from longmemeval.memory.engram import Engram
from longmemeval.memory.engram.parameters import normalised
from longmemeval.records import Session, Turn


class Check(NamedTuple):
    """What holds of a subject at the end of a day; each wanted value is a set of ways to say it, "-" is none."""

    subject: str
    predicates: tuple[str, ...]
    day: datetime
    values: tuple[frozenset[str], ...]

    def found(self, engine: Engram) -> set[str]:
        facts = [fact for one in self.predicates for fact in engine.facts(self.subject, one, as_of=self.day)]
        return {normalised(fact.object) for fact in facts}


class Life(NamedTuple):
    kind: str
    sessions: tuple[Session, ...]
    checks: tuple[Check, ...]

    def lived(self, until: int | None = None) -> Engram:
        return _lived(self.sessions[:until])


@lru_cache(maxsize=2)
def _lived(sessions: tuple[Session, ...]) -> Engram:
    engine = Engram()
    for session in sessions:
        engine.add(session)
    return engine


class Verdict(NamedTuple):
    """One check: how many values were wanted, found, and both; whether one ended with the last session, and should."""

    right: bool
    wanted: int
    found: int
    met: int
    ended: bool
    ends: bool


def lives(path: Path) -> list[Life]:
    """Read lives; a date after a check begins the next one."""
    read: list[Life] = []
    kind = ""
    for line in path.read_text(encoding="utf-8").splitlines():
        sign, _, rest = line.partition(" ")
        if sign == "#":
            kind = rest
        elif sign == "S":
            if not read or read[-1].checks:
                read.append(Life(kind, (), ()))
            date = datetime.fromisoformat(rest).replace(hour=10)
            session = Session(f"{len(read)}-{rest}", date, "", ())
            read[-1] = read[-1]._replace(sessions=(*read[-1].sessions, session))
        elif sign == ">":
            *before, last = read[-1].sessions
            said = Session(last.session_id, last.date, "", (*last.turns, Turn("user", rest)))
            read[-1] = read[-1]._replace(sessions=(*before, said))
        elif sign == "Q":
            read[-1] = read[-1]._replace(checks=(*read[-1].checks, _check(rest)))
    return read


def _check(line: str) -> Check:
    what, day, values = (part.strip() for part in line.split("|"))
    subject, colon, predicates = what.rpartition(": ")
    wanted = () if values == "-" else tuple(frozenset(value.split("/")) for value in values.split(";"))
    until = datetime.combine(datetime.fromisoformat(day), time(23, 59))
    return Check(subject if colon else "user", tuple(predicates.split("/")), until, wanted)


def verdict(life: Life, check: Check) -> Verdict:
    after = check.found(life.lived())
    fits = [[any(normalised(way) in value for way in ways) for value in after] for ways in check.values]
    met = sum(any(fit) for fit in fits)
    wanted = sum("-" not in ways for ways in check.values)
    known = sum(any(fit[place] for fit in fits) for place in range(len(after)))
    missing = any("-" not in ways and not any(fit) for ways, fit in zip(check.values, fits, strict=True))
    ended = bool(check.found(life.lived(-1)) - after)
    last = check.day > life.sessions[-1].date and len(life.sessions) > 1
    held = any(one.predicates == check.predicates and one.values not in ((), check.values) for one in life.checks)
    right = known == len(after) and not missing
    return Verdict(right, wanted, len(after), min(met, known), ended and last, held and last)


def shown(path: Path) -> dict[str, list[Verdict]]:
    """Return the verdicts of each kind; print what is wrong, and the figures."""
    kinds: dict[str, list[Verdict]] = {}
    for life in lives(path):
        for check in life.checks:
            one = verdict(life, check)
            kinds.setdefault(life.kind, []).append(one)
            if not one.right:
                said = " / ".join(turn.content for session in life.sessions for turn in session.turns)
                sys.stdout.write(
                    f"{said}\n    {'/'.join(check.predicates)} {check.day:%Y-%m-%d}: "
                    f"{sorted(check.found(life.lived()))}, wanted {[sorted(v) for v in check.values]}\n"
                )
    for kind, verdicts in [*kinds.items(), ("all", [one for told in kinds.values() for one in told])]:
        right, found = sum(one.right for one in verdicts), sum(one.found for one in verdicts)
        met, wanted = sum(one.met for one in verdicts), sum(one.wanted for one in verdicts)
        sys.stdout.write(
            f"{kind}: {right} of {len(verdicts)} right; values {met} of {found} found, {met} of {wanted} wanted\n"
        )
    return kinds


def endings(kinds: dict[str, list[Verdict]], harmless: str) -> tuple[int, int, int]:
    """Return how many endings were found that are none, how many that are, and how many there are."""
    wrong = sum(one.ended for one in kinds[harmless])
    told = [one for kind, verdicts in kinds.items() if kind != harmless for one in verdicts if one.ends]
    return wrong, sum(one.ended and one.right for one in told), len(told)
