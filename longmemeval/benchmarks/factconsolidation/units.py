"""Groups of questions that are resampled together: those of a list that are connected by shared facts.

Several questions need the same fact, such as the founder of a religion: a memory that finds it helps them all. Single
lists as units would leave four, single questions would count such a fact several times.
"""

from collections.abc import Iterable


def connected(facts_of: Iterable[tuple[str, Iterable[str]]]) -> dict[str, str]:
    """Return question id -> id of the first question it is connected with, directly or by way of others.

    Args:
        facts_of: question id and the names of its facts, unique across lists.
    """
    above: dict[str, str] = {}
    first_with: dict[str, str] = {}

    def top(question_id: str) -> str:
        while above[question_id] != question_id:
            question_id = above[question_id]
        return question_id

    for question_id, facts in facts_of:
        above[question_id] = question_id
        for fact in facts:
            ours, theirs = top(question_id), top(first_with.setdefault(fact, question_id))
            above[ours] = theirs
    return {question_id: top(question_id) for question_id in above}
