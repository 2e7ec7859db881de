"""Find published figures to show beside one's own: the claims on a benchmark."""

from longmemeval.dataset import Dataset
from longmemeval.judges.protocol import JudgeIdentity
from longmemeval.llm.options import is_offline
from longmemeval.pipeline.claims.catalogue import Claim, all_claims


def published_for(dataset: Dataset, judge: JudgeIdentity | None = None) -> tuple[Claim, ...]:
    """Return the published figures on a data set's variant if it is known, else all on its benchmark.

    Only figures of answers count, not those of retrieval. Figures that a judge of this harness could have given come
    first.

    Args:
        dataset: the data set of one's own runs.
        judge: return only figures that this judge, with its metric, could have given; None: all.
    """
    claims = [claim for claim in all_claims() if claim.benchmark == dataset.benchmark and not claim.is_about_retrieval]
    if judge is not None:
        claims = [claim for claim in claims if _grades_alike(judge, claim)]
    shown = [claim for claim in claims if dataset.name in claim.catalogue] or claims
    return tuple(sorted(shown, key=lambda claim: not claim.graded_by))


def _grades_alike(judge: JudgeIdentity, claim: Claim) -> bool:
    """Return True if metric and model are the same, and the judge uses the benchmark's own prompts or is rule-based."""
    ruled = is_offline(judge.model)
    return (judge.metric, judge.model) == (claim.metric, claim.graded_by) and (judge.official or ruled)
