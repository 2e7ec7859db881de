"""What the records that cross folders make of figures from outside."""

from typing import NamedTuple

import msgspec
import pytest

from longmemeval.records import Usage, usage_of


@pytest.mark.parametrize(
    ("prompt", "completion", "dollars"), [(-5, 3, 0.1), (5, -3, 0.1), (5, 3, -0.1), (-5, -3, None)]
)
def test_negative_usage_is_unknown_and_no_negative_dollars(prompt: int, completion: int, dollars: float | None) -> None:
    usage = Usage.of_call(prompt, completion, dollars)
    assert (usage.dollars, usage.cost_usd, usage.unpriced_calls) == (None, 0.0, 1)
    assert (usage.prompt_tokens, usage.completion_tokens) == (max(prompt, 0), max(completion, 0))
    assert Usage.of_call(5, 3, 0.1).dollars == 0.1


class Paid(NamedTuple):
    usage: Usage


def test_calls_counted_here_are_added_up_and_absent_if_there_are_none() -> None:
    counted, own = Usage(calls=1, prompt_tokens=8), Usage(calls=1, prompt_tokens=4, estimated_calls=1)
    whole = counted + own + own
    assert whole == usage_of([Paid(counted), Paid(own), Paid(own)]) == Usage(3, 0, 16, estimated_calls=2)
    assert whole - own - own == counted
    assert whole.share(1, 2).estimated_calls == 1
    assert own.from_cache().estimated_calls == 1
    assert usage_of([]) == counted - counted == counted.share(0, 1) == Usage()
    assert msgspec.json.decode(msgspec.json.encode(whole), type=Usage) == whole
    assert b"estimated" not in msgspec.json.encode(counted + counted)
