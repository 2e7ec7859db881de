"""The log of observations: its records, its file, and reading it from the replies of a chat model."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from itertools import groupby

import msgspec
from msgspec import Struct

from longmemeval.llm.json_reply import one_line
from longmemeval.storage.part_files import FORMAT, decode_versioned


class Observation(Struct, frozen=True, omit_defaults=True):
    """One line of the log, with the lines of its parts."""

    day: date
    """The day on which it was said."""
    text: str
    """Mark, time and text; parts follow on lines of their own."""
    message_ids: tuple[str, ...]
    """The messages that it rests on; of a condensed one, those of all that it was made from."""
    thread_ids: tuple[str, ...]
    condensed: bool = False


class ObservationLog(Struct, frozen=True):
    """The file of the part."""

    observations: tuple[Observation, ...]
    unobserved: tuple[str, ...]
    """Ids of the messages that no observation covers yet, oldest first: they are shown as they are."""
    forgotten: tuple[str, ...] = ()
    """Ids of the messages of which a condensation has dropped the last observation."""
    format: int = FORMAT


def encode_log(log: ObservationLog) -> bytes:
    """Return the bytes of the file."""
    return msgspec.json.format(msgspec.json.encode(log), indent=2) + b"\n"


def decode_log(data: bytes, where: str) -> ObservationLog:
    """Return the log in a file.

    Raises:
        FixtureError: it is damaged.
    """
    return decode_versioned(data, ObservationLog, where)


def shown_log(observations: Iterable[Observation], number: Callable[[int], str] = lambda place: "") -> str:
    """Return the log as text, grouped by day.

    Args:
        number: returns what stands behind the first line of the observation at a place.
    """
    blocks = []
    for day, group in groupby(enumerate(observations), key=lambda pair: pair[1].day):
        lines = [_shown_line(one, number(place)) for place, one in group]
        blocks.append("\n".join([f"# {day}", *lines]))
    return "\n\n".join(blocks)


def _shown_line(observation: Observation, number: str) -> str:
    first, *parts = observation.text.split("\n")
    return "\n".join([f"- {first}{number and f' {{{number}}}'}", *(f"  - {part}" for part in parts)])


# Replies.

_TAGGED = re.compile(r"<observations>(.*?)(?:</observations>|\Z)", re.DOTALL)
_DAY = re.compile(r"\W*(?:date:?\s*)?(\d{4}-\d\d-\d\d)\W*\Z", re.IGNORECASE)
_LINE = re.compile(r"(\s*)(?:[-*•]|\d+[.)])\s+(.*\S)\s*\Z")
_SOURCES = re.compile(r"\s*\{\s*((?:[A-Z]*\d+[\s,;]*)+)\}\s*\Z")
_MOST_REPEATS = 3
_LONG = 20
"""Characters from which a line that occurs more than `_MOST_REPEATS` times shows that the model repeats itself."""


class UnusableReply(ValueError):
    """A reply that holds no observations; the message says why, for one repair."""


class ReadLine(Struct):
    """One observation in a reply."""

    day: date | None
    text: str
    sources: tuple[str, ...]


def read_observations(reply: str, *, is_cut: bool = False) -> list[ReadLine]:
    """Return the observations of a reply.

    Without tags, its list lines are taken. Everything that is neither a list line nor the heading of a day is left out,
    and so is the last line of a reply that was cut.

    Args:
        reply: the text.
        is_cut: True if it ended at its limit of tokens.

    Raises:
        UnusableReply: the model repeats itself, or there is neither a tag nor a list line.
    """
    tagged = _TAGGED.search(reply)
    lines = (tagged[1] if tagged else reply).splitlines()
    if is_cut:
        lines = lines[:-1]
    counts = Counter(line.strip() for line in lines if len(line.strip()) >= _LONG)
    if counts and max(counts.values()) > _MOST_REPEATS:
        raise UnusableReply("it repeats itself")
    found, day = list[ReadLine](), None
    for line in lines:
        if heading := _DAY.match(line):
            day = _day(heading[1])
        elif match := _LINE.match(line):
            text, sources = _with_sources(match[2])
            if match[1] and found:
                found[-1].text += f"\n{one_line(text)}"
                found[-1].sources += sources
            else:
                found.append(ReadLine(day, one_line(text), sources))
    if not found and not tagged:
        raise UnusableReply("it has no observations")
    return [line for line in found if line.text]


def _with_sources(text: str) -> tuple[str, tuple[str, ...]]:
    match = _SOURCES.search(text)
    return (text[: match.start()], tuple(re.findall(r"[A-Z]*\d+", match[1]))) if match else (text, ())


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def union(parts: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """Return all ids, each once, in order."""
    return tuple(dict.fromkeys(one for part in parts for one in part))
