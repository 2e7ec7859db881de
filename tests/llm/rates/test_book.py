"""Under a provider's limits: nearly all of the rate, and hardly a refusal; in simulated time."""

import random
from collections.abc import Callable

import pytest

from longmemeval.llm.rates import Rate
from tests.llm.rates.simulated import Server, SlidingWindow, TokenBucket, simulate


def small(chance: random.Random) -> tuple[int, int, int]:
    return chance.randint(200, 800), 500, chance.randint(20, 120)


def large(chance: random.Random) -> tuple[int, int, int]:
    """Up to a twentieth of a minute's tokens in one call."""
    return chance.randint(500, 2_900), 500, chance.randint(20, 120)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [SlidingWindow, TokenBucket])
@pytest.mark.parametrize(("window", "network"), [(60.0, 0.25), (2.0, 0.04)])
def test_requests_per_minute(kind: type[Server], window: float, network: float) -> None:
    servers = {"requests": kind(20 * window, window)}
    outcome = simulate(Rate(rpm=1200, window=window), servers, small, network_s=network)
    requests, _ = outcome.per_minute(60, 300)
    assert 1140 <= requests <= 1200
    assert outcome.share_refused() < 0.01


@pytest.mark.slow
@pytest.mark.parametrize("kind", [SlidingWindow, TokenBucket])
@pytest.mark.parametrize("size", [small, large])
def test_tokens_per_minute(kind: type[Server], size: Callable[[random.Random], tuple[int, int, int]]) -> None:
    outcome = simulate(Rate(tpm=60_000), {"tokens": kind(60_000)}, size)
    _, tokens = outcome.per_minute(60, 300)
    assert 57_000 <= tokens <= 60_000
    assert outcome.share_refused() < 0.01


@pytest.mark.slow
@pytest.mark.parametrize("kind", [SlidingWindow, TokenBucket])
def test_both_at_once(kind: type[Server]) -> None:
    servers = {"requests": kind(120), "tokens": kind(60_000)}
    outcome = simulate(Rate(rpm=120, tpm=60_000), servers, small)
    requests, tokens = outcome.per_minute(60, 300)
    assert requests >= 114 or tokens >= 57_000
    assert outcome.share_refused() < 0.01


@pytest.mark.slow
def test_nothing_given_but_the_providers_headers() -> None:
    outcome = simulate(Rate(), {"requests": SlidingWindow(600)}, small, headers=True)
    requests, _ = outcome.per_minute(60, 300)
    assert 570 <= requests <= 600
    assert outcome.share_refused() < 0.01


@pytest.mark.slow
@pytest.mark.parametrize("kind", [SlidingWindow, TokenBucket])
@pytest.mark.parametrize("retry_after", [True, False])
def test_a_limit_that_is_lower_than_given_is_found_out(kind: type[Server], retry_after: bool) -> None:
    outcome = simulate(Rate(rpm=700), {"requests": kind(600)}, small, minutes=10, retry_after=retry_after)
    requests, _ = outcome.per_minute(300, 600)
    assert requests >= 540
    assert outcome.share_refused() < 0.07


@pytest.mark.slow
def test_others_with_the_same_key_are_seen_in_the_headers() -> None:
    servers: dict[str, Server] = {"requests": SlidingWindow(600)}
    outcome = simulate(Rate(rpm=600), servers, small, headers=True, others_each_s=3.0)
    requests, _ = outcome.per_minute(60, 300)
    assert requests >= 380
    assert outcome.share_refused() < 0.03
