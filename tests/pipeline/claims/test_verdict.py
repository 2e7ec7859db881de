"""The verdict on a claim: known figures, a wrong claim, and too few questions."""

from pathlib import Path

import pytest
from msgspec import structs

from longmemeval.pipeline.claims.catalogue import Claim, claims_of
from longmemeval.pipeline.claims.verdict import Measured, figures, verdict_on, verdicts_on_groups
from longmemeval.statistics.intervals import joint_interval, shifted_interval, wilson_interval
from longmemeval.statistics.power import questions_to_tell
from tests.pipeline.claims.test_catalogue import write


@pytest.fixture
def claim(tmp_path: Path) -> Claim:
    (one,) = claims_of(write(tmp_path, n=500))
    return structs.replace(one, value=0.84)


def measured(right: int, n: int) -> Measured:
    return Measured(right / n, wilson_interval(right, n), n)


def test_the_interval_of_two_proportions_is_newcombes() -> None:
    """Method 10 of Newcombe 1998, Table II: 56/70 - 48/80 is 0.2 with 0.0524 to 0.3339."""
    low, high = shifted_interval(56 / 70, wilson_interval(56, 70), 48 / 80, wilson_interval(48, 80))
    assert (round(low, 4), round(high, 4)) == (0.0524, 0.3339)


def test_a_constant_only_shifts_the_interval() -> None:
    assert shifted_interval(0.5, (0.4, 0.6), 0.45) == pytest.approx((-0.05, 0.15))


def test_questions_that_tell() -> None:
    """A proportion of one half against a constant, 10 points, 80%: 0.25 (1.96 + 0.84)² / 0.01 = 196.2, so 197."""
    assert questions_to_tell(0.1, 0.25) == 197
    assert questions_to_tell(0.1, 0.25, other_error=0.02) == 287
    assert questions_to_tell(0.1, 0.25, other_error=0.04) is None


def test_a_wrong_claim_is_not_reproduced(claim: Claim) -> None:
    verdict = verdict_on(claim, measured(360, 500))
    assert verdict.finding == "not reproduced"
    assert verdict.text == "not reproduced: 12.0 points lower [8.2, 16.1]"
    assert figures(verdict).startswith("Claimed 84.0% on 500 questions, measured 72.0% [67.9, 75.8] on 500 questions")
    higher = verdict_on(structs.replace(claim, value=0.5), measured(360, 500))
    assert "points higher" in higher.text


def test_a_right_claim_is_consistent(claim: Claim) -> None:
    verdict = verdict_on(claim, measured(416, 500))
    assert verdict.text == "consistent: 0.8 points lower [-4.3, +2.2]"
    assert verdict_on(claim, measured(420, 500)).text == "consistent: the same figure"


def test_too_few_questions_tell_nothing(claim: Claim) -> None:
    verdict = verdict_on(claim, measured(40, 50))
    assert verdict.finding == "cannot be told"
    assert verdict.needed is not None
    assert verdict.needed > 50
    assert verdict.text == f"inconclusive with 50 questions; about {verdict.needed} are needed"
    lucky = verdict_on(claim, measured(42, 50))
    assert lucky.finding == "cannot be told"
    # So far off that even fifty are enough.
    assert verdict_on(claim, measured(20, 50)).finding == "not reproduced"


def test_a_claim_on_few_questions_cannot_be_told_by_any_number(claim: Claim) -> None:
    told = verdict_on(structs.replace(claim, n=40), measured(820, 1000)).text
    assert told == "inconclusive with 1,000 questions; no number is enough"


def test_all_questions_of_the_claim_tell_where_no_other_number_does(claim: Claim) -> None:
    """At 150 questions the claim's own error is as large as what is to be seen; the same 150 have the same luck."""
    assert verdict_on(structs.replace(claim, n=150), measured(30, 40)).needed == 150


def test_other_questions_add_the_error_of_the_claim(claim: Claim) -> None:
    """The same questions have the same luck in both; where their number differs the interval is wider."""
    same, other = (verdict_on(structs.replace(claim, n=n), measured(416, 500)).interval for n in (500, 499))
    assert other[0] < same[0]
    assert same[1] < other[1]
    assert verdict_on(structs.replace(claim, n=None), measured(416, 500)).interval == same


def grouped(claim: Claim, **figures: float) -> Claim:
    return structs.replace(claim, by_group=figures)


def test_intervals_of_several_groups_hold_together() -> None:
    """Five at 99% each: near Wilson's of that confidence, of which only the ends at 95% are known here."""
    assert joint_interval(0.6, wilson_interval(60, 100), 1) == pytest.approx(wilson_interval(60, 100))
    near = joint_interval(0.6, wilson_interval(60, 100), 5)
    assert near == pytest.approx(wilson_interval(60, 100, confidence=0.99), abs=0.005)
    assert joint_interval(0.99, (0.9, 1.0), 5)[1] == 1.0


def test_each_group_has_a_verdict_of_its_own(claim: Claim) -> None:
    """One planted wrong, one right, one too small to tell; one that nothing was measured of."""
    planted = grouped(claim, wrong=0.9, right=0.8, small=0.5, elsewhere=0.5)
    groups = {"wrong": measured(120, 200), "right": measured(220, 280), "small": measured(11, 20)}
    found = verdicts_on_groups(planted, measured(351, 500), groups)
    assert {name: one.finding for name, one in found.items()} == {
        "wrong": "not reproduced",
        "right": "consistent",
        "small": "cannot be told",
    }
    assert found["small"].needed is not None
    assert found["small"].needed > 20
    # The same questions, so that the claim has no error of its own.
    assert [one.claimed_n for one in found.values()] == [200, 280, 20]
    assert verdicts_on_groups(planted, measured(36, 50), {"right": measured(22, 28)})["right"].claimed_n == 280


def test_of_many_groups_one_that_is_off_by_chance_is_no_finding(claim: Claim) -> None:
    """Ten points off with 150 questions: enough for one group, and not for one of ten."""
    names = [f"g{number}" for number in range(10)]
    groups = {name: measured(75 if name == "g3" else 90, 150) for name in names}
    whole, asked = measured(885, 1500), structs.replace(claim, n=1500)
    alone = verdicts_on_groups(grouped(asked, g3=0.6), whole, groups)["g3"]
    many = verdicts_on_groups(grouped(asked, **dict.fromkeys(names, 0.6)), whole, groups)["g3"]
    assert (alone.finding, many.finding) == ("not reproduced", "cannot be told")
    assert many.needed is not None
    assert alone.needed is not None
    assert many.needed > alone.needed
