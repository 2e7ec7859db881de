"""Shards: the questions of one run divided over several, and what such runs are called."""

import re
from collections.abc import Sequence

from msgspec import Struct

from longmemeval.errors import HarnessError
from longmemeval.records import Question

_WRITTEN = re.compile(r"([1-9]\d{0,4})/([1-9]\d{0,4})")
_NAMED = re.compile(r"(.+)-([1-9]\d{0,4})of([1-9]\d{0,4})")


class Shard(Struct, frozen=True, order=True):
    """One of the shards of a run."""

    number: int
    """From 1."""
    of: int

    def __str__(self) -> str:
        """As it is given and recorded: `3/8`."""
        return f"{self.number}/{self.of}"

    def run_id(self, base: str) -> str:
        """What the run of this shard is called; a name that says so already stays as it is."""
        ending = f"-{self.number}of{self.of}"
        return base if base.endswith(ending) else base + ending


def shard_named(text: str) -> Shard:
    """The shard that `3/8` stands for.

    Raises:
        HarnessError: it stands for none.
    """
    found = _WRITTEN.fullmatch(text)
    shard = Shard(*map(int, found.groups())) if found else None
    if shard is None or shard.number > shard.of:
        raise HarnessError(f"'{text}' is not a shard", fix="Give its number and how many there are, such as 3/8")
    return shard


def sharded_id(base: str, shard: str) -> str:
    """What a run is called that answers the questions of `shard`, or all of them where that is empty."""
    return shard_named(shard).run_id(base) if shard else base


def base_of(run_id: str) -> str:
    """The name that the runs of all shards begin with; empty for a run that is not called as one."""
    found = _NAMED.fullmatch(run_id)
    return found[1] if found else ""


def partition(questions: Sequence[Question], of: int) -> list[list[Question]]:
    """Divide questions into shards. All questions on a haystack are in one shard: its fixture is read once.

    A haystack goes to the shard that has the fewest questions when the first of its own comes. What is put behind
    `questions`, by a larger sample say, moves none of them.

    Args:
        questions: in the order in which they were chosen.
        of: how many shards.

    Returns:
        The questions of each shard, in that order; a shard may have none.
    """
    shards: list[list[Question]] = [[] for _ in range(of)]
    home: dict[str, list[Question]] = {}
    for question in questions:
        if question.haystack_id not in home:
            home[question.haystack_id] = min(shards, key=len)
        home[question.haystack_id].append(question)
    return shards
