"""The part of an answer that it claims: without what it denies, leaves open, or says of a difference.

"Not £45 but £38" claims 38, "solid oak, not quartz" claims no quartz, "rooms 14 and 23" leaves the room open, and
"cheaper by £38" gives no price. A gold that itself denies something ("she never went"), and a question about a
difference, are read as they are.
"""

import re
from functools import lru_cache

from longmemeval.core.text.quantities import MONTHS, WEEKDAYS, plain_quantities

_LIMIT = re.compile(
    r"[,;:.!?\u2026](?=[\s*\"]|$)|\s[\u2014\u2013-]+\s|\u2014|[()\n]"
    r"|\b(?=(?:but|although|though|while|whereas|because|since|so)\b)"
    r"|\b(?=and (?:it|you|your|they|he|she|we|that|this|the|is|was|now)\b)"
    r"|(?<=\w) (?=(?:it|that|this)(?:'s| is| was)\b)"
)
"""Ends of clauses: a denial reaches no further."""
_DENIAL = re.compile(
    r"\b(?:not|never)\b(?! (?:only|just|until|till|before|to mention|least|sure|certain|far|so|too|including|counting"
    r"|later|more|less|all|necessarily|long|quite)\b)"
    r"|\bno longer\b|\brather than\b|\binstead of\b|\bas opposed to\b|\bneither\b"
)
_FORMER = re.compile(
    r"\bused to (?!\w+ing\b)"
    r"|\b(?:formerly|previously|originally)\b(?! (?:mentioned|said|told|noted|stated|shared|discussed))"
    r"|\b(?:moved|switched|changed|transferred|promoted|went|gone|rose|raised|increased|dropped|fell|up|down)"
    r"(?: \w+){0,3} from(?=.* to\b)"
)
"""Beginnings of values that hold no longer; after "from", up to "to"."""
_PAST = re.compile(r"\b(?:was|were|had)\b(?! (?:\w+ed|been|gone|to)\b)")
_NOW = re.compile(r"\b(?:now|currently|these days|nowadays|at the moment|at present|no longer|any ?more)\b")
_OF_THE_PAST = re.compile(
    r"\b(?:did|was|were|had|used|originally|previous\w*|former\w*|first|initial\w*|before|old(?! (?:is|am|are)\b)"
    r"|ago|last|since|until|start\w*|began|begin)\b"
)
"""Words of questions about something past, for which former values may be right."""
_CONTRAST = re.compile(r"^\W*not\b|\brather than\b|\binstead of\b|\bas opposed to\b")
"""Denials that count if the question itself denies something: "we don't open on Mondays" says when it is closed."""
_OF_DENIAL = re.compile(
    r"\b(?:not|never|closed?|shut|avoid|miss\w*|refus\w*|dislike|hate|stop\w*|quit|without|except|skip\w*|cancel\w*)\b"
    r"|n't\b"
)
_EXCEPTION = re.compile(r"\b(?:except|than(?<!rather than)|apart from|besides|unless|without|nothing but)\b")
"""Words that turn a denial into a claim: "nothing farther than Recife"."""
_SUBJECT = re.compile(r"\W*(?:[\w'$£€]+ ){1,6}(?:is|are|was|were) $")
"""A short subject before "not" or "no longer": "tenor is not your part" denies the tenor too."""
_OPEN = re.compile(
    r"\beither\b(?! way\b).*\bor\b|\bone of (?:the|those|these) (?:two|three|both)\b"
    r"|\b(?:mentioned|said|gave|given|named|listed|told me) both\b|\bboth\b.*\b(?:mentioned|listed|come up|came up)\b"
    r"|\bi (?:am not (?:sure|certain)|can not (?:tell|say)) (?:which|whether|if)\b"
    r"|\b(?:unclear|unsure) (?:which|whether)\b"
    r"|\bor (?:maybe|perhaps|possibly)\b|\b(?:could|may|might) be [^,.]{1,40} or\b"
    r"|\bin one (?:chat|session|conversation|message|place)\b.*\banother\b|\bat different (?:points|times)\b"
)
"""Sentences that leave open which of several values is right."""
_SENTENCE = re.compile(r"(?<=[.!?])[*_\")]*\s+|\n+")
_AMOUNT = r"[$£€]?\d+(?:[.:]\d+)*(?:st|nd|rd|th)?"
_DETERMINER = re.compile(r"^(?:(?:the|an?|my|your|his|her|their|our) )?")
_DIGIT = re.compile(r"\d")
_VALUE = rf"(?:(?:{'|'.join(MONTHS)}) )?{_AMOUNT}".lower()
_PAIR = re.compile(
    rf"(?<![\w.])(?P<first>{_VALUE})(?P<unit>(?: [a-z][a-z1]*)?),? (?:and|or|/)(?: (?:also|maybe|on|at))? "
    rf"(?P<second>{_VALUE})(?P<other>(?: [a-z][a-z1]*)?)"
)
_DAYS = "|".join(WEEKDAYS).lower()
_WEEKDAYS = re.compile(rf"\b(?:{_DAYS})s?(?:(?:,|,? and|,? or)(?: on| also on)? (?:{_DAYS})s?\b)+")
_MORE = "cheaper|dearer|higher|lower|faster|slower|longer|shorter|older|younger|heavier|lighter|farther|further|larger"
_DIFFERENCE = re.compile(
    rf"{_AMOUNT}(?: \w+){{0,2}} (?:(?:less|fewer|more) than|(?:{_MORE})\b)"
    rf"|\b(?:{_MORE}|less|more|up|down|rose|risen|fell|raised|increased|cut|dropped|reduced)\b"
    rf"(?: \w+){{0,3}} by (?:about |around )?{_AMOUNT}(?: every1\w+)?"
)
_OF_DIFFERENCE = re.compile(
    rf"\b(?:more|less|fewer|{_MORE}|by how|difference|increase|grow\w*|change\w*|raise|discount|save|saved|extra"
    r"|improve\w*|between|reduc\w+|gain\w*|lose|lost)\b"
)
_ASKS_FOR_SEVERAL = re.compile(r"\border\b|\bboth\b|\bnames\b|\bbetween\b|\bwhich (?:two|three)\b")
_DENYING = re.compile(r"\b(?:not?|never|neither|nothing|none|without|either)\b|n't\b|\bor\b")


@lru_cache(maxsize=1 << 11)
def claimed(text: str, question: str, forms: tuple[str, ...], near: int = 0) -> str:
    """Return what a text claims, in lower case with plain quantities; cached, since runs repeat answers.

    Args:
        text: an answer, or sentences of it.
        question: the question.
        forms: the acceptable forms of the gold.
        near: allowed difference of a number from that of the gold.
    """
    whole = " ".join(forms)
    names = [form for form in forms if re.fullmatch(r"[A-Z][\w'-]+", form)]
    text = text.replace("\u2019", "'")
    for name in names:
        text = _without_other_name(text, name, question)
    text = text.lower().replace("cannot", "can not").replace("can't", "can not").replace("won't", "will not")
    text = text.replace("n't", " not").replace("i'm ", "i am ")
    if not _DENYING.search(whole.lower()):
        text = "\n".join(part for part in _SENTENCE.split(text) if not _OPEN.search(part))
        asked = question.lower()
        denial = _CONTRAST if _OF_DENIAL.search(asked) else _DENIAL
        text = _asserted(text, denial, former=not _OF_THE_PAST.search(asked) and " to " not in whole)
    text, asked = plain_quantities(text), question.lower()
    counts = bool(_DIGIT.search(text))
    if not _ASKS_FOR_SEVERAL.search(asked):
        if counts:
            text = _decided(text, {number for form in forms for number in _values(plain_quantities(form))}, near)
        for form in forms:
            if 0 < len(form.split()) <= 4:
                text = _without_parallel(text, form.lower(), asked)
        days = set(re.findall(_DAYS, whole.lower()))
        text = _WEEKDAYS.sub(lambda match: "" if set(re.findall(_DAYS, match[0])) - days else match[0], text)
    return text if not counts or _OF_DIFFERENCE.search(asked) else _DIFFERENCE.sub(" ", text)


def _asserted(text: str, denial: re.Pattern[str], *, former: bool) -> str:
    """Return the text without the denied parts of its clauses and, if `former`, without values of the past."""
    now = max((match.start() for match in _NOW.finditer(text)), default=0) if former else 0
    if not now and not denial.search(text) and not (former and _FORMER.search(text)):
        return text
    parts, start = [], 0
    for limit in [*(match.span() for match in _LIMIT.finditer(text)), (len(text), len(text))]:
        clause = text[start : limit[0]]
        if (denied := denial.search(clause)) and not _EXCEPTION.search(clause):
            clause = "" if _SUBJECT.match(clause[: denied.start()]) else clause[: denied.start()]
        if former and (past := _FORMER.search(clause)):
            clause = clause[: past.start()] + (
                clause[clause.rindex(" to ") :] if "from" in past[0] and " to " in clause else ""
            )
        if limit[0] <= now and _PAST.search(clause) and not _NOW.search(clause):
            clause = ""
        parts += [clause, text[slice(*limit)]]
        start = limit[1]
    return "".join(parts)


def _values(text: str) -> set[str]:
    return {value.lstrip("$£€") for value in re.findall(_VALUE, text)}


def _decided(text: str, right: set[str], near: int) -> str:
    """Return the text without pairs of a right value and another of the same unit."""
    accepted = right | {str(int(value) + step) for value in right if value.isdigit() for step in range(-near, near + 1)}

    def kept(match: re.Match[str]) -> str:
        first, second = (match[place].lstrip("$£€") for place in ("first", "second"))
        units = {match["unit"].strip().rstrip("s"), match["other"].strip().rstrip("s")} - {""}
        alike = len(units) < 2 or not match["unit"]
        return " " if alike and len({first, second} & accepted) == 1 else match[0]

    return _PAIR.sub(kept, text)


def _without_other_name(text: str, name: str, question: str) -> str:
    """Return the text without the name where another name stands beside it: "Tenerife and Recife"."""
    if name not in text or not (" and " in text or " or " in text):
        return text
    beside = re.compile(
        rf"\b(?P<before>[A-Z][\w'-]+),? (?:and|or)(?: also)? (?:(?:in|on|at|to|the) )*{name}\b"
        rf"|\b{name},? (?:and|or)(?: also)? (?:(?:in|on|at|to|the) )*(?P<after>[A-Z][\w'-]+)"
    )
    return beside.sub(lambda match: match[0] if (match["before"] or match["after"]) in question else " ", text)


def _without_parallel(text: str, value: str, question: str) -> str:
    """Return the text without the value where another is joined to it: "on payments and on search", "oak or quartz"."""
    value = _DETERMINER.sub("", value)
    if value not in text or value[:1] in "$£€0123456789" or not (" and " in text or " or " in text):
        return text
    value = re.escape(value)
    beside = re.compile(
        rf"\b(?P<place>on|in|at|with|for|to|from) [\w' -]{{2,40}} and (?:also )?(?P=place) (?:the )?{value}(?!\w)"
        rf"|\b(?P<word>[a-z][\w'-]+) (?:and|or)(?: also)? {_DETERMINER.pattern[1:]}{value}(?!\w)"
        rf"|\b{value} or (?!so\b|some|thereabouts|more\b|similar)[a-z]"
    )
    return beside.sub(lambda match: match[0] if match["word"] and match["word"] in question else " ", text)
