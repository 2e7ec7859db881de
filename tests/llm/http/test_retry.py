"""When and how long to wait."""

import asyncio
import time

import pytest

from longmemeval.core.http import retry_after_seconds
from longmemeval.core.secrets.redaction import redact
from longmemeval.errors import ModelError, TransientModelError
from longmemeval.llm.http.errors import call_with_retries, meaning_of


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("", None),
        ("soon", None),
        ("nan", None),
        ("0", 0.0),
        ("1.5", 1.5),
        ("120", 120.0),
        ("-3", 0.0),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
    ],
)
def test_retry_after_header(header: str | None, seconds: float | None) -> None:
    assert retry_after_seconds(header) == seconds


def test_retry_after_date_in_the_future() -> None:
    stamp = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 100))
    seconds = retry_after_seconds(stamp)
    assert seconds is not None
    assert 97 < seconds <= 100


class Flaky:
    """Raises the given errors one after the other, then returns."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.times: list[float] = []

    async def __call__(self) -> str:
        self.times.append(time.monotonic())
        if self.errors:
            raise self.errors.pop(0)
        return "done"


@pytest.mark.slow
def test_own_limit_does_not_shorten_what_the_server_asks() -> None:
    call = Flaky(TransientModelError("busy", retry_after=0.4))
    assert asyncio.run(call_with_retries(call, max_attempts=2, max_wait_s=0.01)) == ("done", 2)
    assert call.times[1] - call.times[0] >= 0.4


def test_own_waits_stay_below_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    call = Flaky(*[TransientModelError("busy") for _ in range(7)])
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    assert asyncio.run(call_with_retries(call, max_attempts=8, max_wait_s=0.03)) == ("done", 8)
    assert len(waits) == 7
    assert all(0 <= wait <= 0.03 for wait in waits)


def test_a_single_attempt_means_no_retry() -> None:
    call = Flaky(TransientModelError("busy", where="there", fix="Wait", retry_after=5.0))
    with pytest.raises(TransientModelError, match=r"busy.*there, attempts: 1.*Wait") as caught:
        asyncio.run(call_with_retries(call, max_attempts=1, max_wait_s=1.0))
    assert caught.value.retry_after == 5.0


def test_permanent_errors_are_not_repeated() -> None:
    call = Flaky(ModelError("no"))
    with pytest.raises(ModelError, match="no"):
        asyncio.run(call_with_retries(call, max_attempts=5, max_wait_s=0.01))
    assert len(call.times) == 1


def test_unknown_errors_cost_one_question_only() -> None:
    assert type(meaning_of(RuntimeError("what is this"), "openai/gpt-4o")) is ModelError


@pytest.mark.parametrize(
    "secret",
    [
        "sk-proj-abcdefghijk",
        "Bearer abc.def.ghi",
        "AIzaSyA1234567890abcdef",
        "gsk_aBcDeFgHiJkL",
        "sk-ab12**********wxyz",
        "0123456789abcdef0123456789abcdef",
    ],
)
def test_key_like_words_are_redacted(secret: str) -> None:
    assert redact(f"the key {secret} is wrong") == "the key [redacted] is wrong"


def test_secret_variables_are_redacted_whatever_they_look_like(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_PROVIDER_API_KEY", "correct horse battery")
    assert redact("you sent 'correct horse battery'") == "you sent '[redacted]'"


def test_password_in_an_address_is_redacted() -> None:
    assert redact("http://ann:secret@localhost:80/v1") == "http://[redacted]@localhost:80/v1"


@pytest.mark.parametrize("text", ["claude-3-5-sonnet-20241022 not found", "skyscrapers and taskforces", "question_id"])
def test_ordinary_words_are_not_redacted(text: str) -> None:
    assert redact(text) == text
