import pytest

from longmemeval.statistics.intervals import percentile, wilson_interval


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [
        (418, 500, 0.801, 0.866),
        (366, 500, 0.692, 0.769),
        # By hand, z = 1.959964: an end at 0 or 1 leaves z²/(n+z²) = 3.841459/13.841459 for the other.
        (0, 10, 0.0, 0.2775),
        (10, 10, 0.7225, 1.0),
    ],
)
def test_wilson_known_answers(successes: int, n: int, low: float, high: float) -> None:
    assert wilson_interval(successes, n) == pytest.approx((low, high), abs=5e-4)


@pytest.mark.slow
@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
@pytest.mark.parametrize("n", [1, 2, 7, 30, 419, 1986])
def test_wilson_equals_scipys(n: int, confidence: float) -> None:
    from scipy.stats import binomtest  # Takes a second, which the quick tests save.

    for successes in {0, 1, n // 3, n // 2, n - 1, n}:
        interval = binomtest(successes, n).proportion_ci(confidence_level=confidence, method="wilson")
        assert wilson_interval(successes, n, confidence) == pytest.approx((interval.low, interval.high), abs=1e-12)


def test_wilson_bounds_are_exact_at_the_ends() -> None:
    assert wilson_interval(0, 500)[0] == 0.0
    assert wilson_interval(500, 500)[1] == 1.0


def test_nothing_is_known_without_trials() -> None:
    assert wilson_interval(0, 0) == (0.0, 1.0)


def test_less_confidence_narrows_the_interval() -> None:
    low, high = wilson_interval(50, 100)
    narrow_low, narrow_high = wilson_interval(50, 100, confidence=0.8)
    assert low < narrow_low < 0.5 < narrow_high < high


@pytest.mark.parametrize(
    ("values", "q", "expected"),
    [
        ([40.0, 10.0, 20.0, 30.0], 50, 25.0),
        ([7.0], 95, 7.0),
        ([10.0, 20.0], 95, 19.5),
        ([3.0, 1.0], 0, 1.0),
        ([], 50, None),
    ],
)
def test_percentile(values: list[float], q: float, expected: float | None) -> None:
    assert percentile(values, q) == (None if expected is None else pytest.approx(expected))
