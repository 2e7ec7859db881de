"""What a run answered to a question, with the reasoning that its models showed, for `inspect`."""

from pathlib import Path

from msgspec import Struct

from longmemeval.errors import HarnessError, nearest
from longmemeval.results.manifest import run_folder
from longmemeval.results.run_files import RunFiles


class JudgeReply(Struct, frozen=True):
    """What a judge replied."""

    judge_id: str
    label: bool | None
    """None: not evaluated."""
    raw: str
    reasoning: str
    """Reasoning before the reply; no verdict is read in it."""
    error: str


class RunAnswer(Struct, frozen=True):
    """The answer of one run."""

    run: str
    hypothesis: str
    reasoning: str
    """Reasoning before the answer; it is not judged."""
    error: str
    judgements: tuple[JudgeReply, ...]


def run_answer(results_dir: Path, run_id: str, question_id: str) -> RunAnswer:
    """Return what a run answered to a question, and what its judges said.

    Raises:
        HarnessError: unknown run, or it has not answered the question.
    """
    files = RunFiles(run_folder(results_dir, run_id))
    answer = files.answers.get(question_id)
    if answer is None:
        fix = nearest(question_id, files.answers)
        raise HarnessError(f"Run '{run_id}' has no answer to question '{question_id}'", fix=fix)
    judged = {judge_id: files.current_judgements(judge_id).get(question_id) for judge_id in files.judge_ids}
    replies = (
        JudgeReply(judge_id, one.label, one.raw, one.reasoning, one.error) for judge_id, one in judged.items() if one
    )
    return RunAnswer(run_id, answer.hypothesis, answer.reasoning, answer.error, tuple(replies))
