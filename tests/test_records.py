"""What the records that cross folders make of figures from outside."""

import pytest

from longmemeval.records import Usage


@pytest.mark.parametrize(
    ("prompt", "completion", "dollars"), [(-5, 3, 0.1), (5, -3, 0.1), (5, 3, -0.1), (-5, -3, None)]
)
def test_negative_usage_is_unknown_and_no_negative_dollars(prompt: int, completion: int, dollars: float | None) -> None:
    usage = Usage.of_call(prompt, completion, dollars)
    assert (usage.dollars, usage.cost_usd, usage.unpriced_calls) == (None, 0.0, 1)
    assert (usage.prompt_tokens, usage.completion_tokens) == (max(prompt, 0), max(completion, 0))
    assert Usage.of_call(5, 3, 0.1).dollars == 0.1
