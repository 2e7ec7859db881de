"""Days at ingestion: the session's date is the anchor, unless the text moves the timeline itself."""

from datetime import datetime

import pytest

from longmemeval.core.text.dates_in_text.mentions import dated_sentences, resolved

SAID = datetime(2024, 3, 1, 10)  # a Friday


def shown(*sentences: str, said: datetime = SAID) -> list[list[str]]:
    dated = dated_sentences(sentences, said)
    return [[one.shown for one in dated.dates_of(sentence)] for sentence in sentences]


@pytest.mark.parametrize(
    ("sentence", "then"),
    [
        ("The next year I married.", "2013-01-01 to 2013-12-31"),
        ("The following year I married.", "2013-01-01 to 2013-12-31"),
        ("That year I married.", "2012-01-01 to 2012-12-31"),
        ("The same year I married.", "2012-01-01 to 2012-12-31"),
        ("The previous year I had married.", "2011-01-01 to 2011-12-31"),
        ("That summer I married.", "2012-06-01 to 2012-08-31"),
        ("The next spring I married.", "2013-03-01 to 2013-05-31"),
        ("The next winter I married.", "2013-12-01 to 2014-02-28"),
        ("Two years later I married.", "2014-01-01 to 2014-12-31"),
        ("A year earlier I had married.", "2011-01-01 to 2011-12-31"),
        ("In June I married.", "2012-06-01 to 2012-06-30"),
        ("On May 4 I married.", "2012-05-04"),
        ("On Christmas Eve I married.", "2012-12-24"),
    ],
)
def test_what_depends_on_a_moved_timeline_is_counted_from_there(sentence: str, then: str) -> None:
    assert shown("Back in 2012 I lived in Oslo.", sentence) == [["2012-01-01 to 2012-12-31"], [then]]
    assert shown(sentence) != [[then]]


@pytest.mark.parametrize(
    ("sentence", "day"),
    [
        ("Yesterday I told my sister about it.", "2024-02-29"),
        ("Last week I went back.", "2024-02-19 to 2024-02-25"),
        ("I returned three days ago.", "2024-02-27"),
        ("In 2015 I left.", "2015-01-01 to 2015-12-31"),
        ("I left on 2016-07-08.", "2016-07-08"),
    ],
)
def test_what_names_its_own_day_keeps_it(sentence: str, day: str) -> None:
    assert shown("Back in 2012 I lived in Oslo.", sentence)[1] == [day]


@pytest.mark.parametrize("back", ["Now I live in Rome.", "These days I live in Rome.", "Currently I live in Rome."])
def test_the_text_comes_back_to_the_present(back: str) -> None:
    assert shown("Back in 2012 I lived in Oslo.", back, "In January I moved.")[2] == ["2024-01-01 to 2024-01-31"]


@pytest.mark.parametrize("first", ["I moved to Oslo in 2012.", "I was in Oslo last year.", "Back home I sang."])
def test_a_date_alone_moves_nothing(first: str) -> None:
    assert shown(first, "In January I moved.")[1] == ["2024-01-01 to 2024-01-31"]
    assert shown(first, "The next year I married.")[1] in ([], ["2025-01-01 to 2025-12-31"])


@pytest.mark.parametrize(
    ("first", "then", "day"),
    [
        ("Back in May 2012 I fell ill.", "The next month I got well.", "2012-06-01 to 2012-06-30"),
        ("Back in December 2012 I fell ill.", "The next month I got well.", "2013-01-01 to 2013-01-31"),
        ("It was back on May 31, 2012 that I fell.", "The next day I walked.", "2012-06-01"),
        ("It was on December 31, 2012.", "The next day I walked.", "2013-01-01"),
        ("It was on February 28, 2012.", "The next day I walked.", "2012-02-29"),
        ("It was on February 28, 2013.", "The next day I walked.", "2013-03-01"),
        ("It was on May 31, 2012.", "Two days later I walked.", "2012-06-02"),
        ("It was on January 1, 2012.", "The previous day I fell.", "2011-12-31"),
        ("Back in 2012 I fell.", "The next day I walked.", None),
    ],
)
def test_over_the_ends_of_months_and_years(first: str, then: str, day: str | None) -> None:
    assert shown(first, then)[1] == ([day] if day else [])


@pytest.mark.parametrize(
    ("phrase", "context", "day"),
    [
        ("last Friday", "I ran last Friday.", "2024-02-23"),
        ("on Monday", "I will run on Monday.", "2024-03-04"),
        ("on Monday", "I ran on Monday.", "2024-02-26"),
        ("2023-05-07", "", "2023-05-07"),
        ("yesterday", "I never said when.", "2024-02-29"),
        ("2023-02-30", "", None),
        ("soon", "I will run soon.", None),
        ("", "I ran.", None),
    ],
)
def test_the_words_a_model_quotes_are_resolved_in_their_sentence(phrase: str, context: str, day: str | None) -> None:
    found = resolved(phrase, context, SAID)
    assert (found.shown if found else None) == day
    assert found is None or found.phrase == phrase
