"""The judge behind a log that was graded elsewhere: its labels are taken over, how they were made cannot be checked."""

from longmemeval.judges.asking import readable
from longmemeval.judges.protocol import JudgeIdentity, judge_id

IMPORTED = "taken over from a log"
_EARLIER = "imported log"
"""What an earlier version called it, with the log's hash among the parameters: every log had a judge of its own."""


def imported_identity(model: str) -> JudgeIdentity:
    """Who graded a log, by the log's own word. Which log it was, the manifest of the run says.

    Never official here, whatever model the log names: the prompts and the replies are not in it.

    Args:
        model: as the log has it in `autoeval_label.model`.
    """
    return JudgeIdentity(
        id=judge_id(f"imported-{readable(model)}", "", model, {"labels": IMPORTED}),
        model=model,
        templates=IMPORTED,
        templates_sha256="",
        parameters={"labels": IMPORTED},
        official=False,
    )


def is_imported(judge: JudgeIdentity) -> bool:
    """Whether the labels of a judge were taken over from a log."""
    return judge.templates in (IMPORTED, _EARLIER)


def bound_to_its_log(judge: JudgeIdentity) -> bool:
    """Whether an earlier version imported the labels, under a judge that no other log has."""
    return judge.templates == _EARLIER
