"""A range by a chat model, and what a range does to a ranked list."""

import asyncio
import json
from collections.abc import Sequence
from datetime import date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longmemeval.core.text.dates_in_text.phrases import Resolution, TimeRange
from longmemeval.errors import ModelError
from longmemeval.llm.protocol import ChatReply, ChatRequest
from longmemeval.ranking.questions import apply_range, in_range, range_by_model
from longmemeval.records import Usage

ASKED = datetime(2023, 5, 30, 23, 40)


def resolve(model: "Replies", question: str) -> Resolution:
    return asyncio.run(range_by_model(model, question, ASKED))


class Replies:
    """A model that gives one reply, or fails, and keeps what it was asked."""

    spec = "test/replies"

    def __init__(self, reply: str | ModelError) -> None:
        self.reply = reply
        self.requests: list[ChatRequest] = []

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.requests.append(request)
        if isinstance(self.reply, ModelError):
            raise self.reply
        return ChatReply(self.reply, "stop", Usage(calls=1, prompt_tokens=120, completion_tokens=9))


@pytest.mark.parametrize(
    ("reply", "start", "end"),
    [
        ('{"start": "2023-05-22", "end": "2023-05-28"}', date(2023, 5, 22), date(2023, 5, 28)),
        ('```json\n{"end": "2023-05-28", "start": "2023-05-28"}\n```', date(2023, 5, 28), date(2023, 5, 28)),
        ('Here you are: {"start": "2023-05-22", "end": null}.', date(2023, 5, 22), None),
        ('{"start": null, "end": "2023-05-28"}', None, date(2023, 5, 28)),
    ],
)
def test_a_model_names_the_range(reply: str, start: date | None, end: date | None) -> None:
    resolution = resolve(Replies(reply), "What did I do last week?")
    assert resolution.range is not None
    assert (resolution.range.start, resolution.range.end, resolution.note) == (start, end, "")


@pytest.mark.parametrize("reply", ["null", " null\n", "```\nnull\n```", '{"start": null, "end": null}'])
def test_a_model_may_find_no_range(reply: str) -> None:
    resolution = resolve(Replies(reply), "What is my name?")
    assert (resolution.range, resolution.note) == (None, "")


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("", "cannot be read"),
        ("N/A", "cannot be read"),
        ("2023-05-22", "cannot be read"),
        ('{"start": "2023-05-22"', "cannot be read"),
        ('{"start": "last week", "end": "now"}', "cannot be read"),
        ('{"start": "2023-02-30", "end": "2023-03-01"}', "cannot be read"),
        ('{"start": "2023-05-22"}', "cannot be read"),
        ('{"from": "2023-05-22", "to": "2023-05-28"}', "cannot be read"),
        ('{"start": 20230522, "end": 20230528}', "cannot be read"),
        ('[{"start": {}, "end": "2023-05-28"}]', "cannot be read"),
        ('{"start": "2023-05-28", "end": "2023-05-22"}', "ends before it begins"),
    ],
)
def test_garbage_and_contradictions_give_no_range_and_a_note(reply: str, reason: str) -> None:
    resolution = resolve(Replies(reply), "What did I do last week?")
    assert resolution.range is None
    assert reason in resolution.note


@pytest.mark.slow
@given(st.text())
def test_no_reply_raises(reply: str) -> None:
    assert resolve(Replies(reply), "What did I do last week?").range is None


def test_the_model_sees_the_question_and_its_date_once_and_its_usage_is_kept() -> None:
    model = Replies("null")
    resolution = resolve(model, "What cost $5 ${HOME} {x} last week?")
    (request,) = model.requests
    shown = request.messages[-1].content
    assert "What cost $5 ${HOME} {x} last week?" in shown
    assert "2023-05-30 (Tuesday)" in shown
    assert request.temperature == 0.0
    assert resolution.usage == Usage(calls=1, prompt_tokens=120, completion_tokens=9)


def test_a_failed_call_is_not_taken_for_no_range() -> None:
    with pytest.raises(ModelError):
        resolve(Replies(ModelError("the server is gone")), "What did I do last week?")


def days(*pairs: tuple[str, str]) -> list[tuple[date, date]]:
    return [(date.fromisoformat(start), date.fromisoformat(end)) for start, end in pairs]


WEEK = TimeRange(date(2023, 5, 8), date(2023, 5, 14), "")


@pytest.mark.parametrize(
    ("dates", "margin", "inside"),
    [
        (days(), 2, False),
        (days(("2023-05-08", "2023-05-08")), 0, True),
        (days(("2023-05-14", "2023-05-14")), 0, True),
        (days(("2023-05-07", "2023-05-07")), 0, False),
        (days(("2023-05-15", "2023-05-15")), 0, False),
        (days(("2023-05-06", "2023-05-06")), 2, True),
        (days(("2023-05-05", "2023-05-05")), 2, False),
        (days(("2023-05-16", "2023-05-16")), 2, True),
        (days(("2023-05-17", "2023-05-17")), 2, False),
        (days(("2023-05-01", "2023-05-31")), 0, True),
        (days(("2023-05-10", "2023-05-11")), 0, True),
        (days(("2023-04-01", "2023-05-08")), 0, True),
        (days(("2020-01-01", "2020-12-31"), ("2023-05-09", "2023-05-09")), 0, True),
        (days(("2020-01-01", "2020-12-31"), ("2024-05-09", "2024-05-09")), 0, False),
    ],
)
def test_any_interval_that_touches_the_widened_range_is_inside(
    dates: list[tuple[date, date]], margin: int, inside: bool
) -> None:
    assert in_range(dates, WEEK, margin) is inside


def test_an_open_side_ends_nowhere_and_margins_do_not_overflow() -> None:
    old, new = days(("0001-01-01", "0001-01-01")), days(("9999-12-31", "9999-12-31"))
    since, until = TimeRange(date.max, None, ""), TimeRange(None, date.min, "")
    assert (in_range(new, since, 2), in_range(old, since, 2)) == (True, False)
    assert (in_range(new, until, 2), in_range(old, until, 2)) == (False, True)


ORDER = [3, 0, 4, 1, 2]


@pytest.mark.parametrize(
    ("inside", "boosted", "filtered"),
    [
        ([True, False, True, False, False], [0, 2, 3, 4, 1], [0, 2]),
        ([False, False, False, True, True], [3, 4, 0, 1, 2], [3, 4]),
        ([True] * 5, ORDER, ORDER),
        ([False] * 5, ORDER, ORDER),
    ],
)
def test_documents_inside_move_up_or_are_all_that_is_left(
    inside: Sequence[bool], boosted: list[int], filtered: list[int]
) -> None:
    assert apply_range(ORDER, inside, "boost") == boosted
    assert apply_range(ORDER, inside, "filter") == filtered


@given(st.data())
def test_boosting_is_a_stable_partition(data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(8)))
    inside = data.draw(st.lists(st.booleans(), min_size=8, max_size=8))
    boosted = apply_range(order, inside, "boost")
    assert boosted == sorted(order, key=lambda number: (not inside[number], order.index(number)))


def test_the_prompt_asks_for_what_is_read() -> None:
    model = Replies("null")
    resolve(model, "?")
    shown = model.requests[0].messages[-1].content
    example = json.loads(shown[shown.index('{"start"') : shown.index("}", shown.index('{"start"')) + 1])
    assert set(example) == {"start", "end"}
