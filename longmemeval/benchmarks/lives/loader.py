"""Made-up lives as a data set: the file specifies the lives, which are made when it is opened."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from longmemeval.benchmarks.in_memory import InMemoryDataset
from longmemeval.benchmarks.lives.making import LEAST_SESSIONS, VERSION, Life, make_life
from longmemeval.core.files import write_atomic
from longmemeval.core.text.quantities import official_date
from longmemeval.errors import DataError
from longmemeval.measures.changes import ChangingGold
from longmemeval.records import Haystack, Question, Session, Turn

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
        wanted = msgspec.json.decode(path.read_bytes(), type=LivesFile)
    except (OSError, msgspec.DecodeError) as error:
        raise DataError(f"The file of lives cannot be read: {error}", where=str(path)) from error
    if wanted.version != VERSION:
        what = f"The lives are of version {wanted.version}, but this version {VERSION} would make other lives"
        raise DataError(what, where=str(path), fix="Run `longmemeval probe` with the same seed again")
    if wanted.lives < 1 or not wanted.sessions:
        raise DataError("There is no life to make", where=str(path), fix="Give 1 or more lives")
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
