"""The selection of questions: all, the first N, a nested stratified sample, named ones; or a shard of them."""

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Annotated

from msgspec import Struct

from longmemeval.core.files import sha256_text
from longmemeval.core.options import WHAT, Flag
from longmemeval.errors import HarnessError, nearest
from longmemeval.records import Question

# Shards: the questions of one run divided over several, and the names of such runs.

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


class Selection(Struct, frozen=True):
    """At most one of `limit`, `sample` and `question_ids`; none of them: every question. `shard` divides the choice."""

    limit: Annotated[int | None, Flag(WHAT, "N")] = None
    """Maximum number of questions; takes the first."""
    sample: Annotated[int | None, Flag(WHAT, "N")] = None
    """Number of questions to sample, stratified by type."""
    seed: Annotated[int, Flag(metavar="N")] = 0
    """Seed of --sample; smaller samples are inside larger ones."""
    question_ids: Annotated[tuple[str, ...], Flag(metavar="ID", name="--question-id")] = ()
    """Id of a question to use; repeatable."""
    shard: Annotated[str, Flag(metavar="I/N")] = ""
    """Shard of the questions, such as 3/8; `merge` joins them.

    The shards are the parts that `partition` divides the chosen questions into; empty: all of them.
    """

    def __post_init__(self) -> None:
        """Check that the ways are not mixed and the counts make sense."""
        chosen_ways = [self.limit is not None, self.sample is not None, bool(self.question_ids)]
        if sum(chosen_ways) > 1:
            raise HarnessError("--limit, --sample and --question-id cannot be combined", fix="Use only one of them")
        for name, many in (("--limit", self.limit), ("--sample", self.sample)):
            if many is not None and (type(many) is not int or many < 1):
                raise HarnessError(f"{name} must be at least 1, not {many}")
        if self.shard:
            shard_named(self.shard)


def part_of(selection: Selection, n: int, total: int) -> str:
    """Describe a part of the questions for tables: `2 of 19 questions, chosen by id`; empty for all of them.

    Args:
        n: number of questions selected.
        total: number of questions in the dataset.
    """
    if n == total:
        return ""
    if selection.question_ids:
        how = "chosen by id"
    elif selection.sample is not None:
        how = f"a sample by type with seed {selection.seed}"
    else:
        how = "the first ones" if selection.limit is not None else ""
    shard = f"shard {selection.shard}" if selection.shard else ""
    return ", ".join([f"{n:,} of {total:,} questions", *filter(None, (how, shard))])


def select(questions: Sequence[Question], selection: Selection, question_type: Callable[[str], str]) -> list[Question]:
    """Return the selected questions, in file order.

    Args:
        questions: all questions of the dataset.
        question_type: maps a question id to its type; called for `sample` only; no other gold is read.

    Raises:
        HarnessError: a named question does not exist, or the shard has none.
    """
    chosen = _chosen(questions, selection, question_type)
    if selection.shard:
        shard = shard_named(selection.shard)
        chosen = partition(chosen, shard.of)[shard.number - 1]
        if not chosen:
            raise HarnessError(
                f"Shard {shard} has none of the selected questions",
                fix="Skip it; `longmemeval merge` does not need it",
            )
    wanted = {question.question_id for question in chosen}
    return [question for question in questions if question.question_id in wanted]


def shards_with_questions(
    questions: Sequence[Question], selection: Selection, of: int, question_type: Callable[[str], str]
) -> list[str]:
    """Return the shards, such as `3/8`, that have any of the selected questions; arguments as for `select`."""
    shards = partition(_chosen(questions, selection, question_type), of)
    return [f"{number}/{of}" for number, chosen in enumerate(shards, start=1) if chosen]


def _chosen(questions: Sequence[Question], selection: Selection, question_type: Callable[[str], str]) -> list[Question]:
    """Return the selection from the whole dataset, in the order in which larger selections continue it."""
    if selection.question_ids:
        known = {question.question_id for question in questions}
        for question_id in selection.question_ids:
            if question_id not in known:
                raise HarnessError(f"The dataset has no question '{question_id}'", fix=nearest(question_id, known))
        wanted = set(selection.question_ids)
        return [question for question in questions if question.question_id in wanted]
    if selection.sample is not None:
        types = {question.question_id: question_type(question.question_id) for question in questions}
        by_id = {question.question_id: question for question in questions}
        return [by_id[name] for name in stratified_order(types, selection.seed)[: selection.sample]]
    return list(questions[: selection.limit])


def stratified_order(types: dict[str, str], seed: int) -> list[str]:
    """Return all question ids in an order of which every prefix is a stratified sample.

    Within a type the order is by a hash of seed and id, so it depends on neither file order nor library version. The
    i-th of n questions of a type is at (i + 1/2) / n of the whole order: types keep their share in every prefix.

    Args:
        types: question id -> question type.
        seed: another seed gives another order.
    """
    groups: dict[str, list[str]] = defaultdict(list)
    for question_id in sorted(types, key=lambda name: sha256_text(f"{seed}\0{name}")):
        groups[types[question_id]].append(question_id)
    places = [
        ((index + 0.5) / len(group), kind, question_id)
        for kind, group in groups.items()
        for index, question_id in enumerate(group)
    ]
    return [question_id for _, _, question_id in sorted(places)]
