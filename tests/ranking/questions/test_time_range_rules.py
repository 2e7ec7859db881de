"""Ranges of questions, worked out by hand on a calendar."""

import os
import subprocess
import sys
from datetime import date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longmemeval.core.text.dates_in_text.phrases import resolve_range

TUESDAY = datetime(2023, 5, 30, 23, 40)
WEDNESDAY = datetime(2024, 1, 3, 9, 5)

# The question, the first day, the last day; "" is an open side. Asked on Tuesday, 30 May 2023.
ASKED_IN_MAY = [
    ("What did I buy two weeks ago?", "2023-05-13", "2023-05-19"),
    ("What happened half a year ago?", "2022-11-20", "2022-12-10"),
    ("What happened forty-five days ago?", "2023-04-15", "2023-04-15"),
    ("Whom did I meet a fortnight ago?", "2023-05-13", "2023-05-19"),
    ("What did I do this time last year?", "2022-05-16", "2022-06-13"),
    ("What did I watch the night before last?", "2023-05-28", "2023-05-28"),
    ("What gardening did I do a week ago?", "2023-05-20", "2023-05-26"),
    ("I mentioned an investment about four weeks ago. What was it?", "2023-04-29", "2023-05-05"),
    ("What happened a few weeks ago?", "2023-04-22", "2023-05-19"),
    ("Which museum did I visit a couple of months ago?", "2023-03-20", "2023-04-09"),
    ("Which museum did I visit a month ago?", "2023-04-20", "2023-05-10"),
    ("What did I cook 3 days ago?", "2023-05-27", "2023-05-27"),
    ("Which appliance did I buy 10 days ago?", "2023-05-20", "2023-05-20"),
    ("What did I break a few days ago?", "2023-05-25", "2023-05-28"),
    ("Where did I live two years ago?", "2021-01-01", "2021-12-31"),
    ("Where did I live a year ago?", "2022-01-01", "2022-12-31"),
    ("Whom did I call 48 hours ago?", "2023-05-28", "2023-05-28"),
    ("What did I do two weekends ago?", "2023-05-20", "2023-05-21"),
    ("What did I do three Fridays ago?", "2023-05-12", "2023-05-12"),
    ("What did I do with Rachel on the Wednesday two months ago?", "2023-03-20", "2023-04-09"),
    ("Whom did I meet on the Sunday two weeks ago?", "2023-05-14", "2023-05-14"),
    ("What did I do yesterday?", "2023-05-29", "2023-05-29"),
    ("What did I do the day before yesterday?", "2023-05-28", "2023-05-28"),
    ("What did I eat last night?", "2023-05-29", "2023-05-29"),
    ("What did I say today?", "2023-05-30", "2023-05-30"),
    ("What am I watching tonight?", "2023-05-30", "2023-05-30"),
    ("What did I drink this morning?", "2023-05-30", "2023-05-30"),
    ("What is on tomorrow?", "2023-05-31", "2023-05-31"),
    ("From whom did I get jewelry last Saturday?", "2023-05-27", "2023-05-27"),
    ("Who joined me last Tuesday?", "2023-05-23", "2023-05-23"),
    ("Who joined me last monday?", "2023-05-29", "2023-05-29"),
    ("Who joined me this past Saturday?", "2023-05-27", "2023-05-27"),
    ("Whom do I meet this Friday?", "2023-06-02", "2023-06-02"),
    ("Whom do I meet next Monday?", "2023-06-05", "2023-06-05"),
    ("When did I reach the clinic on Monday?", "2023-05-29", "2023-05-29"),
    ("What did I bake last week?", "2023-05-22", "2023-05-28"),
    ("What did I bake this week?", "2023-05-29", "2023-06-04"),
    ("What will I bake next week?", "2023-06-05", "2023-06-11"),
    ("What did I bake the week before last?", "2023-05-15", "2023-05-21"),
    ("What did I do last weekend?", "2023-05-27", "2023-05-28"),
    ("What am I doing this weekend?", "2023-06-03", "2023-06-04"),
    ("Which shoes did I clean last month?", "2023-04-01", "2023-04-30"),
    ("How many books have I read this month?", "2023-05-01", "2023-05-31"),
    ("Where do I travel next month?", "2023-06-01", "2023-06-30"),
    ("Where did I travel last year?", "2022-01-01", "2022-12-31"),
    ("How many books have I read this year?", "2023-01-01", "2023-12-31"),
    ("Where was I last summer?", "2022-06-01", "2022-08-31"),
    ("Where was I last winter?", "2022-12-01", "2023-02-28"),
    ("Where was I last spring?", "2022-03-01", "2022-05-31"),
    ("Where will I be this summer?", "2023-06-01", "2023-08-31"),
    ("Where will I be next winter?", "2023-12-01", "2024-02-29"),
    ("Where was I in the fall?", "2022-09-01", "2022-11-30"),
    ("Where was I in the summer of 2021?", "2021-06-01", "2021-08-31"),
    ("What did I buy in the last 3 months?", "2023-02-28", "2023-05-30"),
    ("What did I read over the past week?", "2023-05-23", "2023-05-30"),
    ("What did I read in the past two weeks?", "2023-05-16", "2023-05-30"),
    ("Which sports did I do during the past month?", "2023-04-30", "2023-05-30"),
    ("Who visited me in the last year?", "2022-05-30", "2023-05-30"),
    ("Which trips did I take in the past few months?", "2022-12-30", "2023-05-30"),
    ("How many hours did I play since May 5?", "2023-05-05", ""),
    ("How many books did I buy since June?", "2022-06-01", ""),
    ("What have I spent since the start of the year?", "2023-01-01", ""),
    ("Whom have I seen since last Friday?", "2023-05-26", ""),
    ("What did I plant until March?", "", "2023-03-31"),
    ("What did I plant before May 5?", "", "2023-05-04"),
    ("What did I plant after April 20th?", "2023-04-21", ""),
    ("Where did I run the first time after March 5?", "2023-03-06", ""),
    ("What did I plant from March 5 onwards?", "2023-03-05", ""),
    ("How many tournaments had I won by July 10, 2022?", "", "2022-07-10"),
    ("What was my venture as of 1 May, 2022?", "", "2022-05-01"),
    ("What did I do after March 3 but before April 10?", "2023-03-04", "2023-04-09"),
    ("What was the first barbecue in June?", "2022-06-01", "2022-06-30"),
    ("What did I do in may?", "2023-05-01", "2023-05-31"),
    ("What did I do in february?", "2023-02-01", "2023-02-28"),
    ("What did I do in March 2022?", "2022-03-01", "2022-03-31"),
    ("What did I do in 2021?", "2021-01-01", "2021-12-31"),
    ("What did I do in June last year?", "2022-06-01", "2022-06-30"),
    ("What did I do on May 5?", "2023-05-05", "2023-05-05"),
    ("What did I do on the 3rd of April?", "2023-04-03", "2023-04-03"),
    ("What did I do on December 25th?", "2022-12-25", "2022-12-25"),
    ("Where was the picture taken on December 1,2022?", "2022-12-01", "2022-12-01"),
    ("What did I eat on Saturday, May 20th?", "2023-05-20", "2023-05-20"),
    ("What did I eat on 4/15/2023?", "2023-04-15", "2023-04-15"),
    ("What did I eat on 15/4/2023?", "2023-04-15", "2023-04-15"),
    ("What did I eat on 2023-04-15?", "2023-04-15", "2023-04-15"),
    ("What did I eat on 4/15?", "2023-04-15", "2023-04-15"),
    ("What did I grow between March and June?", "2023-03-01", "2023-06-30"),
    ("What did I ride from July to October?", "2022-07-01", "2022-10-31"),
    ("What did I grow between November and February?", "2022-11-01", "2023-02-28"),
    ("What did I grow between March 5 and March 12?", "2023-03-05", "2023-03-12"),
    ("Where was I between August 11 and August 15 2022?", "2022-08-11", "2022-08-15"),
    ("Where was I from November 2021 to February?", "2021-11-01", "2022-02-28"),
    ("Where was I between 2019 and 2021?", "2019-01-01", "2021-12-31"),
    ("Where was I from 2023-01-05 to 2023-01-09?", "2023-01-05", "2023-01-09"),
    ("Where was I on May 3\N{EN DASH}7?", "2023-05-03", "2023-05-07"),
    ("What did I do between Christmas and New Year\N{RIGHT SINGLE QUOTATION MARK}s Eve?", "2022-12-25", "2022-12-31"),
    ("What did I do between last Friday and yesterday?", "2023-05-26", "2023-05-29"),
    ("With which airline did I fly on Valentine's Day?", "2023-02-14", "2023-02-14"),
    ("With which airline did I fly on Valentine\N{RIGHT SINGLE QUOTATION MARK}s day?", "2023-02-14", "2023-02-14"),
    ("What did I cook at Christmas?", "2022-12-25", "2022-12-25"),
    ("What did I cook at Christmas last year?", "2022-12-25", "2022-12-25"),
    ("What did I cook for Christmas 2020?", "2020-12-25", "2020-12-25"),
    ("Where was I on New Year's Eve?", "2022-12-31", "2022-12-31"),
    ("What did I cook on Thanksgiving?", "2022-11-24", "2022-11-24"),
    ("What did I buy on Black Friday?", "2022-11-25", "2022-11-25"),
    ("What did I wear on Halloween?", "2022-10-31", "2022-10-31"),
    ("Whom did I visit on Easter?", "2023-04-09", "2023-04-09"),
    ("Which service did I attend on Ash Wednesday?", "2023-02-22", "2023-02-22"),
    ("What did I give on Mother's Day?", "2023-05-14", "2023-05-14"),
    ("Where was I on Memorial Day?", "2023-05-29", "2023-05-29"),
    ("Where was I on Labor Day?", "2022-09-05", "2022-09-05"),
    ("Which classes did I join in mid-March?", "2023-03-11", "2023-03-21"),
    ("Which classes did I join in early April?", "2023-04-01", "2023-04-10"),
    ("Which cup did I win in the beginning of November 2022?", "2022-11-01", "2022-11-10"),
    ("What did I do at the end of last month?", "2023-04-21", "2023-04-30"),
    ("What did I do in the year 2021?", "2021-01-01", "2021-12-31"),
    ("What did I do over the weekend?", "2023-05-27", "2023-05-28"),
    ("What did I do between last June and now?", "2022-06-01", "2023-05-30"),
    ("What did I drive up to March?", "", "2023-03-31"),
    ("What did I do in the two weeks before Christmas?", "2022-12-11", "2022-12-24"),
    ("What did I do in the first week of May?", "2023-05-01", "2023-05-07"),
    ("What did I do in the last week of August 2022?", "2022-08-25", "2022-08-31"),
    ("What did I do during the first weekend of April?", "2023-04-01", "2023-04-02"),
    ("Was the second half of April 2023 good?", "2023-04-16", "2023-04-30"),
    ("Which puppy did she get two weeks before August 11, 2022?", "2022-07-25", "2022-07-31"),
    ("What did they do on the Monday before July 24, 2022?", "2022-07-18", "2022-07-18"),
    ("Where was Tim in the week before 16 November 2022?", "2022-11-09", "2022-11-15"),
    ("What was planned for the Saturday after October 28, 2022?", "2022-10-29", "2022-10-29"),
    ("What did she do over the weekend before 4th October, 2022?", "2022-10-01", "2022-10-02"),
    ("What did I do the day after Christmas?", "2022-12-26", "2022-12-26"),
    ("What did I bake on Monday last week?", "2023-05-22", "2023-05-22"),
    ("What did I bake on Sunday of last week?", "2023-05-28", "2023-05-28"),
    ("How many days did I spend at workshops in April?", "2023-04-01", "2023-04-30"),
    ("What did I do on the last day of April?", "2023-04-30", "2023-04-30"),
    ("What did I do on the third day of April?", "2023-04-03", "2023-04-03"),
    ("What did I do on the last Saturday of April?", "2023-04-29", "2023-04-29"),
    ("What did I read earlier this month?", "2023-05-01", "2023-05-30"),
]

# Asked on Wednesday, 3 January 2024.
ASKED_IN_JANUARY = [
    ("What did I do last week?", "2023-12-25", "2023-12-31"),
    ("What did I do last weekend?", "2023-12-30", "2023-12-31"),
    ("What did I do last month?", "2023-12-01", "2023-12-31"),
    ("What did I do in December?", "2023-12-01", "2023-12-31"),
    ("What did I do in February?", "2023-02-01", "2023-02-28"),
    ("What did I do last year?", "2023-01-01", "2023-12-31"),
    ("What did I do last winter?", "2022-12-01", "2023-02-28"),
    ("What do I do this winter?", "2023-12-01", "2024-02-29"),
    ("What did I do three weeks ago?", "2023-12-10", "2023-12-16"),
    ("What did I do a month ago?", "2023-11-23", "2023-12-13"),
    ("What did I do on Friday?", "2023-12-29", "2023-12-29"),
    ("What did I do last Christmas?", "2023-12-25", "2023-12-25"),
    ("What did I do on New Year's Day?", "2024-01-01", "2024-01-01"),
    ("What did I do on Thanksgiving?", "2023-11-23", "2023-11-23"),
    ("What did I do at Easter?", "2023-04-09", "2023-04-09"),
    ("What did I do on February 29?", "2020-02-29", "2020-02-29"),
]

NO_RANGE = [
    "",
    "What degree did I graduate with?",
    "Which of the two did I attend first, the fair or the show?",
    "How many days ago did I attend the workshop?",
    "How long ago did we meet?",
    "When did I buy the lamp?",
    "In which month did I travel?",
    "What year did I start surfing?",
    "How many weeks passed since I met my aunt?",
    "What did I do after the workshop?",
    "What was the first problem after its first service?",
    "What are the last three movies I watched?",
    "How many classes do I take in a typical week?",
    "What did June say about my cake?",
    "What may I march for?",
    "Which Christmas gift did I like?",
    "What ran 3.11 in version 2021.3?",
    "Did I buy the $2021 bike?",
    "How many of the 2000 people came last?",
    "What did I do a year and 3 months ago?",
    "What happened 2.5 years ago?",
]

WITHOUT_RANGE = [
    ("How many days passed between May 3 and May 9?", "length"),
    ("How long was it between January 2nd and February 1st?", "length"),
    ("How long have I worked out since March?", "length"),
    ("How many days has it been since March 5?", "length"),
    ("How many days before March 5 did I leave?", "length"),
    ("What did I buy in March and what in May?", "more than one"),
    ("What did I buy in March and May?", "more than one"),
    ("Did I run more last week than two months ago?", "more than one"),
    ("What did I do between June 2022 and March 2021?", "no such days"),
    ("What did I do after May 5 but before April 3?", "ends before"),
    ("What did I do on February 30?", "no such days"),
    ("What did I do on 2023-13-45?", "no such days"),
    ("What did I do 9999 years ago?", "no such days"),
    ("What did I do on the fourth Sunday of last week?", "no such days"),
    ("What did I do on May 7-3?", "no such days"),
    ("What did I do between May 5 and the flood?", "no such days"),
]


def day(text: str) -> date | None:
    return date.fromisoformat(text) if text else None


@pytest.mark.parametrize(
    ("question", "start", "end", "asked"),
    [(*row, TUESDAY) for row in ASKED_IN_MAY] + [(*row, WEDNESDAY) for row in ASKED_IN_JANUARY],
)
def test_known_ranges(question: str, start: str, end: str, asked: datetime) -> None:
    resolution = resolve_range(question, asked)
    assert resolution.note == ""
    assert resolution.range is not None
    assert (resolution.range.start, resolution.range.end) == (day(start), day(end))


@pytest.mark.parametrize("question", NO_RANGE)
def test_no_temporal_words_no_range_and_no_note(question: str) -> None:
    resolution = resolve_range(question, TUESDAY)
    assert (resolution.range, resolution.note) == (None, "")


@pytest.mark.parametrize(("question", "reason"), WITHOUT_RANGE)
def test_a_range_that_cannot_be_is_none_and_noted(question: str, reason: str) -> None:
    resolution = resolve_range(question, TUESDAY)
    assert resolution.range is None
    assert reason in resolution.note


def test_the_phrase_is_what_the_question_says() -> None:
    resolution = resolve_range("What did I grow between March and June, again?", TUESDAY)
    assert resolution.range is not None
    assert resolution.range.phrase == "between March and June"


PIECES = [row[0] for row in ASKED_IN_MAY] + [
    "between",
    "and",
    "from",
    "since",
    "\N{LATIN SMALL LETTER LONG S}ix days ago",
    "31 February",
    "the first",
    "9999",
    "\n",
    "\N{RIGHT SINGLE QUOTATION MARK}s",
]
DATES = st.datetimes(min_value=datetime(1, 1, 1), max_value=datetime(9999, 12, 31))


@given(st.text() | st.lists(st.sampled_from(PIECES), max_size=4).map(" ".join), DATES)
def test_never_raises_and_never_ends_before_it_begins(question: str, asked: datetime) -> None:
    found = resolve_range(question, asked).range
    if found is not None and found.start is not None and found.end is not None:
        assert found.start <= found.end


@pytest.mark.variants
@pytest.mark.parametrize(
    "environment",
    [{"TZ": "Pacific/Kiritimati"}, {"TZ": "America/Los_Angeles"}, {"LC_ALL": "C"}, {"LC_ALL": "tr_TR.UTF-8"}],
)
def test_time_zone_and_locale_do_not_matter(environment: dict[str, str]) -> None:
    code = (
        "import locale; locale.setlocale(locale.LC_ALL, 'C')\n"
        "try: locale.setlocale(locale.LC_ALL, '')\n"
        "except locale.Error: pass\n"
        "from tests.ranking.questions.test_time_range_rules import ASKED_IN_MAY, TUESDAY, resolve_range\n"
        "for question, *_ in ASKED_IN_MAY: print(resolve_range(question, TUESDAY).range)"
    )
    done = subprocess.run(
        [sys.executable, "-X", "utf8", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **environment},
        timeout=200,
    )
    assert done.stdout.splitlines() == [str(resolve_range(question, TUESDAY).range) for question, *_ in ASKED_IN_MAY]
