"""What a server's number of seconds can mean; absurd ones are ignored, and that is said once."""

import logging
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from longmemeval.core import http
from longmemeval.core.http import current_wait, note_wait, requested_wait, retry_after_seconds


def now(**ahead: float) -> datetime:
    return datetime.now(UTC) + timedelta(**ahead)


@pytest.fixture(autouse=True)
def _nothing_said_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "_ignored", set())
    monkeypatch.setattr(http, "_waits", {})


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("6m0s", 360.0),
        ("158ms", 0.158),
        ("7h12m", 25920.0),
        ("1m26.4s", 86.4),
        ("20 seconds", 20.0),
        ("5 minutes", 300.0),
        ("12 milliseconds", 0.012),
        (" 2 ", 2.0),
        ("7, 3", 7.0),
        ("soon, 3", 3.0),
        ("inf, 3", 3.0),
        ("99999999", None),
        ("1e9", None),
        ("1e18", None),
        ("inf", None),
        ("-inf", None),
        ("Thu, 31 Dec 2099 23:59:59 GMT", None),
        ("Fri, 31 Dec 99999 23:59:59 GMT", None),
        ("2099-12-31T00:00:00Z", None),
        ("9999999999999d", None),
        ("2015-10-21T07:28:00Z", 0.0),
    ],
)
def test_numbers(value: str, seconds: float | None) -> None:
    assert retry_after_seconds(value) == (seconds if seconds is None else pytest.approx(seconds))


def test_points_in_time() -> None:
    for value in (
        str(now(seconds=90).timestamp()),
        str(int(now(seconds=90).timestamp() * 1000)),
        now(seconds=90).strftime("%Y-%m-%dT%H:%M:%SZ"),
        now(seconds=90).replace(tzinfo=None).isoformat(),
        format_datetime(now(seconds=90), usegmt=True),
    ):
        assert 87 < (retry_after_seconds(value) or 0.0) <= 90, value
    assert retry_after_seconds(str(now(hours=-1).timestamp())) == 0.0


@pytest.mark.parametrize(
    ("headers", "message", "seconds"),
    [
        ({}, "slow", None),
        ({"retry-after-ms": "158", "retry-after": "1"}, "", 0.158),
        ({"retry-after-ms": "inf", "retry-after": "1"}, "", 1.0),
        ({"retry-after": "2", "x-ratelimit-reset-requests": "6m0s"}, "try again in 7h", 2.0),
        ({"retry-after": "inf"}, "Please try again in 1.5s.", 1.5),
        ({"x-ratelimit-reset-requests": "6m0s"}, "Rate limit. Please try again in 158ms. Visit", 0.158),
        ({}, "Please retry after 20 seconds.", 20.0),
        ({}, "Please retry in 34.07s.", 34.07),
        ({}, "Please try again in 99999999s.", None),
        ({"x-ratelimit-reset-requests": "6m0s", "x-ratelimit-reset-tokens": "158ms"}, "", 360.0),
        (
            {
                **{"x-ratelimit-reset-requests": "6m0s", "x-ratelimit-remaining-requests": "9"},
                **{"x-ratelimit-reset-tokens": "158ms", "x-ratelimit-remaining-tokens": "0"},
            },
            "",
            0.158,
        ),
        ({"x-ratelimit-reset-requests": "1e9"}, "", None),
    ],
)
def test_what_a_refusal_asks_for(headers: dict[str, str], message: str, seconds: float | None) -> None:
    assert requested_wait(headers, message) == seconds


def test_times_of_exhausted_limits() -> None:
    stamp = now(seconds=30).strftime("%Y-%m-%dT%H:%M:%SZ")
    headers = {"anthropic-ratelimit-tokens-reset": stamp, "anthropic-ratelimit-tokens-remaining": "0"}
    assert 27 < (requested_wait(headers, "") or 0.0) <= 30
    headers = {"x-ratelimit-reset": str(int(now(seconds=30).timestamp() * 1000)), "x-ratelimit-remaining": "0"}
    assert 27 < (requested_wait(headers, "") or 0.0) <= 30


def test_what_is_ignored_is_said_once_and_without_secrets(caplog: pytest.LogCaptureFixture) -> None:
    for value in ("inf", "1e9", "sk-proj-0123456789abcdef0123456789"):
        assert requested_wait({"retry-after": value}, "") is None
    assert requested_wait({"x-ratelimit-reset": "Bearer sk-proj-0123456789abcdef0123456789"}, "") is None
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2
    assert "'inf'" in caplog.messages[0]
    assert "0123456789abcdef" not in caplog.text


def test_the_longest_wait_is_shown() -> None:
    assert current_wait() == ""
    note_wait("short", 1.0)
    assert current_wait() == ""
    note_wait("long", 60.0)
    note_wait("middle", 30.0)
    assert current_wait().endswith(" for long")
