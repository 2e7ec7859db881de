"""The judge behind a log that was graded elsewhere: its labels are taken over, how they were made cannot be checked."""

import re

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
    readable = re.sub(r"[^A-Za-z0-9._]+", "-", model)[:60].strip("-.") or "unnamed"
    return JudgeIdentity(
        id=judge_id(f"imported-{readable}", "", model, parameters),
        model=model,
        templates=IMPORTED,
        templates_sha256="",
        parameters=parameters,
        official=False,
    )
