"""People as judges: their labels are kept like any judge's, in a file of their own for each name."""

from longmemeval.errors import HarnessError
from longmemeval.judges.asking import readable
from longmemeval.judges.protocol import JudgeIdentity, judge_id

PERSON = "given by a person"
PREFIX = "person-"
"""Begins the ids of these judges, and of no others."""
_LONGEST_NAME = 60


def person_identity(name: str, *, blind: bool) -> JudgeIdentity:
    """Return the identity of a person who labels answers.

    Args:
        name: as the person gives it.
        blind: whether systems and judges were hidden. Labels given either way never share a file: who has seen what a
            judge said labels otherwise.

    Raises:
        HarnessError: the name has no letter or digit, or is too long.
    """
    name = " ".join(name.split())
    if not any(map(str.isalnum, name)):
        raise HarnessError("Labels are kept under a name, and none is given", fix="Type yours, or initials")
    if len(name) > _LONGEST_NAME:
        raise HarnessError(f"The name is longer than {_LONGEST_NAME} letters", fix="Shorten it")
    parameters = {"labels": PERSON, "blind": blind}
    model = f"person/{name}"
    called = f"{PREFIX}{readable(name)}" + ("-blind" if blind else "")
    return JudgeIdentity(
        id=judge_id(called, "", model, parameters),
        model=model,
        templates=PERSON,
        templates_sha256="",
        parameters=parameters,
        official=False,
    )


def is_person(judge: JudgeIdentity) -> bool:
    """Return whether the labels of a judge are a person's."""
    return judge.templates == PERSON
