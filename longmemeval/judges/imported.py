"""The judge of a log that was graded elsewhere: its labels are imported, and how they arose cannot be checked."""

from longmemeval.judges.asking import readable
from longmemeval.judges.protocol import JudgeIdentity, judge_id

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
