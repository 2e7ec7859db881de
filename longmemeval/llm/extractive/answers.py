"""Finding the answer to a question in recalled passages by rules."""

import json
import re
from collections.abc import Iterator, Sequence
from datetime import date, datetime
from itertools import pairwise

from longmemeval.core.text.dates_in_text.mentions import mentioned_dates
from longmemeval.core.text.quantities import MONTHS
from longmemeval.core.text.words import content_words
from longmemeval.llm.extractive.matching import (
    NUMBER,
    Candidate,
    Matcher,
    ParsedQuestion,
    Sentence,
    holds,
    is_value,
    number,
    parse_question,
    sentences_of,
    values_of,
)
from longmemeval.llm.protocol import ChatRequest, Passage, ToolCall

# Answers derived from dates: time between two events, time since an event, order, date of an event.

_LEAST_COVERAGE = 0.3
"""An event counts as found if a session contains at least this share of its words."""
_LONGEST_BACK = 45
"""Days that a statement may look back to its event ("last Friday"); older mentions count as asides."""
_SPAN = re.compile(r"\bhow (?:many (?:full |whole )?(?P<unit>day|week|month|year)s?|long)\b", re.IGNORECASE)
_RATE = re.compile(r"\b(?:days?|weeks?|months?) (?:a|per|each|of the) (?:week|month|year)\b", re.IGNORECASE)
_TWO_EVENTS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"\bbetween (?P<one>.+?) and (?P<other>.+)\?",
        r"\bfrom (?P<one>.+?) (?:to|until|till) (?P<other>.+)\?",
        r"\bafter (?P<one>.+?) (?=did|was|were|had)(?P<other>.+)\?",
        r"\bbefore (?P<other>.+?) (?=did|was|were|had)(?P<one>.+)\?",
        r"\bhad (?:i|we) (?P<one>.+?) (?:when|before|by the time) (?P<other>.+)\?",
    )
)
_AGO = re.compile(r"\bago (?:did|was|were|had) (?P<event>.+)\?", re.IGNORECASE)
_SINCE = re.compile(r"\bsince (?P<event>.+)\?", re.IGNORECASE)
_LASTED = re.compile(r"\bdid it take\b|\bfor how (?:many|long)\b|\bwas\b", re.IGNORECASE)
_FIRST = re.compile(r"\b(?:first|earlier)\b[^:,?]*[:,] (?P<one>.+?),? or (?P<other>.+)\?", re.IGNORECASE)
_ORDER = re.compile(r"\border\b.*?: (?P<events>.+?)[.?]", re.IGNORECASE)


def compare(question: ParsedQuestion, matcher: Matcher, question_date: datetime | None) -> str | None:
    """Return the answer to a question that compares dates.

    Empty if the dates are not found, None if the question compares none.
    """
    text = question.text
    if listed := _ORDER.search(text):
        return _in_order(question, matcher, re.split(r",? and |, ", listed["events"]))
    if either := _FIRST.search(text):
        return _in_order(question, matcher, [either["one"], either["other"]]).partition(", then ")[0]
    span = _SPAN.search(text)
    if not span or _RATE.search(text) or not any(passage.date for passage in matcher.passages):
        return None
    if ago := _AGO.search(text) or _SINCE.search(text):
        days = _days_of(question, matcher, [ago["event"]])
        if not days or not question_date:
            return ""
        return _format_span((question_date.date() - days[0]).days, span["unit"]) + " ago" * bool(_AGO.search(text))
    if two := next(filter(None, (pattern.search(text) for pattern in _TWO_EVENTS)), None):
        days = _days_of(question, matcher, [two["one"], two["other"]])
        return _format_span(abs((days[1] - days[0]).days), span["unit"]) if days else ""
    if question.kind != "duration" and _LASTED.search(text) and (lasted := _duration(question, matcher)):
        return _format_span(lasted, span["unit"])
    return None


def _in_order(question: ParsedQuestion, matcher: Matcher, events: Sequence[str]) -> str:
    """Return the events from the first to the last; empty if one is not found."""
    days = _days_of(question, matcher, events)
    paired = sorted(zip(days, range(len(events)), strict=True)) if days else []
    return ", then ".join(events[place] for _, place in paired)


def _duration(question: ParsedQuestion, matcher: Matcher) -> int | None:
    """Return the days between the two best-matching sessions: the start and the end of the matter."""
    best: dict[int, Candidate] = {}
    for statement in _statements(question, matcher, question.text):
        if statement.session not in best or statement.score > best[statement.session].score:
            best[statement.session] = statement
    ends = sorted(best.values(), key=lambda statement: -statement.score)[:2]
    return next((abs((_day_of(second) - _day_of(first)).days) for first, second in pairwise(ends)), None)


def _days_of(question: ParsedQuestion, matcher: Matcher, events: Sequence[str]) -> list[date]:
    """Return the day of each event, by the best statements of different sessions; empty if one is not found.

    The event with the best-matching statement chooses first.
    """
    found_statements = [_statements(question, matcher, event) for event in events]
    days: dict[int, date] = {}
    taken: set[int] = set()
    while len(days) < len(events):
        free = [
            (statement.score, -place, statement)
            for place, statements in enumerate(found_statements)
            for statement in statements
            if place not in days and statement.session not in taken
        ]
        if {-place for _, place, _ in free} | days.keys() != set(range(len(events))):
            return []
        _, place, statement = max(free, key=lambda choice: choice[:2])
        days[-place] = _day_of(statement)
        taken.add(statement.session)
    return [days[place] for place in range(len(events))]


def _statements(question: ParsedQuestion, matcher: Matcher, event: str) -> list[Candidate]:
    """Return statements that may mention an event; none if no session contains enough of its words."""
    candidates = matcher.candidates(question, content_words(event))
    stated = [
        statement
        for statement in candidates
        if statement.date and not statement.sentence.question and statement.speaker.lower() != "assistant"
    ]
    return stated if max((statement.coverage for statement in stated), default=0.0) >= _LEAST_COVERAGE else []


def _day_of(statement: Candidate) -> date:
    """Return the day of a statement's event: the past day it names, or the day it was made."""
    if statement.date is None:
        raise ValueError("a statement without a date")
    said_on = statement.date.date()
    for mention in mentioned_dates(statement.sentence.text, statement.date):
        if mention.start == mention.end <= said_on and (said_on - mention.start).days <= _LONGEST_BACK:
            return mention.start
    return said_on


def _format_span(days: int, unit: str | None) -> str:
    """Format a time span as `12 days`, `7 weeks`, `3 months`."""
    length = {"week": 7.0, "month": 365.25 / 12, "year": 365.25}.get((unit or "day").lower(), 1.0)
    count = days / length if unit == "week" else round(days / length)
    return f"{count:.2g} {unit or 'day'}s" if unit == "week" else f"{count} {unit or 'day'}s"


def day_named(statement: Candidate) -> str | None:
    """Return the day or month that a statement names relatively ("last Friday").

    None if it contains a date itself.
    """
    if statement.date is None or values_of("date", statement.sentence.text):
        return None
    mentions = mentioned_dates(statement.sentence.text, statement.date)
    if not mentions:
        return None
    start, end = mentions[0].start, mentions[0].end
    if start == end:
        return f"{start.day} {MONTHS[start.month - 1]} {start.year}"
    if (end - start).days > 300:
        return str(start.year)
    if (end - start).days > 20:
        return f"{MONTHS[start.month - 1]} {start.year}"
    return f"{start.day} to {end.day} {MONTHS[end.month - 1]} {end.year}"


# Sums and counts over several statements.

_SHARE = 0.15
_SHARE_OF_ONE = 0.4
"""A statement counts with at least this share of the best score; the second if it implies a count of one."""
_LIST = re.compile(
    r"(?P<items>(?:(?:the|my|our|an?) [\w -]+?, )+(?:the |my |our |an? )?[\w -]+? and (?:the|my|our|an?) "
    r"[\w-]+(?: [\w-]+)??)(?= (?:cost|quote|charge|come|me|for|in|altogether)|\?)",
    re.IGNORECASE,
)
_BEFORE_A_NOUN = re.compile(rf"(?<![\w.])({NUMBER})\b(?=((?:[\s-]*[A-Za-z-]+){{1,4}}))", re.IGNORECASE)
_UNITS = tuple(
    frozenset(content_words(words))
    for words in ("kilo kg kilogram kilogramme", "kilometre kilometer km", "metre meter m", "mile", "hour", "minute")
)
_CURRENCIES = "$\u00a3\u20ac"


def total(question: ParsedQuestion, matcher: Matcher, candidates: Sequence[Candidate]) -> str | None:
    """Return the sum of the amounts in single statements; without amounts, the number of statements.

    One statement counts per session, or per item that the question lists.
    """
    statements = _statement_of_each_item(question, matcher) or _statement_of_each_session(question, candidates)
    amounts = [amount for statement in statements if (amount := _amount(question, statement.sentence.text)) is not None]
    if not amounts:
        return None
    symbol, unit = (_currency(statements), "") if question.kind == "money" else ("", f" {_unit(question)}".rstrip())
    parts = " + ".join(f"{symbol}{amount:,.10g}" for amount in amounts)
    return f"{symbol}{sum(amounts):,.10g}{unit}" + (f" ({parts})" if len(amounts) > 1 else "")


def _statement_of_each_item(question: ParsedQuestion, matcher: Matcher) -> list[Candidate]:
    """Return the best statement about each item that the question lists; none if it lists none or one is not found."""
    listed = _LIST.search(question.text)
    if not listed:
        return []
    statements = []
    for item in re.split(r", | and ", listed["items"]):
        words = content_words(item)
        suitable = (
            [
                statement
                for statement in matcher.candidates(question, words)
                if _amount(question, statement.sentence.text) is not None
            ]
            if words
            else []
        )
        if not suitable:
            return []
        statements.append(max(suitable, key=lambda statement: statement.score))
    return statements


def _statement_of_each_session(question: ParsedQuestion, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the best statement of each session, made by the user and about the user."""
    suitable = [
        statement
        for statement in candidates
        if not (statement.sentence.question or statement.foreign or statement.speaker.lower() == "assistant")
        and statement.coverage >= _LEAST_COVERAGE
        and _amount(question, statement.sentence.text) is not None
    ]
    best = max((statement.score for statement in suitable), default=0.0)
    by_session: dict[int, Candidate] = {}
    for statement in suitable:
        states_amount = question.kind == "money" or values_of("figure", statement.sentence.text)
        if statement.score >= (_SHARE if states_amount else _SHARE_OF_ONE) * best:
            before = by_session.get(statement.session)
            by_session[statement.session] = statement if before is None or statement.score > before.score else before
    return list(by_session.values())


def _amount(question: ParsedQuestion, sentence: str) -> float | None:
    """Return the amount that a statement adds: money, the number before the counted noun, or 1; None: nothing."""
    if question.kind == "money":
        return next(map(number, values_of("money", sentence)), None)
    counted = frozenset(content_words(question.counted))
    unit = next((unit for unit in _UNITS if counted & unit), None)
    for match in _BEFORE_A_NOUN.finditer(sentence):
        if (unit or counted).intersection(content_words(match[2].replace("-", " "))):
            return number(match[1])
    return None if unit else 1.0


def _currency(statements: Sequence[Candidate]) -> str:
    symbols = [
        value[0]
        for statement in statements
        for value in values_of("money", statement.sentence.text)
        if value[0] in _CURRENCIES
    ]
    return max(sorted(set(symbols)), key=symbols.count) if symbols else ""


def _unit(question: ParsedQuestion) -> str:
    """Return the unit after the sum, abbreviated if there is a short form."""
    short = {"kilos": "kg", "kilograms": "kg", "kilometres": "km", "kilometers": "km"}
    return short.get(question.counted, question.counted)


# Choosing among several statements: the best one, or a later one that updates it.

_NEAR_EQUAL = 0.9
"""Among statements with at least this share of the best score, the latest one counts."""
_ENOUGH_OF_ONES_OWN = 0.5
"""With at least this share of the score, a statement about the person in question is preferred to one about another."""
_ABOUT_ANOTHER_SPEAKER = 1.5
_ABOUT_ANOTHER_PERSON = 4.0
"""If a statement about another person matches this many times better than the best one, nothing was said about the
person in question. A user mentions others in passing more often than two speakers repeat each other's words."""

# Share of an earlier statement that a later one must repeat to be about the same matter, 0 to 1.
_SHARED = 0.1
_SHARED_BY_UPDATE = 0.07
_SHARED_WITHOUT_VALUE = 0.2
_OF_SESSION = 0.5
"""Weight of a shared word found elsewhere in the later statement's session."""


def choose(question: ParsedQuestion, matcher: Matcher, candidates: Sequence[Candidate]) -> Candidate | None:
    """Return the statement that answers; None if the matching ones are about another person."""
    stated = [statement for statement in candidates if not statement.sentence.question] or list(candidates)
    own = [statement for statement in stated if not statement.foreign]
    best = max(stated, key=lambda statement: statement.score)
    if best.foreign and own:
        mine = max(own, key=lambda statement: statement.score)
        best = mine if mine.score >= _ENOUGH_OF_ONES_OWN * best.score else best
    surest = max(stated, key=lambda statement: statement.reach)
    most = _ABOUT_ANOTHER_SPEAKER if matcher.names else _ABOUT_ANOTHER_PERSON
    if best.foreign or (surest.foreign and surest.reach > most * best.reach):
        return None
    good = [statement for statement in own if statement.score >= _NEAR_EQUAL * best.score]
    latest = max(statement.passage for statement in good)
    best = max((statement for statement in good if statement.passage == latest), key=lambda statement: statement.score)
    return best if question.past else _latest_update(question, matcher, best)


def _latest_update(question: ParsedQuestion, matcher: Matcher, best: Candidate) -> Candidate:
    """Return the latest statement of the same speaker on the same matter, with a value of the kind asked for.

    A statement is on the same matter if it shares words with the earlier one and the question, rare ones weighing more,
    apart from numbers and dates. So a change is found even if it is worded differently from the question.
    """
    words = frozenset(word for word in best.sentence.words | question.words if not is_value(word))
    weights, forms = matcher.weights(words), matcher.forms(words)
    newest, rank = best, (best.session, 0.0)
    for session, place, sentence in _later(matcher, best):
        if sentence.other and not sentence.partly:
            continue
        if not (holds(question.kind, sentence.text) if question.kind else sentence.update):
            continue
        around = frozenset().union(*matcher.held[matcher.sessions[session].start : matcher.sessions[session].stop])
        whole, own = matcher.strengths(around, forms), matcher.strengths(sentence.words, forms)
        # Sorted, so that the sum is deterministic.
        shared = sum(weights[word] * max(own.get(word, 0.0), _OF_SESSION * whole[word]) for word in sorted(whole))
        if question.kind is None:
            enough = shared >= _SHARED_WITHOUT_VALUE
        elif sentence.update:
            enough = shared >= _SHARED_BY_UPDATE
        else:
            enough = shared >= _SHARED and len(whole) >= 2 and bool(own)
        if enough and (session, shared) > rank:
            passage, rank = matcher.passages[place], (session, shared)
            newest = Candidate(
                0.0, 0.0, 0.0, session, place, sentence, passage.date, passage.speaker, foreign=False, direct=bool(own)
            )
    return newest


def _later(matcher: Matcher, earlier: Candidate) -> Iterator[tuple[int, int, Sentence]]:
    """Iterate over the same speaker's statements in later sessions."""
    for session in range(earlier.session + 1, len(matcher.sessions)):
        for place in matcher.sessions[session]:
            if matcher.passages[place].speaker == earlier.speaker:
                for sentence in sentences_of(matcher.passages[place].text):
                    if not sentence.question:
                        yield session, place, sentence


LEAST_COVERAGE = 0.5
"""A question is answered if one session contains at least this share of its words, related forms included."""
_FIRST_REPLY = 0.6
"""The earliest reply with at least this share of the best match counts: advice is given first and then discussed."""
_SHORT = 8
"""A sentence of fewer words is quoted together with the next one."""


def find_answer(question: str, passages: Sequence[Passage], question_date: datetime | None = None) -> str | None:
    """Return the answer to a question, quoted from the passages or derived from their values and dates.

    Args:
        passages: recalled texts, oldest first. Without dates each stands alone, and nothing is derived from dates.
        question_date: date of the question.

    Returns:
        One to three sentences, or a value; None if nothing answers the question.
    """
    parsed, matcher = parse_question(question), Matcher(passages)
    if parsed.advice:
        return taste(parsed, matcher)
    compared = compare(parsed, matcher, question_date)
    if compared is not None:
        return compared or None
    every = matcher.candidates(parsed)
    candidates = [candidate for candidate in every if candidate.coverage >= LEAST_COVERAGE]
    if parsed.total and (whole := total(parsed, matcher, every if candidates else ())):
        return whole
    if not candidates:
        return None
    if parsed.about_assistant and (
        replies := [candidate for candidate in candidates if candidate.speaker.lower() == "assistant"]
    ):
        return _reply(parsed, candidates, replies)
    best = choose(parsed, matcher, candidates)
    if best is None:
        return None
    if parsed.kind == "date":
        return day_named(best) or best.sentence.text
    return best.sentence.text if parsed.kind else _quote(best, passages[best.passage])


def _quote(best: Candidate, passage: Passage) -> str:
    """Return the sentence, with others of its passage if it is short or contains no word of the question."""
    sentences = [sentence.text for sentence in sentences_of(passage.text) if not sentence.question]
    if best.sentence.text not in sentences:
        return best.sentence.text
    place = sentences.index(best.sentence.text)
    if not best.direct:
        place = max(0, place - 1)
        return " ".join(sentences[place : place + 3])
    return " ".join(sentences[place : place + 2]) if len(best.sentence.text.split()) < _SHORT else best.sentence.text


def _reply(parsed: ParsedQuestion, candidates: Sequence[Candidate], replies: Sequence[Candidate]) -> str:
    """Return the start of the assistant's reply that matches, by itself or by the message it replies to.

    If the question asks for a value, return the reply's first sentence with a value that was not in that message.
    """
    match: dict[int, float] = {}
    for candidate in candidates:
        match[candidate.passage] = max(match.get(candidate.passage, 0.0), candidate.reach)
    matched = {
        candidate.passage: max(match[candidate.passage], match.get(candidate.passage - 1, 0.0)) for candidate in replies
    }
    best = min(place for place in matched if matched[place] >= _FIRST_REPLY * max(matched.values()))
    sentences = [candidate.sentence for candidate in replies if candidate.passage == best]
    if parsed.kind:
        before = " ".join(candidate.sentence.text for candidate in candidates if candidate.passage == best - 1)
        for sentence in sentences:
            if any(value not in before for value in values_of(parsed.kind, sentence.text)):
                return sentence.text
    stated = [sentence.text for sentence in sentences if not sentence.question] or [sentences[0].text]
    return " ".join(stated[:2])


_TASTE = re.compile(
    r"\b(?:lov(?:e|es|ed)|likes?|prefer|enjoy|hates?|favou?rites?|rather|never|always|only|can't stand|can't look|"
    r"(?:for|suits?|keeps?|makes?|wears?|bores?|ruins?) (?:me|us|my)|nothing else|my sort|"
    r"no [\w-]+, no|all i (?:need|want)|reject)\b",
    re.IGNORECASE,
)
_IN_PASSING = 0.1
"""Weight of a taste whose session contains no word of the question."""
_OF_OTHERS = 0.7


def taste(question: ParsedQuestion, matcher: Matcher) -> str | None:
    """Return the message that says most about its speaker's likes, preferably from sessions about the question."""
    relevant: dict[int, float] = {}
    for candidate in matcher.candidates(question):
        relevant[candidate.session] = max(relevant.get(candidate.session, 0.0), candidate.coverage)
    best, best_score = None, 0.0
    for position, session in enumerate(matcher.sessions):
        for place in session:
            passage = matcher.passages[place]
            if passage.speaker.lower() == "assistant":
                continue
            statements = [sentence for sentence in sentences_of(passage.text) if not sentence.question]
            liking = sum(
                len(_TASTE.findall(sentence.text)) * (1.0 if sentence.first_person else _OF_OTHERS)
                for sentence in statements
            )
            score = liking * (_IN_PASSING + relevant.get(position, 0.0))
            if score > best_score:
                best, best_score = " ".join(sentence.text for sentence in statements), score
    return best


# Call tools as a model without language would: search once, then read the files that were found first.

_FILE = re.compile(r"[\w-]+\.txt\b")
_READ = 3
"""Maximum number of files to read."""


def next_calls(request: ChatRequest) -> tuple[ToolCall, ...]:
    """Return the tool calls that reply to a request; none if it is answered from the files read so far."""
    if not request.tools or request.must_answer:
        return ()
    names = [str(tool["function"]["name"]) for tool in request.tools]
    search, read = (next((name for name in names if verb in name), "") for verb in ("search", "read"))
    results = [message.content for message in request.messages if message.role == "tool"]
    if not results:
        return (ToolCall("call_0", search, json.dumps({"query": request.question})),)
    files = list(dict.fromkeys(_FILE.findall(results[0])))[:_READ] if len(results) == 1 else []
    return tuple(
        ToolCall(f"call_{number}", read, json.dumps({"name": name})) for number, name in enumerate(files, start=1)
    )
