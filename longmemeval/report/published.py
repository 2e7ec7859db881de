"""Figures that papers print, to set beside one's own: the claims on a benchmark, without what is needed to try them."""

from collections.abc import Iterable

from msgspec import Struct

from longmemeval.dataset import Dataset
from longmemeval.judges.protocol import JudgeIdentity
from longmemeval.pipeline.claims.catalogue import Claim, all_claims


class PublishedFigure(Struct, frozen=True):
    """One system's figure as it was published; fractions between 0 and 1."""

    dataset: str
    """The benchmark."""
    variant: str
    """Which release, part or size of the data."""
    system: str
    value: float | None
    """None where only parts were published."""
    metric: str
    n: int | None
    """Questions; None where it is not given."""
    judge: str
    reader: str
    """The answering model; empty where it is not given or there is none."""
    source: str
    by_group: dict[str, float]
    """By category or context size, under their true names."""
    note: str


def published_for(dataset: Dataset, judge: JudgeIdentity | None = None) -> tuple[PublishedFigure, ...]:
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
    return _figures(sorted(shown, key=lambda claim: not claim.graded_by))


def load_published() -> tuple[PublishedFigure, ...]:
    """Return the figures of all claims."""
    return _figures(all_claims())


def _grades_alike(judge: JudgeIdentity, claim: Claim) -> bool:
    """Return whether the metric is the same, and the model with the benchmark's own prompts or the rules."""
    ruled = judge.model.startswith("offline/")
    return (judge.metric, judge.model) == (claim.metric, claim.graded_by) and (judge.official or ruled)


def _figures(claims: Iterable[Claim]) -> tuple[PublishedFigure, ...]:
    return tuple(
        PublishedFigure(
            dataset=one.benchmark,
            variant=one.variant,
            system=one.system,
            value=one.value,
            metric=one.metric,
            n=one.n,
            judge=one.judge,
            reader=one.reader,
            source=one.source.cited,
            by_group=one.by_group,
            note=one.note,
        )
        for one in claims
    )
