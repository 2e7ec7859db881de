"""Finding the phrases that name days in a text, and the meaning of two of them together.

Two phrases become one if they are joined ("between March and June") or if one selects among the days of the other ("on
Monday last week").
"""

import re
from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta
from functools import cache, lru_cache

from msgspec import Struct

from longmemeval.core.text.dates_in_text.meanings import (
    COUNT,
    DAY,
    HOLIDAY,
    MONTH,
    MONTH_SURE,
    NO_NAME,
    NO_NUMBER_BEFORE,
    ORDINAL_DAY,
    SEASON,
    UNIT,
    WEEKDAY,
    WEEKDAYS,
    YEAR,
    Context,
    Days,
    Groups,
    Point,
    ago,
    count_of,
    day_of_month,
    day_of_this,
    decade,
    following_weekday,
    from_weekday,
    half,
    half_of,
    later,
    moved,
    named,
    near_day,
    nth_of,
    numeric,
    part_of,
    previous_weekday,
    quarter,
    recurring,
    same_time,
    shifted,
    weekday,
    window,
    year,
)
from longmemeval.records import Usage

# The rules: which English phrases name days.
#
# They favour precision over recall: a month, a year, a weekday, a season or a holiday counts only after a word that
# makes it a time ("in June", not "June said").


class Rule(Struct, frozen=True):
    """One kind of phrase.

    Args:
        pattern: a regular expression that ignores case; `meaning` gets its named groups.
        meaning: maps the groups to the days; raises ValueError or OverflowError for days that do not exist.
        after: words, as alternatives of a regular expression, one of which must precede the phrase; empty for a phrase
            on its own.
    """

    pattern: str
    meaning: Callable[[Groups, Context], Point]
    after: str = ""


class Match(Struct, frozen=True):
    """A rule's match in a text."""

    rule: str
    begin: int
    end: int
    groups: Groups

    def read(self, context: Context) -> Point:
        """Return the days.

        Raises:
            ValueError: there are no such days.
            OverflowError: likewise.
        """
        return RULES[self.rule].meaning(self.groups, context)


NEVER = "never"
"""Value of `after` for a phrase that never stands alone, only after "the start of" or joined to another phrase."""
_EDGES = r"since|until|till|up\s+to|before|after|prior\s+to|as\s+of"
_ON_WEEKDAY = rf"(?:{WEEKDAY},?\s+(?:the\s+)?)?"
_OF_YEAR = rf",?\s*(?:of\s+)?(?P<year>{YEAR}|(?<=\s)'\d\d\b)"
_TO_DAY = rf"(?:\s*(?:-|\bto\b|\bthrough\b)\s*(?P<to>{DAY}))?"
_MAY_DAY = rf"(?:march|may)(?=\s+{ORDINAL_DAY})|(?<=\bon\s)(?:march|may)"

# The first rule that fits at a position wins, so longer kinds of phrases come before shorter ones.
RULES: dict[str, Rule] = {
    "ago": Rule(
        rf"(?:(?P<weekday>{WEEKDAY})\s+)?(?P<count>{COUNT})\s+(?P<unit>{UNIT}|weekends?|{WEEKDAY}s?)\s+"
        r"(?P<way>ago|back(?!\s+to)|from\s+(?:now|today))\b(?P<exact>\s+(?:today|to\s+the\s+day)\b)?",
        ago,
    ),
    "half": Rule(
        rf"(?:half\s+a\s+(?P<unit>year|month)|(?P<count>{COUNT})\s+and\s+a\s+half\s+(?P<unit2>years|months)|"
        r"(?P<count2>an?)\s+(?P<unit3>year|month)\s+and\s+a\s+half)\s+ago\b",
        half,
    ),
    "from_weekday": Rule(rf"(?P<count>{COUNT})\s+weeks?\s+from\s+(?P<what>{WEEKDAY}|tomorrow)\b", from_weekday),
    "later": Rule(rf"in\s+(?P<count>{COUNT})\s+(?P<unit>{UNIT})(?P<time>'s?\s+time)?\b(?!\s+(?:of|or|and)\b)", later),
    "same_time": Rule(r"this\s+time\s+(?P<which>last|next)\s+(?P<unit>week|month|year)\b", same_time),
    "quarter": Rule(
        rf"(?:q(?P<quarter>[1-4])|(?P<quarter2>first|second|third|fourth)\s+quarter)\s+(?:of\s+)?(?P<year>{YEAR})",
        quarter,
    ),
    "decade": Rule(r"(?P<decade>(?:18|19|20)\d0)'?s\b", decade, r"in|during|throughout|since|from|around"),
    "day_of_next": Rule(rf"(?P<day>{ORDINAL_DAY})\s+of\s+(?P<which>this|last|next)\s+month\b", day_of_this),
    "before_last": Rule(rf"(?P<what>week|weekend|month|year|{WEEKDAY})\s+(?P<which>before\s+last)\b", named),
    "near_day": Rule(r"(?P<twice>day\s+(?:before(?=\s+y)|after(?=\s+t))\s+)?(?P<word>yesterday|tomorrow)\b", near_day),
    "today": Rule(
        r"(?P<word>today(?!'s)|tonight|last\s+night|night\s+before\s+last|this\s+(?:morning|afternoon|evening))\b",
        near_day,
    ),
    "now": Rule(r"(?P<word>now)\b", near_day, NEVER),
    "windows": Rule(
        rf"(?P<which>last|past|previous|next|coming)\s+(?P<count>{COUNT})\s+(?P<unit>{UNIT})\b(?!\s+(?:of|in)\s)",
        window,
    ),
    "window": Rule(
        r"(?:in|over|during|within|for|throughout)\s+the\s+(?P<which>last|past|previous|next|coming)\s+"
        r"(?P<unit>week|month|year)\b(?!\s+of\s)",
        window,
    ),
    "past_window": Rule(r"(?P<which>past)\s+(?P<unit>week|month|year)\b(?!\s+of\s)", window),
    "named": Rule(
        r"(?P<which>last|(?:this\s+)?past|previous|(?:this\s+)?coming|(?<!the\s)next|this)\s+"
        rf"(?P<what>{WEEKDAY}|weekend|week|month|year|{SEASON}|{HOLIDAY}|{MONTH}(?!,?\s+\d))(?!\w|\s+of\s|\s+in\s+{MONTH}\b)",
        named,
    ),
    "unit": Rule(r"(?P<which>the)\s+(?P<what>year|month)\b(?!'s)", named, NEVER),
    "month_first": Rule(
        rf"{_ON_WEEKDAY}(?P<month>{MONTH}|{_MAY_DAY})\s+(?:the\s+)?(?P<day>{DAY}){_TO_DAY}(?:{_OF_YEAR})?",
        day_of_month,
    ),
    "day_first": Rule(
        rf"{_ON_WEEKDAY}{NO_NUMBER_BEFORE}(?P<day>{DAY}){_TO_DAY}\s+(?:of\s+)?"
        rf"(?P<month>{MONTH}|(?<=of\s)(?:march|may))(?!\w)(?:{_OF_YEAR})?",
        day_of_month,
    ),
    "numeric": Rule(
        rf"{NO_NUMBER_BEFORE}(?P<numbers>\d{{4}}-\d\d?-\d\d?|\d{{4}}/\d\d?/\d\d?|\d\d?/\d\d?/(?:19|20)\d\d|\d\d?\.\d\d?\.(?:19|20)\d\d)\b(?![-/]\d)",
        numeric,
    ),
    "month_and_day": Rule(
        rf"(?P<month>0?[1-9]|1[0-2])/(?P<day>{DAY})(?![/\w])", day_of_month, r"on|since|until|till|before|after"
    ),
    "of_year": Rule(rf"(?P<what>{MONTH_SURE}|{SEASON}|{HOLIDAY}){_OF_YEAR}", recurring),
    "weekday": Rule(rf"(?P<what>{WEEKDAY}|weekend(?!\s+of\b))\b(?!'s)", weekday, rf"on|over|at|{_EDGES}"),
    "day_alone": Rule(
        rf"(?P<day>{ORDINAL_DAY})(?=\s*(?:[.,;!?)]|$|(?:at|but|for|from|with|because|so|i|we|they)\b))",
        day_of_this,
        r"on|since|until|till|by",
    ),
    "holiday": Rule(rf"(?P<what>{HOLIDAY})\b", recurring, rf"on|at|during|over|around|{_EDGES}"),
    "season": Rule(rf"(?P<what>{SEASON})\b", recurring, rf"in|during|over|throughout|{_EDGES}"),
    "month": Rule(rf"(?P<what>{MONTH_SURE})\b{NO_NAME}", recurring, rf"in|during|around|throughout|{_EDGES}"),
    "year": Rule(rf"(?P<year>{YEAR})", year, rf"in|during|throughout|by|{_EDGES}"),
}

# Every phrase contains one of these words: lines without them, the majority, are skipped quickly.
_TRIGGER = re.compile(
    r"\b(?:ago|back|from\s+(?:now|today)|in\s+(?:an?\s|\d|couple|few|several|[a-z]+\s+(?:days|weeks|months|years))|last|past|previous|next|coming|yesterday|today|tomorrow|tonight|now|this\s|"
    rf"the\s+(?:year|month)\b|{WEEKDAY}|weekend|{MONTH_SURE}|{SEASON}|{HOLIDAY}|\d\d?[/.]\d|\d{{4}}s?\b|\d{{4}}'s|the\s+\d\d?(?:st|nd|rd|th)\b)",
    re.IGNORECASE,
)
# One regular expression for all rules; a group is named after its rule, the groups inside it `rule__group`. It is
# compiled when a line first needs it, since that takes longer than importing everything else here.
_ANY_RULE = (
    r"\b(?:"
    + "|".join(f"(?P<{name}>{rule.pattern.replace('(?P<', f'(?P<{name}__')})" for name, rule in RULES.items())
    + ")"
)
_LINE = re.compile(r"[^\n]+")


@cache
def _any_rule() -> re.Pattern[str]:
    return re.compile(_ANY_RULE, re.IGNORECASE)


@lru_cache(maxsize=1 << 12)
def find_matches(text: str) -> tuple[Match, ...]:
    """Return the matches of rules in `text`, in order, not overlapping; the words before them are not checked.

    Histories of one dataset share sessions: a text that was read before is not read again.
    """
    return tuple(_matches(text))


def _matches(text: str) -> Iterator[Match]:
    for line in _LINE.finditer(text):
        if not _TRIGGER.search(text, line.start(), line.end()):
            continue
        for found in _any_rule().finditer(text, line.start(), line.end()):
            rule = found.lastgroup or ""
            caught = ((name.partition("__"), value) for name, value in found.groupdict().items() if value)
            groups = {name.rstrip("23"): value.lower() for (owner, _, name), value in caught if owner == rule and name}
            yield Match(rule, found.start(), found.end(), groups)


# Words before a phrase that names days, which change its meaning.
#
# They narrow the phrase ("the first week of June"), move it ("two days before Christmas"), or make it a time at all
# ("in June").

_NTH = {"first": 1, "second": 2, "third": 3, "fourth": 4, "last": -1}
_BEFORE = 60
"""Number of characters to examine before a phrase."""
_PART = re.compile(
    r"\b(?:the\s+)?(?:(?P<when>earlier|later)|(?P<edge>early|mid|late)|"
    rf"(?:(?P<side>beginning|start|middle|end)|(?P<nth>first|second|third|fourth|last)\s+"
    rf"(?P<what>half|day|weekend|week|{WEEKDAY}))\s+(?:of|in))[\s-]+(?:the\s+)?$",
    re.IGNORECASE,
)
_ANCHOR = re.compile(
    rf"\b(?P<the>the\s+)?(?:(?P<count>{COUNT})\s+)?(?P<unit>{UNIT}|night|weekend|{WEEKDAY})\s+"
    r"(?P<side>before|after|prior\s+to)\s+(?:the\s+)?$",
    re.IGNORECASE,
)
_WORD = re.compile(
    r"\b(?P<word>since|after|before|prior\s+to|until|till|up\s+to|as\s+of|by|between|from|in|on|at|during|over|around|"
    r"throughout)\s+(?:the\s+)?(?:(?:year|months?)\s+(?:of\s+)?)?$",
    re.IGNORECASE,
)


class Found(Struct, frozen=True):
    """A rule's match together with the words before it.

    `part` narrows its days, `anchor` moves them, `word` is the preposition before both. `begin` is the position of the
    whole, `inner` its position without `word`.
    """

    match: Match
    part: re.Match[str] | None
    anchor: re.Match[str] | None
    word: str
    begin: int
    inner: int

    def stands(self) -> bool:
        """Return whether it names days by itself."""
        after = RULES[self.match.rule].after
        nearest = self.anchor["side"].lower() if self.anchor else self.word
        return not after or self.part is not None or re.fullmatch(after, nearest) is not None

    def read(self, context: Context) -> Point | None:
        """Return the days; None if there are no such days."""
        try:
            point = self.match.read(context)
            days = point.days
            if self.part:
                days = _narrowed(days, self.part, context.day)
            if self.anchor:
                days = _moved_from(days, self.anchor)
        except (ValueError, OverflowError):
            return None
        return Point(days, point.repeats)


def look_before(text: str, match: Match) -> Found:
    """Return `match` together with the words before it in `text`."""
    begin = match.begin

    def before(pattern: re.Pattern[str]) -> re.Match[str] | None:
        nonlocal begin
        seen = pattern.search(text[max(0, begin - _BEFORE) : begin])
        if seen:
            begin -= len(seen[0])
        return seen

    part = before(_PART)
    anchor = before(_ANCHOR)
    inner = begin
    word = before(_WORD)
    return Found(match, part, anchor, re.sub(r"\s+", " ", word["word"].lower()) if word else "", begin, inner)


def _narrowed(days: Days, part: re.Match[str], today: date) -> Days:
    """Return the part of `days` named by the words before them; all of them if that part would be empty."""
    if part["when"]:
        narrowed = (days[0], today) if part["when"].lower() == "earlier" else (today, days[1])
    elif (what := (part["what"] or "").lower()) == "half":
        narrowed = half_of(days, second=part["nth"].lower() != "first")
    elif what:
        narrowed = nth_of(days, _NTH[part["nth"].lower()], what)
    else:
        narrowed = part_of(days, (part["edge"] or part["side"]).lower())
    return narrowed if narrowed[0] <= narrowed[1] else days


def _moved_from(days: Days, anchor: re.Match[str]) -> Days:
    """Return days such as "two weeks before" `days`, or those next to them ("the week before")."""
    earlier = anchor["side"].lower() != "after"
    pivot, sign = (days[0], -1) if earlier else (days[1], 1)
    unit, count = anchor["unit"].lower(), count_of(anchor["count"])
    if unit in WEEKDAYS or unit == "weekend":
        weekday = WEEKDAYS.index("saturday" if unit == "weekend" else unit)
        first = previous_weekday(pivot, weekday) if earlier else following_weekday(pivot, weekday)
        return first, first + timedelta(unit == "weekend")
    unit, start = "day" if unit == "night" else unit, Context.on(pivot).moment
    if anchor["count"] and not anchor["the"]:
        return shifted(start, count, unit, sign)
    near, far = pivot + timedelta(sign), moved(start, sign * count[1], unit)
    return min(near, far), max(near, far)


Looks = Callable[[str, int, int], bool]
"""Function that tells, from a text and the begin and end of a phrase, whether the phrase looks ahead."""


class Phrase(Struct, frozen=True):
    """A phrase found in a text, from character `begin` to `end`.

    `days` is None when there are no such days. `word` is the preposition before it: "since", "in", "" and so on.
    `repeats`: the days recur every week or year. `found` is the match of the phrase, None if there are two.
    """

    begin: int
    end: int
    word: str
    days: Days | None
    repeats: bool = False
    found: Found | None = None


_PLAIN = str.maketrans(
    # Typographic marks, and the letters that a regular expression takes for s, i and k if it ignores case.
    "\N{RIGHT SINGLE QUOTATION MARK}\N{EN DASH}\N{LATIN SMALL LETTER LONG S}\N{LATIN SMALL LETTER DOTLESS I}"
    "\N{LATIN CAPITAL LETTER I WITH DOT ABOVE}\N{KELVIN SIGN}",
    "'-siik",
)
_AND = re.compile(r",?\s+and\s+(?:the\s+)?", re.IGNORECASE)
_OR = re.compile(r",?\s+(?:and|or)\s+", re.IGNORECASE)
_TO = re.compile(r"\s*(?:\bto\b|\buntil\b|\btill\b|\bthrough\b|-)\s*(?:the\s+)?", re.IGNORECASE)
_TOUCHING = re.compile(r",?\s{1,3}(?:(?:of|in|on)\s)?", re.IGNORECASE)
_ONWARD = re.compile(r"\s+(?:on|onwards?|forward)\b", re.IGNORECASE)
_STRAY = {"at", "from", "over", "around"}
"""Words that carry no meaning before a phrase on its own: "the cake from last week"."""
_JOINED_DATES = {"month_first", "day_first", "numeric", "of_year"}


def find_phrases(text: str, moment: datetime, looks_ahead: Looks = lambda text, begin, end: False) -> list[Phrase]:
    """Return all phrases of `text` that name days, in order of appearance, not overlapping.

    Args:
        moment: date and time of the text, naive.
        looks_ahead: decides whether "in June" means the next June or the latest.
    """
    text = text.translate(_PLAIN)
    matches = [look_before(text, match) for match in find_matches(text)]
    phrases: list[Phrase] = []
    position = 0
    while position < len(matches):
        first, *rest = matches[position : position + 2]
        context = Context(moment, looks_ahead(text, first.begin, first.match.end))
        position += 1
        if rest and _joined(text, first, rest[0]):
            phrase = _join(first, rest[0], context)
            position += 1
        elif first.stands() or (phrases and _listed(text, phrases[-1], first)):
            phrase = _alone(text, first, context)
        else:
            continue
        while phrases and phrase.begin < phrases[-1].end:
            phrases.pop()
        if phrases and (merged := _merged(text, phrases[-1], phrase)):
            phrases[-1] = merged
        else:
            phrases.append(phrase)
    return phrases


def _alone(text: str, found: Found, context: Context) -> Phrase:
    point = found.read(context)
    begin, end, word = found.begin, found.match.end, found.word
    if word == "from" and (onward := _ONWARD.match(text, end)):
        end, word = onward.end(), "since"
    elif word in _STRAY and not RULES[found.match.rule].after:
        begin = found.inner
    if point is None or word == "between":
        return Phrase(begin, end, word, None)
    return Phrase(begin, end, word, point.days, point.repeats, found)


def _listed(text: str, last: Phrase, found: Found) -> bool:
    """Return whether `found` continues a list: "in March and May"."""
    same = last.found is not None and last.found.match.rule == found.match.rule
    return same and _OR.fullmatch(text, last.end, found.match.begin) is not None


def _joined(text: str, first: Found, second: Found) -> bool:
    gap = text[first.match.end : second.inner]
    if first.word == "between":
        return _AND.fullmatch(gap) is not None
    dates = first.match.rule in _JOINED_DATES and second.match.rule in _JOINED_DATES
    return (dates or first.word == "from") and first.match.rule != "weekday" and _TO.fullmatch(gap) is not None


def _join(first: Found, second: Found, context: Context) -> Phrase:
    """Return the days from the first of one to the last of the other; a repeating one is chosen to suit the other."""
    left, right = first.read(context), second.read(context)
    if left and right and left.repeats and not right.repeats:
        left = first.read(Context.on(right.days[1]))
    if left and right and right.repeats:
        right = second.read(Context.on(left.days[0], ahead=True))
    if left is None or right is None or left.days[0] > right.days[1]:
        return Phrase(first.begin, second.match.end, "", None)
    return Phrase(first.begin, second.match.end, "", (left.days[0], right.days[1]), left.repeats and right.repeats)


def _merged(text: str, first: Phrase, second: Phrase) -> Phrase | None:
    """Return two adjacent phrases, such as "on Monday" and "last week", as one; None if they are separate."""
    if not _TOUCHING.fullmatch(text, first.end, second.begin) or first.repeats == second.repeats:
        return None
    found, fixed = (first.found, second.days) if first.repeats else (second.found, first.days)
    if found is None or fixed is None:
        return None
    point = found.read(Context.on(min(fixed[1], date.max - timedelta(1)) + timedelta(1)))
    if point is None or not fixed[0] <= point.days[0] <= point.days[1] <= fixed[1]:
        return None
    return Phrase(first.begin, second.end, first.word or second.word, point.days)


# The range of days that a question names, by rules.


class TimeRange(Struct, frozen=True):
    """Days from `start` to `end`, both included; None means open.

    `phrase` contains the words that name the range.
    """

    start: date | None
    end: date | None
    phrase: str


class Resolution(Struct, frozen=True):
    """A question's range, or None and, if the question seemed to name one, a `note` that says why there is none."""

    range: TimeRange | None
    note: str = ""
    usage: Usage = Usage()
    """Cost of the model call; zero when rules resolved the range."""


# "How long between A and B" names days to count from, not days to look in.
_ASKS_LENGTH = re.compile(
    r"\bhow\s+(?:long\b.*\b(?:since|until)\b|(?:many\s+(?:hours|days|weeks|weekends|months|years)|long|much\s+time)\b"
    r"(?:\s+(?:before|after|between|prior)\b|.*\b(?:passed|elapsed|lapsed|apart|been\s+since)\b|"
    r".*\b(?:is|are|was|were|there|it)\s+between\b))",
    re.IGNORECASE | re.DOTALL,
)


def resolve_range(question: str, asked_on: datetime) -> Resolution:
    """Return the range that a question names, by rules: offline, deterministic, independent of locale and time zone.

    "two weeks ago" leaves 3 days to either side, "two months ago" 10; "last week" is Monday to Sunday, "the past week"
    the seven days up to the question; "in June" and "on Friday" are the latest past ones; "since", "before" and "after"
    leave one side open. Two phrases make one range if they are joined ("between … and"), if they close it from both
    sides, or if one is within the other.

    Args:
        asked_on: date of the question, naive.
    """
    phrases = find_phrases(question, asked_on)
    if not phrases:
        return Resolution(None)
    named = ", ".join(f'"{question[phrase.begin : phrase.end]}"' for phrase in phrases)
    if _ASKS_LENGTH.search(question):
        return Resolution(None, f"the question asks for a length of time; {named} bounds it and is not a range")
    ranges = [_opened(phrase, question) for phrase in phrases]
    if None in ranges:
        return Resolution(None, f"the calendar has no such days: {named}")
    combined = _combined([found for found in ranges if found])
    if combined is None:
        return Resolution(None, f"the question names more than one time: {named}")
    if combined.start and combined.end and combined.start > combined.end:
        return Resolution(None, f"the range ends before it begins: {named}")
    return Resolution(combined)


def _opened(phrase: Phrase, question: str) -> TimeRange | None:
    """Return the days of a phrase, open on the side that the word before it opens."""
    if phrase.days is None:
        return None
    text = question[phrase.begin : phrase.end]
    first, last = phrase.days
    match phrase.word:
        case "since":
            return TimeRange(first, None, text)
        case "after":
            return TimeRange(_day_from(last, 1), None, text)
        case "before" | "prior to":
            return TimeRange(None, _day_from(first, -1), text)
        case "until" | "till" | "up to" | "by" | "as of":
            return TimeRange(None, last, text)
    return TimeRange(first, last, text)


def _day_from(day: date, step: int) -> date:
    return date.fromordinal(min(max(day.toordinal() + step, date.min.toordinal()), date.max.toordinal()))


def _combined(ranges: list[TimeRange]) -> TimeRange | None:
    """Return the one range that all `ranges` name together; None if they name several."""
    for candidate in ranges:
        if all(_within(candidate, other) for other in ranges):
            return candidate
    starts = [candidate for candidate in ranges if candidate.end is None]
    ends = [candidate for candidate in ranges if candidate.start is None]
    if len(ranges) == 2 and starts and ends:
        return TimeRange(starts[0].start, ends[0].end, f"{ranges[0].phrase} … {ranges[1].phrase}")
    return None


def _within(inner: TimeRange, outer: TimeRange) -> bool:
    starts_later = outer.start is None or (inner.start is not None and inner.start >= outer.start)
    ends_earlier = outer.end is None or (inner.end is not None and inner.end <= outer.end)
    return starts_later and ends_earlier
