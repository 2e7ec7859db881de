"""The rules: which English phrases name days.

They favour precision over recall: a month, a year, a weekday, a season or a holiday counts only after a word that makes
it a time ("in June", not "June said").
"""

import re
from collections.abc import Callable, Iterator
from functools import cache, lru_cache

from msgspec import Struct

from longmemeval.core.text.dates_in_text.meanings import (
    Context,
    Groups,
    Point,
    ago,
    day_of_month,
    day_of_this,
    decade,
    from_weekday,
    half,
    later,
    named,
    near_day,
    numeric,
    quarter,
    recurring,
    same_time,
    weekday,
    window,
    year,
)
from longmemeval.core.text.dates_in_text.vocabulary import (
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
    YEAR,
)


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

    Histories of one data set share sessions: a text that was read before is not read again.
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
