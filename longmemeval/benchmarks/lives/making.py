"""Make a life: dated sessions of small talk with statements among them, and questions whose answers are known.

The same seed makes the same lives on every machine. No two lives of a seed share their values.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from msgspec import Struct

from longmemeval.benchmarks.in_memory import InMemoryDataset
from longmemeval.core.files import write_atomic
from longmemeval.core.text.quantities import MONTHS, official_date
from longmemeval.core.text_files import UnreadableError, decode_json
from longmemeval.errors import DataError
from longmemeval.measures.changes import ChangingGold
from longmemeval.records import Haystack, Question, Session, Turn

VERSION = 2
"""Version, increased when the same seed would make other lives."""
UPDATE, AS_OF, PEOPLE, HOSTILE, PLAIN = "update", "as of a day", "two people", "hostile text", "in the noise"
PROBES = (UPDATE, AS_OF, PEOPLE, HOSTILE, PLAIN)
LEAST_SESSIONS = 10

_MOST_TURNS = 10
"""Maximum turns of a session with added statements: a memory that recalls the whole session has each near the top."""
_FIRST_DAY = datetime(2021, 1, 4)


class Asked(Struct, frozen=True):
    """A question about a life."""

    probe: str
    text: str
    answer: str
    current: tuple[int, int]
    """Session and turn of the statement that answers it."""
    wrong: tuple[tuple[int, int], ...] = ()
    """Session and turn of each statement that must not rank above the right one."""
    subject: str = ""
    """The subject, as a user who wants it forgotten would name it; empty: none does."""
    again: str = ""
    """A later message about that subject, which repeats no part of the statement."""


class Life(Struct, frozen=True):
    """A made-up life."""

    dates: tuple[datetime, ...]
    """Day of each session."""
    sessions: tuple[tuple[tuple[str, str], ...], ...]
    """Role and text of the turns of each session."""
    asked: tuple[Asked, ...]
    asked_on: datetime


@cache
def _words() -> dict[str, Any]:
    return msgspec.json.decode(Path(__file__).with_name("words.json").read_bytes(), type=dict[str, Any])


class _Writer:
    """Collects the turns of a life."""

    def __init__(self, random: Random, sessions: int) -> None:
        self.random = random
        # A session every few days, so that changes can be a month apart.
        step = max(1, 720 // sessions)
        self.dates = tuple(_FIRST_DAY + timedelta(days=place * step, hours=18) for place in range(sessions))
        self.turns: list[list[tuple[str, str]]] = [list(self._chat()) for _ in range(sessions)]
        self.asked: list[Asked] = []

    def _chat(self) -> Iterator[tuple[str, str]]:
        chat, pick = _words()["chat"], self.random.choice
        yield "user", f"{pick(chat['opening']).format(pick(chat['subject']))} {pick(chat['detail'])}"
        yield "assistant", pick(chat["reply"])

    def say(self, session: int, text: str) -> tuple[int, int]:
        """Add a statement of the user and a reply to a session; return the position of the statement."""
        self.turns[session] += [("user", text), ("assistant", self.random.choice(_words()["chat"]["reply"]))]
        return session, len(self.turns[session]) - 2

    def places(self, number: int) -> list[int]:
        """Return `number` different sessions in order of time, none of them full."""
        free = [place for place, turns in enumerate(self.turns) if len(turns) + 2 <= _MOST_TURNS]
        return sorted(self.random.sample(free, number))


def make_life(seed: str, sessions: int) -> Life:
    """Return a life.

    Args:
        seed: any text; another text makes another life.
        sessions: number of sessions, at least `LEAST_SESSIONS`.
    """
    writer = _Writer(Random(f"{VERSION}\0{seed}"), sessions)
    topics = list(_words()["topics"].values())
    writer.random.shuffle(topics)
    _changes(writer, topics)
    _people(writer)
    _hostile(writer)
    _plain(writer)
    return Life(
        writer.dates,
        tuple(map(tuple, writer.turns)),
        tuple(writer.asked),
        writer.dates[-1] + timedelta(days=1),
    )


def _changes(writer: _Writer, topics: Sequence[Any]) -> None:
    """Add topics whose value changes once, and the values of other people; ask for the new and the old value."""
    pick = writer.random.choice
    for topic in topics:
        before, after, other = writer.random.sample(topic["values"], 3)
        first, aside, second = writer.places(3)
        old = writer.say(first, pick(topic["said"]).format(before))
        writer.say(aside, pick(topic["aside"]).format(other))
        new = writer.say(second, pick(topic["changed"]).format(after))
        writer.asked.append(Asked(UPDATE, topic["now"], after, new, (old,)))
        if month := _month_between(writer.dates[first], writer.dates[second]):
            writer.asked.append(Asked(AS_OF, topic["then"].format(month), before, old, (new,)))


def _month_between(first: datetime, second: datetime) -> str | None:
    """Return a month that lies wholly between two days, such as `May 2021`; None if there is none."""
    month, year = first.month % 12 + 1, first.year + first.month // 12
    next_month = datetime(year + month // 12, month % 12 + 1, 1)
    return f"{MONTHS[month - 1]} {year}" if next_month <= second else None


def _people(writer: _Writer) -> None:
    words = _words()
    sample = writer.random.sample
    relations, names, jobs = sample(words["relations"], 2), sample(words["names"], 2), sample(words["jobs"], 2)
    statements = [
        writer.say(place, words["people"]["said"].format(relation=relation, name=name, job=job))
        for place, relation, name, job in zip(writer.places(2), relations, names, jobs, strict=True)
    ]
    for number in (0, 1):
        text = words["people"]["now"].format(name=names[number])
        writer.asked.append(Asked(PEOPLE, text, jobs[number], statements[number], (statements[1 - number],)))


def _hostile(writer: _Writer) -> None:
    words = _words()["hostile"]
    right, wrong = (str(number) for number in writer.random.sample(range(10_000, 99_999), 2))
    first, second = writer.places(2)
    statement = writer.say(first, words["said"].format(right))
    attack = writer.say(second, words["attack"].format(wrong))
    writer.asked.append(Asked(HOSTILE, words["now"], right, statement, (attack,)))


def _plain(writer: _Writer) -> None:
    for fact in _words()["plain"].values():
        number = str(writer.random.randrange(100, 9_999))
        place = writer.say(writer.places(1)[0], fact["said"].format(number))
        writer.asked.append(Asked(PLAIN, fact["now"], number, place, (), fact["subject"], fact["again"]))


# Made-up lives as a dataset: the file specifies the lives, which are made when it is opened.

MOST_SESSIONS = 1000


class LivesFile(Struct, frozen=True, forbid_unknown_fields=True):
    """The content of a file of lives."""

    lives_seed: int
    """Seed of the lives; another seed makes other lives."""
    lives: int
    """Number of lives of each length."""
    sessions: tuple[int, ...]
    """Lengths of the lives in sessions."""
    version: int = VERSION


def write_lives(path: Path, seed: int, lives: int, sessions: tuple[int, ...]) -> Path:
    """Write the file that specifies the lives, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, msgspec.json.encode(LivesFile(seed, lives, sessions)) + b"\n")
    return path


class LivesDataset(InMemoryDataset):
    """A `Dataset` over made-up lives.

    Each life is a haystack, `<sessions>-<number>`; the id of a question is `<haystack id>/q<index>`.

    Raises:
        DataError: the file cannot be read, or its numbers are out of range.
    """

    def __init__(self, path: Path, name: str = "") -> None:
        wanted = _read(path)
        self.lives = {
            f"{sessions}-{number}": make_life(f"{wanted.lives_seed}/{sessions}/{number}", sessions)
            for sessions in wanted.sessions
            for number in range(wanted.lives)
        }
        """The lives by haystack id."""
        super().__init__(
            "lives",
            path,
            name,
            [_haystack(haystack_id, life) for haystack_id, life in self.lives.items()],
            [pair for haystack_id, life in self.lives.items() for pair in _questions(haystack_id, life)],
        )

    def lives_of(self, sessions: int) -> dict[str, tuple[Haystack, Life]]:
        """Return the lives of one length by haystack id, each with its history."""
        long = {name: life for name, life in self.lives.items() if len(life.sessions) == sessions}
        return {name: (self.haystack(name), life) for name, life in long.items()}


def _read(path: Path) -> LivesFile:
    try:
        wanted = decode_json(path.read_bytes(), LivesFile)
    except (OSError, UnreadableError) as error:
        raise DataError(f"The file of lives cannot be read: {error}", where=str(path)) from error
    if wanted.version != VERSION:
        what = f"The lives are of version {wanted.version}, but this version {VERSION} would make other lives"
        raise DataError(what, where=str(path), fix="Run `longmemeval probe` with the same seed again")
    if wanted.lives < 1 or not wanted.sessions:
        what = f"The file describes no history: lives is {wanted.lives}, sessions is {list(wanted.sessions)}"
        raise DataError(what, where=str(path), fix="Give 1 or more of both")
    for sessions in wanted.sessions:
        if not LEAST_SESSIONS <= sessions <= MOST_SESSIONS:
            what = f"A life cannot have {sessions:,} sessions"
            raise DataError(what, where=str(path), fix=f"Give {LEAST_SESSIONS} to {MOST_SESSIONS:,}")
    return wanted


def _haystack(haystack_id: str, life: Life) -> Haystack:
    sessions = (
        Session(f"s{index}", date, official_date(date), tuple(_turn(role, text) for role, text in turns))
        for index, (date, turns) in enumerate(zip(life.dates, life.sessions, strict=True))
    )
    return Haystack(haystack_id, tuple(sessions))


def _turn(role: str, text: str) -> Turn:
    return Turn("user" if role == "user" else "assistant", text)


def _questions(haystack_id: str, life: Life) -> Iterator[tuple[Question, ChangingGold]]:
    date = life.asked_on
    for index, asked_question in enumerate(life.asked):
        question_id = f"{haystack_id}/q{index}"
        session, turn = asked_question.current
        current = f"s{session}:{turn}"
        gold = ChangingGold(
            question_id=question_id,
            question_type=asked_question.probe,
            answer=asked_question.answer,
            evidence_sessions=(f"s{session}",),
            evidence_turns=(current,),
            abstention=False,
            facets={"sessions": len(life.sessions)},
            superseded=tuple((f"s{place}:{index}", current) for place, index in asked_question.wrong),
        )
        yield Question(question_id, asked_question.text, date, official_date(date), haystack_id), gold
