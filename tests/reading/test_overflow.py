"""A prompt that is too large: refused or shortened from one end, never more than needed and never silently."""

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longmemeval.errors import ModelError
from longmemeval.reading.options import OverflowPolicy
from longmemeval.reading.prompts import fit
from longmemeval.records import Recall, RecalledItem

DAY = datetime(2023, 5, 20)
DOCUMENT = RecalledItem("working-memory", "DOC", DAY)


def said(text: str, number: int) -> RecalledItem:
    return RecalledItem("message", text, DAY, message_ids=(f"t:{number}",), thread_ids=("t",))


def recall(*texts: str) -> Recall:
    return Recall((DOCUMENT, *(said(text, number) for number, text in enumerate(texts))), notes=("earlier note",))


def render(shown: Recall) -> str:
    """12 characters of frame, 3 of document, and each message with 2 more than its text."""
    return "Question? >>" + "".join(f"- {item.text}" if item.kind == "message" else item.text for item in shown.items)


def size(prompt: str, shown: Recall) -> int:
    return len(prompt)


def texts(shown: Recall) -> list[str]:
    return [item.text for item in shown.items if item.kind == "message"]


@pytest.mark.parametrize("policy", ["error", "drop-oldest", "drop-newest"])
def test_nothing_is_dropped_when_it_fits(policy: OverflowPolicy) -> None:
    history = recall("aaaa", "bbbb")
    exact = len(render(history))
    fitted = fit(history, render, size, exact, policy)
    assert fitted.recall == history
    assert fitted.prompt == render(history)
    assert fitted.prompt_tokens == exact == 27


@pytest.mark.parametrize("policy", ["error", "drop-oldest", "drop-newest"])
def test_unknown_limit_is_never_checked(policy: OverflowPolicy) -> None:
    assert fit(recall("a" * 1_000_000), render, size, None, policy).prompt_tokens == 1_000_017


def test_error_says_both_numbers() -> None:
    with pytest.raises(ModelError, match=r"has 27 tokens, 26 fit .*drop-oldest or drop-newest"):
        fit(recall("aaaa", "bbbb"), render, size, 26, "error")


@pytest.mark.parametrize("limit", [27, 30, 32])
@pytest.mark.parametrize(("policy", "kept"), [("drop-oldest", ["cccc", "dddd"]), ("drop-newest", ["aaaa", "bbbb"])])
def test_one_end_is_dropped_and_it_is_said(policy: OverflowPolicy, kept: list[str], limit: int) -> None:
    fitted = fit(recall("aaaa", "bbbb", "cccc", "dddd"), render, size, limit, policy)
    assert texts(fitted.recall) == kept
    assert fitted.recall.items[0] == DOCUMENT
    assert fitted.prompt == render(fitted.recall)
    note = f"{policy}: 2 messages left out, 39 -> 27 prompt tokens, limit {limit}"
    assert fitted.recall.notes == ("earlier note", note)


def test_no_more_than_needed_is_dropped_from_many_short_messages() -> None:
    # Each message takes 3 characters of the prompt, 1 of them its text: 10 over the limit are 4 messages, not 10.
    history = recall(*"x" * 100)
    fitted = fit(history, render, size, len(render(history)) - 10, "drop-oldest")
    assert len(texts(fitted.recall)) == 96


def test_a_single_message_that_is_too_large_is_left_out() -> None:
    fitted = fit(recall("a" * 500), render, size, 100, "drop-oldest")
    assert texts(fitted.recall) == []
    assert fitted.prompt == "Question? >>DOC"
    assert "1 messages left out, 517 -> 15 prompt tokens, limit 100" in fitted.recall.notes[-1]


def test_what_is_not_a_message_cannot_be_dropped() -> None:
    with pytest.raises(ModelError, match="has 15 tokens without any message, 14 fit"):
        fit(recall("aaaa"), render, size, 14, "drop-newest")
    with pytest.raises(ModelError, match="has 15 tokens without any message, 14 fit"):
        fit(recall(), render, size, 14, "drop-oldest")


def test_an_item_that_stands_for_several_messages_counts_them() -> None:
    noted = RecalledItem("message", "n" * 50, DAY, message_ids=("t:0", "t:1", "t:2"), thread_ids=("t",))
    fitted = fit(Recall((noted, said("aaaa", 3))), render, size, 30, "drop-oldest")
    assert fitted.recall.notes == ("drop-oldest: 3 messages left out, 70 -> 18 prompt tokens, limit 30",)


@given(
    st.lists(st.integers(0, 30), max_size=20),
    st.integers(15, 400),
    st.sampled_from(["drop-oldest", "drop-newest"]),
)
def test_the_longest_end_that_fits_is_kept(lengths: list[int], limit: int, policy: OverflowPolicy) -> None:
    history = recall(*("x" * length for length in lengths))
    fitted = fit(history, render, size, limit, policy)
    messages, kept = history.items[1:], fitted.recall.items[1:]
    dropped = len(messages) - len(kept)

    assert fitted.recall.items[0] == DOCUMENT
    assert kept == (messages[dropped:] if policy == "drop-oldest" else messages[: len(kept)])
    assert fitted.prompt == render(fitted.recall)
    assert fitted.prompt_tokens == len(fitted.prompt) <= limit
    if dropped:
        one_more = messages[dropped - 1] if policy == "drop-oldest" else messages[len(kept)]
        assert fitted.prompt_tokens + 2 + len(one_more.text) > limit
        assert f"{policy}: {dropped} messages left out" in fitted.recall.notes[-1]
    else:
        assert fitted.recall == history
