"""Shards: the questions of one run divided over several, and the names of such runs."""

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
    """Number from 1."""
    of: int

    def __str__(self) -> str:
        """Return the written form: `3/8`."""
        return f"{self.number}/{self.of}"

    def run_id(self, base: str) -> str:
        """Return the id of the run of this shard; a name that already has that ending stays as it is."""
        ending = f"-{self.number}of{self.of}"
        return base if base.endswith(ending) else base + ending


def shard_named(text: str) -> Shard:
    """Return the shard that `3/8` stands for.

    Raises:
        HarnessError: the text is not a shard.
    """
    found = _WRITTEN.fullmatch(text)
    shard = Shard(*map(int, found.groups())) if found else None
    if shard is None or shard.number > shard.of:
        raise HarnessError(f"'{text}' is not a shard", fix="Give its number and how many there are, such as 3/8")
    return shard


def sharded_id(base: str, shard: str) -> str:
    """Return the id of a run that answers the questions of `shard`, or all of them if that is empty."""
    return shard_named(shard).run_id(base) if shard else base


def base_of(run_id: str) -> str:
    """Return the name that the runs of all shards begin with; empty for a run that is not named as one."""
    found = _NAMED.fullmatch(run_id)
    return found[1] if found else ""


def partition(questions: Sequence[Question], of: int) -> list[list[Question]]:
    """Divide questions into shards. All questions on a haystack are in one shard: its fixture is read once.

    A haystack goes to the shard that has the fewest questions when its own first one comes. Questions appended to
    `questions`, by a larger sample for instance, move none of them.

    Args:
        questions: in the order in which they were chosen.
        of: number of shards.

    Returns:
        The questions of each shard, in that order; a shard may have none.
    """
    shards: list[list[Question]] = [[] for _ in range(of)]
    shard_of: dict[str, list[Question]] = {}
    for question in questions:
        if question.haystack_id not in shard_of:
            shard_of[question.haystack_id] = min(shards, key=len)
        shard_of[question.haystack_id].append(question)
    return shards
