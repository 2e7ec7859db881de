"""Figures that papers print, to set beside one's own: the claims on a benchmark."""

from longmemeval.dataset import Dataset
from longmemeval.judges.protocol import JudgeIdentity
from longmemeval.llm.options import is_offline
from longmemeval.pipeline.claims.catalogue import Claim, all_claims


def published_for(dataset: Dataset, judge: JudgeIdentity | None = None) -> tuple[Claim, ...]:
    """Return figures of answers on a data set's variant if it is a known one, else all on its benchmark.

    Those that a judge of ours could have given come first.

    Args:
        dataset: what one's own runs are about.
        judge: only figures that this judge, with its metric, could have given. None: all.
    """
    claims = [one for one in all_claims() if one.benchmark == dataset.benchmark and not one.is_about_retrieval]
    if judge is not None:
        claims = [one for one in claims if _grades_alike(judge, one)]
    shown = [one for one in claims if dataset.name in one.catalogue] or claims
    return tuple(sorted(shown, key=lambda claim: not claim.graded_by))


def _grades_alike(judge: JudgeIdentity, claim: Claim) -> bool:
    """Return whether the metric is the same, and the model with the benchmark's own prompts or the rules."""
    ruled = is_offline(judge.model)
    return (judge.metric, judge.model) == (claim.metric, claim.graded_by) and (judge.official or ruled)
