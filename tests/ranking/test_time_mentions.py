"""Dates that messages mention, worked out by hand on a calendar."""

from datetime import date, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longmemeval.benchmarks.registry import load_dataset
from longmemeval.core.text.dates_in_text.mentions import MentionedDate, mentioned_dates
from longmemeval.records import Turn
from tests.support import IN_PROPORTION, growth

MONDAY = datetime(2023, 5, 22, 8, 15)

# The message, the words that name days, the first and the last of them. Said on Monday, 22 May 2023.
MENTIONS = [
    ("I ran a race yesterday.", "yesterday", "2023-05-21", "2023-05-21"),
    ("Yesterday's race was fun.", "Yesterday", "2023-05-21", "2023-05-21"),
    ("See you tomorrow!", "tomorrow", "2023-05-23", "2023-05-23"),
    ("I met Rachel last Friday.", "last Friday", "2023-05-19", "2023-05-19"),
    ("We talked last Monday.", "last Monday", "2023-05-15", "2023-05-15"),
    ("I bought it on May 3rd.", "on May 3rd", "2023-05-03", "2023-05-03"),
    ("I bought it on the 3rd of May.", "on the 3rd of May", "2023-05-03", "2023-05-03"),
    ("My wedding was on June 15th.", "on June 15th", "2022-06-15", "2022-06-15"),
    ("My wedding will be on June 15th.", "on June 15th", "2023-06-15", "2023-06-15"),
    ("I won't be there on June 15th.", "on June 15th", "2023-06-15", "2023-06-15"),
    ("I started two weeks ago.", "two weeks ago", "2023-05-05", "2023-05-11"),
    ("I ate ribs a few weeks back.", "a few weeks back", "2023-04-14", "2023-05-11"),
    ("He adopted about 3 years ago.", "3 years ago", "2020-01-01", "2020-12-31"),
    ("I moved here in 2019.", "in 2019", "2019-01-01", "2019-12-31"),
    ("I join the market next month.", "next month", "2023-06-01", "2023-06-30"),
    ("I got new shoes last month.", "last month", "2023-04-01", "2023-04-30"),
    ("I tuned it back in April, I think.", "in April", "2023-04-01", "2023-04-30"),
    ("I'm planning the Holiday Market in December.", "in December", "2023-12-01", "2023-12-31"),
    ("I was in Rome in December.", "in December", "2022-12-01", "2022-12-31"),
    ("We camped last weekend.", "last weekend", "2023-05-20", "2023-05-21"),
    ("We camped over the weekend.", "over the weekend", "2023-05-20", "2023-05-21"),
    ("We plan to camp over the weekend.", "over the weekend", "2023-05-27", "2023-05-28"),
    ("We camp this weekend.", "this weekend", "2023-05-27", "2023-05-28"),
    ("The cake from last week was good.", "last week", "2023-05-15", "2023-05-21"),
    ("I won a game on Friday!", "on Friday", "2023-05-19", "2023-05-19"),
    ("I'm going to play on Friday!", "on Friday", "2023-05-26", "2023-05-26"),
    ("I can't wait to play on Friday!", "on Friday", "2023-05-26", "2023-05-26"),
    ("Signed on Jan. 5, 2021.", "on Jan. 5, 2021", "2021-01-05", "2021-01-05"),
    ("Signed 5 Jan 2021.", "5 Jan 2021", "2021-01-05", "2021-01-05"),
    ("Signed 2021-01-05.", "2021-01-05", "2021-01-05", "2021-01-05"),
    ("Signed 1/5/2021.", "1/5/2021", "2021-01-05", "2021-01-05"),
    ("I ran a 5K on 3/22.", "on 3/22", "2023-03-22", "2023-03-22"),
    ("Paris, March 3-7, was great.", "March 3-7", "2023-03-03", "2023-03-07"),
    ("I was away from March 3 to April 2.", "from March 3 to April 2", "2023-03-03", "2023-04-02"),
    ("We met in summer 2021.", "in summer 2021", "2021-06-01", "2021-08-31"),
    ("I flew on Valentine's Day.", "on Valentine's Day", "2023-02-14", "2023-02-14"),
    ("The day after Christmas I left.", "The day after Christmas", "2022-12-26", "2022-12-26"),
    ("I met her last Christmas.", "last Christmas", "2022-12-25", "2022-12-25"),
    ("It began in mid-April.", "in mid-April", "2023-04-11", "2023-04-20"),
    ("Two weeks before May 20, 2023 I fell.", "Two weeks before May 20, 2023", "2023-05-03", "2023-05-09"),
    ("I saw it on Monday last week.", "on Monday last week", "2023-05-15", "2023-05-15"),
    ("I did it this morning.", "this morning", "2023-05-22", "2023-05-22"),
    # What is arranged lies ahead.
    ("We're having a party on Saturday.", "on Saturday", "2023-05-27", "2023-05-27"),
    ("I'm flying to Rome on Friday!", "on Friday", "2023-05-26", "2023-05-26"),
    ("My sister is visiting over the weekend.", "over the weekend", "2023-05-27", "2023-05-28"),
    ("They are all leaving in June.", "in June", "2023-06-01", "2023-06-30"),
    ("She's probably starting at the library on Monday.", "on Monday", "2023-05-29", "2023-05-29"),
    ("The exam is on Monday.", "on Monday", "2023-05-29", "2023-05-29"),
    ("School starts in September.", "in September", "2023-09-01", "2023-09-30"),
    ("I have a dentist appointment on Thursday.", "on Thursday", "2023-05-25", "2023-05-25"),
    ("I've got tickets for the show on Tuesday.", "on Tuesday", "2023-05-23", "2023-05-23"),
    ("There's a concert on Friday.", "on Friday", "2023-05-26", "2023-05-26"),
    ("See you on Saturday!", "on Saturday", "2023-05-27", "2023-05-27"),
    ("Can we meet on Friday?", "on Friday", "2023-05-26", "2023-05-26"),
    ("I need to finish it on Wednesday.", "on Wednesday", "2023-05-24", "2023-05-24"),
    ("I'm away until Friday.", "until Friday", "2023-05-26", "2023-05-26"),
    ("I'm flying in two weeks.", "in two weeks", "2023-06-02", "2023-06-08"),
    ("The shop opens in a month.", "in a month", "2023-06-12", "2023-07-02"),
    ("In 3 days' time I will know.", "In 3 days' time", "2023-05-25", "2023-05-25"),
    ("The recital is on the 3rd.", "on the 3rd", "2023-06-03", "2023-06-03"),
    ("I'm moving on the 31st.", "on the 31st", "2023-05-31", "2023-05-31"),
    # What only stands beside a present does not.
    ("I'm still recovering from the party on Saturday.", "on Saturday", "2023-05-20", "2023-05-20"),
    ("I'm thinking about what she said on Friday.", "on Friday", "2023-05-19", "2023-05-19"),
    ("I was having a party on Saturday.", "on Saturday", "2023-05-20", "2023-05-20"),
    ("I'm meeting the man I saw on Friday.", "on Friday", "2023-05-19", "2023-05-19"),
    ("I was away until Friday.", "until Friday", "2023-05-19", "2023-05-19"),
    ("We should have met on Friday.", "on Friday", "2023-05-19", "2023-05-19"),
    ("It began on the 15th.", "on the 15th", "2023-05-15", "2023-05-15"),
    ("I bought it on the 31st.", "on the 31st", "2023-03-31", "2023-03-31"),
    # Counts, longer and shorter units.
    ("I left a fortnight ago.", "a fortnight ago", "2023-05-05", "2023-05-11"),
    ("I left three nights ago.", "three nights ago", "2023-05-19", "2023-05-19"),
    ("I left the night before last.", "night before last", "2023-05-20", "2023-05-20"),
    ("I left two decades ago.", "two decades ago", "2001-01-01", "2005-12-31"),
    ("I left eighteen months ago.", "eighteen months ago", "2021-11-12", "2021-12-02"),
    ("I left twenty-five years ago.", "twenty-five years ago", "1998-01-01", "1998-12-31"),
    ("I left a dozen years ago.", "a dozen years ago", "2011-01-01", "2011-12-31"),
    ("I left half a year ago.", "half a year ago", "2022-11-12", "2022-12-02"),
    ("I left a year and a half ago.", "a year and a half ago", "2021-11-12", "2021-12-02"),
    ("I left two and a half months ago.", "two and a half months ago", "2023-02-25", "2023-03-17"),
    ("I left a week ago today.", "a week ago today", "2023-05-15", "2023-05-15"),
    ("I left a year ago to the day.", "a year ago to the day", "2022-05-22", "2022-05-22"),
    ("It will be a week from Friday.", "a week from Friday", "2023-06-02", "2023-06-02"),
    ("This time last year I was ill.", "This time last year", "2022-05-08", "2022-06-05"),
    ("It begins on the 3rd of next month.", "on the 3rd of next month", "2023-06-03", "2023-06-03"),
    ("It was built in the 1990s.", "in the 1990s", "1990-01-01", "1999-12-31"),
    ("We won in Q1 2023.", "in Q1 2023", "2023-01-01", "2023-03-31"),
    ("We won in the third quarter of 2022.", "in the third quarter of 2022", "2022-07-01", "2022-09-30"),
    ("We met in May '22.", "in May '22", "2022-05-01", "2022-05-31"),
    ("We met in the summer of '99.", "in the summer of '99", "1999-06-01", "1999-08-31"),
    ("We met on 22.05.2022.", "on 22.05.2022", "2022-05-22", "2022-05-22"),
    ("We met at the weekend.", "at the weekend", "2023-05-20", "2023-05-21"),
    ("We met on Presidents' Day.", "on Presidents' Day", "2023-02-20", "2023-02-20"),
    ("We met on MLK Day.", "on MLK Day", "2023-01-16", "2023-01-16"),
    ("We met on Juneteenth.", "on Juneteenth", "2022-06-19", "2022-06-19"),
    ("We met on the Fourth of July.", "on the Fourth of July", "2022-07-04", "2022-07-04"),
    ("Done by the end of June.", "by the end of June", "2023-06-21", "2023-06-30"),
]

NOTHING = [
    "",
    "I use Python 3.11 and 2021.3.",
    "It is at 5:30, or 17:45 on the dot.",
    "You may go. It may 5 times fail; we may be late.",
    "They march 5 miles and march on.",
    "April said hi. I gave June the book. May's hat.",
    "I went with April and told August.",
    "There were 2000 people, $1999 and 2,023 steps.",
    "Add 3/4 cup of milk and 1/2 teaspoon of salt.",
    "Call 555-2023 or 2023-555.",
    "I play every Saturday morning and on Sundays.",
    "I read the Sunday paper.",
    "One last thing before my next workout: the last 15 movies.",
    "Take it to the next level next time.",
    "In today's fast-paced world.",
    "Birds are found here during the summer months.",
    "Flu shots are available from September to March.",
    "I have been busy this year.",
    "I have been sick on and off for the past few months.",
    "I have lived here for two years.",
    "He fell into the spring onions.",
    "The September 11 attacks.",
    "Serve 2 or 3 may be.",
    "I've been to Blade Runner 2049.",
    "We met on February 30.",
    "It was a year and two months ago.",
    "The meeting is in Room 2021.",
    "I read it in two weeks and cooked in three hours.",
    "I live on the 3rd floor, and won on the 2nd try.",
    "It emerged in the late 19th and early 20th centuries.",
    "They are in the 80s today's range, and I'm in my 20s.",
]


@pytest.mark.parametrize(("text", "phrase", "start", "end"), MENTIONS)
def test_known_mentions(text: str, phrase: str, start: str, end: str) -> None:
    expected = MentionedDate(phrase, date.fromisoformat(start), date.fromisoformat(end))
    assert mentioned_dates(text, MONDAY) == [expected]


@pytest.mark.parametrize("text", NOTHING)
def test_what_is_no_date_is_not_one(text: str) -> None:
    assert mentioned_dates(text, MONDAY) == []


def test_several_in_order_of_appearance_each_by_its_own_sentence() -> None:
    text = "I moved in on March 2nd. I will paint on June 1st! Yesterday I cleaned\nand in April I did not."
    assert [(found.phrase, found.start.isoformat()) for found in mentioned_dates(text, MONDAY)] == [
        ("on March 2nd", "2023-03-02"),
        ("on June 1st", "2023-06-01"),
        ("Yesterday", "2023-05-21"),
        ("in April", "2023-04-01"),
    ]


@given(st.text(), st.datetimes())
def test_never_raises_on_any_text(text: str, said_on: datetime) -> None:
    assert all(found.start <= found.end for found in mentioned_dates(text, said_on))


@given(st.lists(st.sampled_from([*(row[0] for row in MENTIONS), *NOTHING]), max_size=6), st.datetimes())
def test_phrases_stand_in_the_text_in_order_without_overlap(sentences: list[str], said_on: datetime) -> None:
    text = " ".join(sentences)
    position = 0
    for found in mentioned_dates(text, said_on):
        assert found.start <= found.end
        position = text.index(found.phrase, position) + len(found.phrase)


@pytest.fixture(scope="session")
def messages(real_longmemeval: Path) -> list[tuple[datetime, Turn]]:
    """A real haystack's turns, and when each was said."""
    sessions = next(iter(load_dataset(str(real_longmemeval)).haystacks())).sessions
    return [(session.date, turn) for session in sessions for turn in session.turns]


@pytest.mark.thorough
def test_a_long_message_takes_time_in_proportion(messages: list[tuple[datetime, Turn]]) -> None:
    text, said_on = "\n".join(turn.content for _, turn in messages), messages[0][0]
    assert growth(lambda size: mentioned_dates(text[:size], said_on), len(text) // 4) < IN_PROPORTION


def test_real_messages_are_read_right(messages: list[tuple[datetime, Turn]]) -> None:
    assert len(messages) == 550
    found = [(said_on, turn, mentioned_dates(turn.content, said_on)) for said_on, turn in messages]

    by_user = {mention for _, turn, mentions in found for mention in mentions if turn.role == "user"}
    assert by_user >= {
        MentionedDate("on February 15th", date(2023, 2, 15), date(2023, 2, 15)),
        MentionedDate("on December 20th", date(2022, 12, 20), date(2022, 12, 20)),
        MentionedDate("a couple of weeks ago", date(2023, 5, 12), date(2023, 5, 18)),
        MentionedDate("last Thursday", date(2023, 5, 25), date(2023, 5, 25)),
        MentionedDate("in December", date(2023, 12, 1), date(2023, 12, 31)),
    }
    # More would mean that ordinary words have become dates.
    assert 50 <= sum(len(mentions) for _, _, mentions in found) <= 80
