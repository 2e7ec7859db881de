"""Which questions a command works on: all, the first N, a nested stratified sample, or named ones."""

from collections import defaultdict
from collections.abc import Callable, Sequence

from msgspec import Struct

from longmemeval.errors import HarnessError, nearest
from longmemeval.files import sha256_text
from longmemeval.records import Question


class Selection(Struct, frozen=True):
    """At most one of the three ways; none of them means every question."""

    limit: int | None = None
    """The first N in file order."""
    sample: int | None = None
    """N drawn by `seed`, stratified by question type; a smaller sample is inside a larger one."""
    seed: int = 0
    question_ids: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check that the ways are not mixed and the counts make sense."""
        given = [self.limit is not None, self.sample is not None, bool(self.question_ids)]
        if sum(given) > 1:
            raise HarnessError("--limit, --sample and --question-id exclude each other", fix="Give one of them")
        for name, count in (("--limit", self.limit), ("--sample", self.sample)):
            if count is not None and (type(count) is not int or count < 1):
                raise HarnessError(f"{name} must be at least 1, not {count}")


def part_of(selection: Selection | None, n: int, total: int) -> str:
    """What tables say of a part of the questions: `2 of 19 questions, chosen by id`; empty for all of them.

    Args:
        selection: None where that is not recorded, by an earlier version.
        n: questions selected.
        total: questions of the data set.
    """
    if n == total:
        return ""
    if selection is None:
        how = "how they were chosen is not recorded"
    elif selection.question_ids:
        how = "chosen by id"
    elif selection.sample is not None:
        how = f"a sample by type with seed {selection.seed}"
    else:
        how = "the first ones"
    return f"{n:,} of {total:,} questions, {how}"


def select(questions: Sequence[Question], selection: Selection, question_type: Callable[[str], str]) -> list[Question]:
    """The selected questions, in file order.

    Args:
        questions: all questions of the data set.
        selection: what to take.
        question_type: a question id to its type; called for `sample` only, and the one thing of gold that is read.

    Raises:
        HarnessError: a named question does not exist.
    """
    if selection.question_ids:
        known = {question.question_id for question in questions}
        for question_id in selection.question_ids:
            if question_id not in known:
                raise HarnessError(f"The data set has no question '{question_id}'", fix=nearest(question_id, known))
        wanted = set(selection.question_ids)
    elif selection.sample is not None:
        types = {question.question_id: question_type(question.question_id) for question in questions}
        wanted = set(stratified_order(types, selection.seed)[: selection.sample])
    else:
        return list(questions[: selection.limit])
    return [question for question in questions if question.question_id in wanted]


def stratified_order(types: dict[str, str], seed: int) -> list[str]:
    """All question ids in an order of which every prefix is a stratified sample.

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
