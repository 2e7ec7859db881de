"""Set the figures that makers publish for their products beside those that others measured."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from statistics import median

from msgspec import Struct

from longmemeval.benchmarks.catalogue import BENCHMARK_SPECS
from longmemeval.core.text.figures import percent, points
from longmemeval.judges.audit import NamedAudit, named_audits
from longmemeval.pipeline.claims.catalogue import Claim
from longmemeval.statistics.intervals import wilson_interval

_UNLIKE = 0.0015
"""Figures of groups that differ from the overall one by more than this, and not by rounding, do not give it."""


class FieldFigure(Struct, frozen=True):
    """A published figure of a product."""

    claim: Claim
    interval: tuple[float, float] | None
    """95% CI of the value (Wilson), a fraction; None if the number of questions or the value is not given."""
    warnings: tuple[str, ...]


class FieldProduct(Struct, frozen=True):
    """The figures of one product on one dataset, the maker's first, then by value from the highest."""

    dataset: str
    """Name in the catalogue; that of the benchmark if it is in no catalogue."""
    metric: str
    """The usual metric of the figures on this dataset."""
    product: str
    figures: tuple[FieldFigure, ...]

    @property
    def gap(self) -> float | None:
        """The maker's highest figure minus the highest of others with one metric, the usual one first; else None."""
        for metric in (self.metric, *(figure.claim.metric for figure in self.figures)):
            maker, others = self._highest("maker", metric), self._highest("others", metric)
            if maker is not None and others is not None:
                return maker - others
        return None

    def _highest(self, by: str, metric: str) -> float | None:
        claims = [figure.claim for figure in self.figures if (figure.claim.by, figure.claim.metric) == (by, metric)]
        return max((claim.value for claim in claims if claim.value is not None), default=None)


def field(claims: Iterable[Claim]) -> tuple[FieldProduct, ...]:
    """Return the figures of products by dataset: datasets with most figures first, products with both kinds first.

    Of a maker's equal figures on a dataset, the one of which most is known is kept.
    """
    by_dataset: dict[str, list[Claim]] = defaultdict(list)
    for claim in claims:
        if claim.product:
            by_dataset[claim.catalogue[0] if claim.catalogue else claim.benchmark].append(claim)
    found: list[FieldProduct] = []
    for dataset, figures in sorted(by_dataset.items(), key=lambda item: -len(item[1])):
        valued = [claim for claim in figures if claim.value is not None] or figures
        metric = Counter(claim.metric for claim in valued).most_common(1)[0][0]
        products: dict[str, list[Claim]] = defaultdict(list)
        for claim in figures:
            products[claim.product].append(claim)
        made = [
            FieldProduct(dataset, metric, product, tuple(_figures(_without_doubles(own), metric)))
            for product, own in products.items()
        ]
        found += sorted(made, key=lambda one: (one.gap is None, -(one.figures[0].claim.value or 0.0), one.product))
    return tuple(found)


def lower_ceilings(claim: Claim) -> list[NamedAudit]:
    """Return the audits of the labels by which a perfect memory cannot reach the claimed figure."""
    # Measures of retrieval, `recall@5`, grade no answer.
    if claim.value is None or "@" in claim.metric or claim.benchmark not in BENCHMARK_SPECS:
        return []
    audits = named_audits(BENCHMARK_SPECS.get(claim.benchmark).audits).values()
    return [audit for audit in audits if claim.n in (None, audit.questions) and claim.value > audit.ceiling]


def field_summary(products: Sequence[FieldProduct]) -> str:
    """Return in a sentence how far the makers' figures are from those of others."""
    gaps = [product.gap for product in products if product.gap is not None]
    if not gaps:
        return "No product has a figure of its maker and one of others, with the same metric."
    higher = sum(gap > 0 for gap in gaps)
    return (
        f"For {higher} of {len(gaps)} products and datasets with both, the maker's best figure is above the others'; "
        f"median difference {points(median(gaps))}. Readers and judges differ."
    )


def _may_be_same(judge: str, other: str) -> bool:
    """Return True if both texts begin with the same model and do not say different things of its prompts."""
    (model, _, prompts), (same, _, others) = judge.partition(" "), other.partition(" ")
    return model.rstrip(",") == same.rstrip(",") and (not prompts or not others or prompts == others)


def _without_doubles(claims: Sequence[Claim]) -> list[Claim]:
    def known(claim: Claim) -> int:
        return sum(map(bool, (claim.n, claim.reader, claim.told_judge, claim.context_tokens)))

    best: dict[object, Claim] = {}
    for claim in claims:
        key = (claim.metric, round(claim.value, 3)) if claim.by == "maker" and claim.value is not None else claim.id
        if key not in best or known(claim) > known(best[key]):
            best[key] = claim
    return list(best.values())


def _figures(claims: Sequence[Claim], metric: str) -> Iterator[FieldFigure]:
    judges = {claim.judge for claim in claims if claim.by == "maker" and claim.told_judge}
    for claim in sorted(claims, key=lambda claim: (claim.by != "maker", -(claim.value or 0.0))):
        interval = None
        if claim.n and claim.value is not None:
            interval = wilson_interval(round(claim.value * claim.n), claim.n)
        yield FieldFigure(claim, interval, tuple(_warnings(claim, metric, judges)))


def _warnings(claim: Claim, metric: str, judges: set[str]) -> Iterator[str]:
    """Yield what keeps a figure from being compared with the others, a few words each."""
    if claim.metric != metric:
        yield f"other metric: {claim.metric}"
    if claim.by == "others" and judges and not any(_may_be_same(claim.judge, judge) for judge in judges):
        yield "other judge"
    yield from claim.cautions
    if audits := lower_ceilings(claim):
        lowest = min(audits, key=lambda audit: audit.ceiling)
        yield f"above the ceiling of {percent(lowest.ceiling)} by audit {lowest.name}"
    if claim.value is not None and claim.group_n and claim.group_n.keys() == claim.by_group.keys():
        whole = sum(claim.by_group[name] * n for name, n in claim.group_n.items()) / sum(claim.group_n.values())
        if abs(whole - claim.value) > _UNLIKE:
            yield f"its groups give {percent(whole)}"
    if claim.source.hand == "third":
        yield "third-hand"
