"""Group a run's lost questions by cause, each group with an example and something to try."""

from collections.abc import Sequence

from longmemeval.measures.losses import cause_of
from longmemeval.pipeline.compare.comparison import Digest, LostGroup
from longmemeval.results.graded.graded_run import Evaluation
from longmemeval.results.graded.losses import Losses

_LIMITS = ("budget", "top_k", "limit", "last_messages")
"""Memory parameters that let more of the history through; the first that is set is suggested."""
SUGGESTED_FACTOR = 2
"""The factor by which a suggested limit is larger."""


def digest_of(run: Evaluation, lost: Losses, others: Sequence[Evaluation]) -> Digest:
    """Return the causes for which a run lost questions, the most frequent first.

    Args:
        lost: the stage at which each question was lost.
        others: the other runs; a question that one of them answers correctly without the gold evidence is preferred as
            an example.
    """
    rivals = [other.credits for other in others if not other.summary.reads_gold]
    groups = []
    for stage, count in sorted(lost.counts.items(), key=lambda counted: -counted[1]):
        ids = [question_id for question_id, lost_at in lost.stages.items() if lost_at == stage]
        won = [question_id for question_id in ids if any((credits[question_id] or 0) == 1 for credits in rivals)]
        groups.append(
            LostGroup(cause_of(stage), count, len(won), (won or ids)[0], _to_try(stage, run)),
        )
    return Digest(run.manifest.run_id, sum(lost.counts.values()), len(lost.stages), tuple(groups))


def _to_try(stage: str, run: Evaluation) -> str:
    """Return the option to try next; empty if none would help."""
    settings = run.manifest.settings
    memory = settings.memory
    parameters = memory.parameters if memory else {}
    limit = next((name for name in _LIMITS if isinstance(parameters.get(name), int) and parameters[name] > 0), None)
    larger = f"--set {limit}={parameters[limit] * SUGGESTED_FACTOR}" if limit else ""
    if stage == "not retrieved":
        return larger or "another --memory"
    if stage == "retrieved but cut":
        return (
            f"--set budget={parameters['budget'] * SUGGESTED_FACTOR}"
            if parameters.get("budget")
            else "--context-window"
        )
    if stage == "not stored":
        return "prepare again; `longmemeval verify` names what failed"
    if stage == "not answered":
        return f"--resume {run.manifest.run_id}"
    if stage == "disputed":
        return "evaluate with --votes 3"
    if stage == "in the prompt":
        method = settings.reading.method if settings.reading else ""
        return "another --model" + ("" if method in ("con", "") else ", or --reading con")
    return ""
