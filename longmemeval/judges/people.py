"""People as judges: their labels are stored like any judge's, in a separate file for each name."""

from longmemeval.errors import HarnessError
from longmemeval.judges.asking import readable
from longmemeval.judges.protocol import JudgeIdentity, judge_id

PERSON = "given by a person"
PREFIX = "person-"
"""Prefix of the ids of these judges, and of no others."""
_LONGEST_NAME = 60


def person_identity(name: str, *, blind: bool) -> JudgeIdentity:
    """Return the identity of a person who labels answers.

    Args:
        name: the person's name as typed.
        blind: True if systems and judges were hidden. The two kinds of labels never share a file, since people who have
            seen what a judge decided label differently.

    Raises:
        HarnessError: the name has no letter or digit, or is too long.
    """
    name = " ".join(name.split())
    if not any(map(str.isalnum, name)):
        raise HarnessError("Labels are stored under a name, but none was given", fix="Type your name or initials")
    if len(name) > _LONGEST_NAME:
        raise HarnessError(f"The name is longer than {_LONGEST_NAME} letters", fix="Shorten it")
    parameters = {"labels": PERSON, "blind": blind}
    model = f"person/{name}"
    readable_name = f"{PREFIX}{readable(name)}" + ("-blind" if blind else "")
    return JudgeIdentity(
        id=judge_id(readable_name, "", model, parameters),
        model=model,
        templates=PERSON,
        templates_sha256="",
        parameters=parameters,
        official=False,
    )


def is_person(judge: JudgeIdentity) -> bool:
    """Return whether the labels of a judge are a person's."""
    return judge.templates == PERSON


# The judge of a log that was graded elsewhere: its labels are imported, and how they arose cannot be checked.

IMPORTED = "taken over from a log"


def imported_identity(model: str, *, harness: str = "", metric: str = "accuracy") -> JudgeIdentity:
    """Return the identity of the judge that a log names. The run's manifest records which log it was.

    Never official here, whatever model the log names: prompts and replies are not in the log. Two harnesses that name
    the same model use different prompts, and are two judges.

    Args:
        model: model in the log's `autoeval_label.model`.
        harness: the harness that graded; empty: the official script.
        metric: the name of the mean.
    """
    parameters = {"labels": IMPORTED} | ({"harness": harness} if harness else {})
    named = "-".join(filter(None, ("imported", harness, readable(model))))
    return JudgeIdentity(
        id=judge_id(named, "", model, parameters),
        model=model,
        templates=IMPORTED,
        templates_sha256="",
        parameters=parameters,
        official=False,
        metric=metric,
    )


def is_imported(judge: JudgeIdentity) -> bool:
    """Return whether the labels of a judge were imported from a log."""
    return judge.templates == IMPORTED
