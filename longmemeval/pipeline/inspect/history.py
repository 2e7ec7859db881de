"""Find one haystack of a data set by its own id or by that of a question."""

from longmemeval.dataset import Dataset
from longmemeval.errors import HarnessError, nearest
from longmemeval.records import Haystack, Question


def questions_on(dataset: Dataset, identifier: str) -> list[Question]:
    """Return the question of that id, or all questions on the haystack of that id.

    Raises:
        HarnessError: the data set has no such question or haystack.
    """
    questions = list(dataset.questions())
    matching = [question for question in questions if identifier in (question.question_id, question.haystack_id)]
    if not matching:
        known = {name for question in questions for name in (question.question_id, question.haystack_id)}
        raise HarnessError(
            f"Data set '{dataset.name}' has no question or haystack '{identifier}'", fix=nearest(identifier, known)
        )
    return matching


def haystack_named(dataset: Dataset, identifier: str) -> Haystack:
    """Return the haystack of that id, or that of the question of that id.

    Raises:
        HarnessError: as for `questions_on`.
    """
    return dataset.haystack(questions_on(dataset, identifier)[0].haystack_id)
