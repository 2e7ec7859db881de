"""The judge behind a log that was graded elsewhere: its labels are taken over, how they were made cannot be checked."""

from longmemeval.evaluation.judges.asking import readable
from longmemeval.evaluation.judges.protocol import JudgeIdentity, judge_id

IMPORTED = "imported log"


def imported_identity(model: str, log_sha256: str) -> JudgeIdentity:
    """Who graded a log.

    Never official here, whatever model the log names: the prompts and the replies are not in it.

    Args:
        model: as the log has it in `autoeval_label.model`.
        log_sha256: hash of the file's bytes.
    """
    parameters = {"log_sha256": log_sha256}
    return JudgeIdentity(
        id=judge_id(f"imported-{readable(model)}", "", model, parameters),
        model=model,
        templates=IMPORTED,
        templates_sha256="",
        parameters=parameters,
        official=False,
    )
