"""The paired tests of a comparison: each row with the baseline, and all pairs, each adjusted within its own family."""

from collections.abc import Mapping, Sequence
from itertools import combinations

from msgspec import Struct, structs

from longmemeval.pipeline.compare.comparison import INSIDE_THE_NOISE, Discordant, Family, PairResult
from longmemeval.statistics.paired import Paired, compare_credits, holm
from longmemeval.statistics.power import ALPHA, detectable_difference

Credits = Mapping[str, float | None]


class Families(Struct, frozen=True):
    """Both families of tests."""

    against: tuple[PairResult, ...]
    """Every other row minus the baseline."""
    pairs: tuple[PairResult, ...]
    """Every row paired with every later one."""

    def of_baseline(self, family: Family) -> dict[str, PairResult]:
        """Return each other row minus the baseline, by the other's id, adjusted within the family."""
        if family == "baseline" or not self.against:
            return {pair.a: pair for pair in self.against}
        baseline = self.against[0].b
        return {pair.b: pair.turned for pair in self.pairs if pair.a == baseline}


def families_of(
    ids: Sequence[str], credits: Sequence[Sequence[Credits]], haystacks: Mapping[str, str], *, labels: bool
) -> Families:
    """Compare every row with every later one.

    Args:
        ids: the id of each row, the baseline first.
        credits: the credits by question of each row's repeats.
        haystacks: haystack by question id.
        labels: True if credits are right or wrong.
    """
    places = list(combinations(range(len(ids)), 2))
    paired = {place: compare_credits(credits[place[0]], credits[place[1]], haystacks) for place in places}
    to_first = [(_pair(ids[0], ids[b], paired[a, b], labels=labels).turned, paired[a, b]) for a, b in places if not a]
    pairs = [(_pair(ids[a], ids[b], paired[a, b], labels=labels), paired[a, b]) for a, b in places]
    return Families(_adjusted(to_first, labels=labels), _adjusted(pairs, labels=labels))


def _pair(a: str, b: str, paired: Paired, *, labels: bool) -> PairResult:
    discordant = None
    if labels and paired.mcnemar_p is not None:
        discordant = Discordant(paired.a_only, paired.b_only, paired.mcnemar_p)
    return PairResult(
        a=a,
        b=b,
        difference=paired.difference,
        interval=paired.interval,
        mcnemar=discordant,
        p=paired.p,
        test=paired.test,
        p_holm=paired.p,
        significant=False,
        verdict=INSIDE_THE_NOISE,
        units=paired.units,
        approximate=paired.approximate,
    )


def _adjusted(pairs: Sequence[tuple[PairResult, Paired]], *, labels: bool) -> tuple[PairResult, ...]:
    """Return the pairs of one family with p adjusted for their number, and what the family can detect."""
    found = []
    for (pair, paired), p_holm in zip(pairs, holm([pair.p for pair, _ in pairs]), strict=True):
        is_labels = labels and paired.mcnemar_p is not None
        detectable = detectable_difference(
            paired.n, paired.units, paired.squared, paired.design_effect, labels=is_labels, tests=len(pairs)
        )
        adjusted = structs.replace(pair, p_holm=p_holm, significant=p_holm < ALPHA, detectable=detectable)
        verdict = adjusted.verdict_on(pair.a, pair.b) if adjusted.significant else INSIDE_THE_NOISE
        found.append(structs.replace(adjusted, verdict=verdict))
    return tuple(found)
