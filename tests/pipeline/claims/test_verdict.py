"""The verdict on a claim: known figures, a wrong claim, and too few questions."""

from pathlib import Path

import numpy as np
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
    assert verdict.text == "not reproduced: 12.0 points lower [6.9, 17.0]"
    assert figures(verdict).startswith("Claimed 84.0% on 500 questions, measured 72.0% [67.9, 75.8] on 500 questions")
    higher = verdict_on(structs.replace(claim, value=0.5), measured(360, 500))
    assert "points higher" in higher.text


def test_a_right_claim_is_consistent(claim: Claim) -> None:
    verdict = verdict_on(claim, measured(416, 500))
    assert verdict.text == "consistent: 0.8 points lower [-5.4, +3.8]"
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


def test_a_claim_is_a_sample_too_also_of_the_same_questions(claim: Claim) -> None:
    """Models answer differently each time: only a claim whose number of questions is unknown is a constant."""
    same, none = (verdict_on(structs.replace(claim, n=n), measured(416, 500)).interval for n in (500, None))
    assert same == shifted_interval(416 / 500, wilson_interval(416, 500), 0.84, wilson_interval(420, 500))
    assert none == shifted_interval(416 / 500, wilson_interval(416, 500), 0.84)


@pytest.mark.parametrize(("p", "asked", "concentration"), [(0.7, 500, None), (0.85, 108, None), (0.7, 200, 4.0)])
def test_a_true_figure_is_seldom_not_reproduced(
    claim: Claim, p: float, asked: int, concentration: float | None
) -> None:
    """Two sets of answers with the same chances of being right, on 500 questions and on `asked` of the same ones.

    Questions are equally hard, or of very different difficulty (a beta distribution). Against a constant, a true figure
    is rejected in 17% of the cases of the first row.
    """
    draws, times, rejected = np.random.default_rng(0), 1500, 0
    for _ in range(times):
        chances = draws.beta(concentration * p, concentration * (1 - p), 500) if concentration else np.full(500, p)
        claimed = int((draws.random(500) < chances).sum())
        again = int((draws.random(asked) < chances[:asked]).sum())
        true = structs.replace(claim, value=claimed / 500)
        rejected += verdict_on(true, measured(again, asked)).finding == "not reproduced"
    assert rejected / times < 0.065  # Two standard errors above 5%.


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
    claim = structs.replace(claim, n=1000)
    planted = grouped(claim, wrong=0.9, right=0.77, small=0.5, elsewhere=0.5)
    groups = {"wrong": measured(120, 200), "right": measured(590, 780), "small": measured(11, 20)}
    found = verdicts_on_groups(planted, measured(721, 1000), groups)
    assert {name: one.finding for name, one in found.items()} == {
        "wrong": "not reproduced",
        "right": "consistent",
        "small": "cannot be told",
    }
    assert (
        found["small"].needed is None
    )  # The claim itself has 20 questions, which any number here would be compared with.
    assert [one.claimed_n for one in found.values()] == [200, 780, 20]
    assert verdicts_on_groups(planted, measured(36, 50), {"right": measured(22, 28)})["right"].claimed_n == 560


def test_of_many_groups_one_that_is_off_by_chance_is_no_finding(claim: Claim) -> None:
    """Eight points off with 500 questions: enough for one group, and not for one of ten."""
    names = [f"g{number}" for number in range(10)]
    groups = {name: measured(260 if name == "g3" else 300, 500) for name in names}
    whole, asked = measured(2960, 5000), structs.replace(claim, n=5000)
    alone = verdicts_on_groups(grouped(asked, g3=0.6), whole, groups)["g3"]
    many = verdicts_on_groups(grouped(asked, **dict.fromkeys(names, 0.6)), whole, groups)["g3"]
    assert (alone.finding, many.finding) == ("not reproduced", "cannot be told")
    assert many.needed is not None
    assert alone.needed is not None
    assert many.needed > alone.needed
