"""What has to be said under tables of runs."""

from longmemeval.datasets.locomo_format import OPEN_ABSTENTION
from longmemeval.embedding.registry import is_offline_fallback
from longmemeval.evaluation.judges.protocol import JudgeIdentity
from longmemeval.pipeline.scored import RunSummary

ORACLE_NOTE = "oracle reads the gold evidence: it is a ceiling, not a memory system."
OPEN_ABSTENTION_NOTE = (
    "Open abstention: adversarial questions asked without their two options. These figures and those over all "
    "five categories do not compare with published ones; `run --protocol official` offers the options."
)
FALLBACK_NOTE = (
    "Embedder: hashing, the offline fallback. For real figures prepare with --embedder "
    "fastembed:BAAI/bge-small-en-v1.5, fastembed:FOLDER or openai:text-embedding-3-small."
)


def judge_name(judge: JudgeIdentity) -> str:
    """The model, with the prompts it was given where they are not the benchmark's own, and how often it was asked."""
    own = judge.model.startswith("offline/") or judge.templates == "LongMemEval"
    votes = f", {judge.parameters['votes']} votes" if "votes" in judge.parameters else ""
    return judge.model + ("" if own else f", prompts: {judge.templates}") + votes


def footnotes(summaries: list[RunSummary]) -> list[str]:
    """What has to be said under any table of these runs."""
    notes = []
    for judge in dict.fromkeys((judge_name(s.metrics.judge), s.metrics.judge.official) for s in summaries):
        name, official = judge
        notes.append(
            f"Judge: {name}. "
            + ("Official." if official else "NOT the official judge: figures do not compare with published ones.")
        )
    if any(OPEN_ABSTENTION in summary.metrics.by_type for summary in summaries):
        notes.append(OPEN_ABSTENTION_NOTE)
    if any(summary.reads_gold for summary in summaries):
        notes.append(ORACLE_NOTE)
    if any(summary.embedder and is_offline_fallback(summary.embedder) for summary in summaries):
        notes.append(FALLBACK_NOTE)
    for summary in summaries:
        if summary.failed:
            notes.append(f"{summary.run_id}: {summary.failed} questions failed and count as wrong (not evaluated).")
        if summary.shortened:
            notes.append(f"{summary.run_id}: {summary.shortened} contexts were shortened to fit the model's window.")
    return notes
