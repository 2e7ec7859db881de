"""Give the verdict on a claim that was tried: consistent, not reproduced, or too few questions to tell."""

from collections.abc import Mapping
from statistics import NormalDist
from typing import Literal

from msgspec import Struct

from longmemeval.core.text.figures import bounds, count_of, in_percent, percent, signed_bounds
from longmemeval.pipeline.claims.catalogue import Claim
from longmemeval.statistics.intervals import joint_interval, shifted_interval, wilson_interval
from longmemeval.statistics.power import ALPHA, questions_to_tell

TELLING = 0.1
"""A claim is called consistent only if a figure that is off by this much would be detected with 80% power."""
_ROUNDED = 0.00051
"""Differences up to half of the last digit of a figure in tenths of a percent."""
_Z = NormalDist().inv_cdf(0.975)

ClaimFinding = Literal["consistent", "not reproduced", "cannot be told"]


class Measured(Struct, frozen=True):
    """A measured score, as fractions between 0 and 1."""

    value: float
    interval: tuple[float, float]
    """95% CI of `value`."""
    n: int
    """Number of questions."""


class ClaimVerdict(Struct, frozen=True):
    """The comparison of the claimed figure with the measured one."""

    finding: ClaimFinding
    text: str
    """The finding in one sentence, without a full stop."""
    claimed: float
    claimed_n: int | None
    measured: Measured
    difference: float
    """Measured minus claimed value."""
    interval: tuple[float, float]
    """95% CI of `difference`."""
    needed: int | None
    """Number of questions that would tell; None: no number would."""


class Attempt(Struct, frozen=True):
    """A claim that was tried."""

    claim: str
    run: str
    verdict: ClaimVerdict
    deviations: tuple[str, ...]
    """Differences between the attempt and the source's procedure, a line each."""
    assumed: tuple[str, ...]
    """Choices that the source leaves open, and what was chosen, a line each."""
    groups: dict[str, ClaimVerdict] = {}
    """Verdicts by group of questions, if the source has figures for groups; they hold simultaneously."""
    not_measured: tuple[str, ...] = ()
    """Groups that the source has a figure for, but that have no question here."""


def verdict_on(claim: Claim, measured: Measured) -> ClaimVerdict:
    """Return the verdict.

    The interval is that of the difference of two samples: a claim with a known number of questions has a sampling error
    too (`shifted_interval`; its own interval is Wilson's, which for scores other than right and wrong is too wide, not
    too narrow, as no variable between 0 and 1 has a larger variance at a given mean). This holds for the same questions
    too: models answer them differently each time, and how far is not known; independent samples are the worst case. If
    the number is unknown, the claimed value is a constant, and a true figure is rejected too often.

    `not reproduced`: the interval leaves out zero. `cannot be told`: it does not, and the questions are too few to show
    a difference of `TELLING` with 80% power (`questions_to_tell`, from the width of the interval measured here).
    `consistent`: otherwise, and if as many questions give the same figure to a tenth of a percent.
    """
    return _verdict(claim.value or 0.0, claim.n, measured)


def verdicts_on_groups(claim: Claim, whole: Measured, groups: Mapping[str, Measured]) -> dict[str, ClaimVerdict]:
    """Return the verdict on each group that the claim gives a figure for and that was measured.

    As `verdict_on`, with intervals and needed questions that hold for all groups simultaneously (`joint_interval`). The
    claim's questions are assumed to be distributed over groups as those here are.
    """
    named = [name for name in claim.by_group if name in groups]
    return {
        name: _verdict(
            claim.by_group[name],
            round(claim.n * groups[name].n / whole.n) if claim.n else None,
            groups[name],
            together=len(named),
        )
        for name in named
    }


def _verdict(value: float, n: int | None, measured: Measured, *, together: int = 1) -> ClaimVerdict:
    own = wilson_interval(round(value * n), n) if n else None
    low, high = shifted_interval(
        measured.value,
        joint_interval(measured.value, measured.interval, together),
        value,
        joint_interval(value, own, together) if own else None,
    )
    width = (measured.interval[1] - measured.interval[0]) / 2
    error = (own[1] - own[0]) / 2 / _Z if own else 0.0
    variance = measured.n * (width / _Z) ** 2
    needed = questions_to_tell(TELLING, variance, other_error=error, alpha=ALPHA / together)
    difference = measured.value - value
    same = abs(difference) <= _ROUNDED and n == measured.n
    finding: ClaimFinding = "consistent"
    if not same and not low <= 0 <= high:
        finding = "not reproduced"
    elif not same and (needed is None or needed > measured.n):
        finding = "cannot be told"
    return ClaimVerdict(
        finding=finding,
        text=_text(finding, difference, (low, high), measured.n, needed, same=same),
        claimed=value,
        claimed_n=n,
        measured=measured,
        difference=difference,
        interval=(low, high),
        needed=needed,
    )


def figures(verdict: ClaimVerdict) -> str:
    """Return the claimed and the measured figure in one sentence."""
    on = f" on {count_of(verdict.claimed_n, 'question')}" if verdict.claimed_n else ""
    measured = verdict.measured
    return (
        f"Claimed {percent(verdict.claimed)}{on}, measured {percent(measured.value)} {bounds(measured.interval)} on "
        f"{count_of(measured.n, 'question')}; difference {signed_bounds(verdict.interval)} points."
    )


def _text(
    finding: ClaimFinding, difference: float, interval: tuple[float, float], n: int, needed: int | None, *, same: bool
) -> str:
    side = "lower" if difference < 0 else "higher"
    if finding == "not reproduced":
        ends = sorted(map(abs, interval))
        return f"not reproduced: {in_percent(abs(difference))} points {side} {bounds((ends[0], ends[1]))}"
    if finding == "cannot be told":
        enough = "no number is enough" if needed is None else f"about {needed:,} are needed"
        return f"inconclusive with {count_of(n, 'question')}; {enough}"
    if same:
        return "consistent: the same figure"
    return f"consistent: {in_percent(abs(difference))} points {side} {signed_bounds(interval)}"
