"""Find the sentences of a user's message that are the user's own statements, and shorten them.

Chat histories are full of pasted text, stories, code and role play, all in the first person. A sentence that may not be
the user's own is left out: a wrong fact in a profile costs more than a missing one.
"""

import re
from collections.abc import Iterator

MAX_CHARACTERS = 160
"""Maximum characters of an entry's text."""

MAX_MESSAGE = 2000
"""Maximum characters of a message that is read; longer ones are taken for pasted text."""

_ASK = (
    r"(?:(?:^|[.!?,\n])[ \t]*(?:(?:please|now|ok(?:ay)?|hey|hi|hello|so|and|then|i want|i need|i'd like|let's)[, ]+)*"
    r"|\b(?:you|please|help me)(?: please| to| also)? +)"
)
_ROLE_PLAY = re.compile(
    rf"{_ASK}(?:to )?(?:act (?:as|like)|pretend|role-?play|imagine (?:you|that|yourself|an?|the)|play the (?:role|part)"
    r"|from now on,? you|simulate|assume the (?:role|persona))\b"
    r"|\A[ \n]*you are (?:now )?an? (?!life-?saver|genius|star|gem|legend|angel|great|good|big|huge|wonderful)",
    re.IGNORECASE,
)
_DOCUMENT = (
    r"story|stories|script|scene|screenplay|poem|haiku|song|lyrics|rap|joke|dialogue|conversation|monologue|novel|chapter"
    r"|e-?mail|letter|message|text|reply|response|essay|article|blog|post|review|caption|tweet|speech|statement|summary"
    r"|paragraph|paper|report|resume|cv|bio|biography|description|case study|profile|code|function|program|disclaimer"
)
_TASK = re.compile(
    rf"{_ASK}(?:(?:re)?write|draft|compose|generate|create)\b[^.?!\n]{{0,60}}\b(?:{_DOCUMENT})s?\b"
    rf"|{_ASK}(?:translate|paraphrase|rephrase|reword|proofread|summari[sz]e|rewrite|continue)\b"
    rf"|{_ASK}(?:correct|fix|check|improve|edit) (?:my|the|this) (?:grammar|text|sentence|paragraph|writing|essay)\b",
    re.IGNORECASE,
)
_LETTER = re.compile(
    r"^(?:dear|hi|hello|hey)\b[^.!?\n]{0,40},\s*$|^(?:sincerely|(?:best|kind|warm) regards)\b", re.I | re.M
)
_SPEAKER_LINE = re.compile(r"^\W{0,3}[A-Z][\w .]{0,24}:\s+\S", re.MULTILINE)
_CODE = re.compile(r"```|[;{}][ \t]*$|^[ \t]*(?:import|def|class|function|SELECT|#include)\b|</\w+>", re.MULTILINE)

# From here on patterns read one line with single spaces.
_SENTENCE_END = re.compile(
    r"(?<=[.!?])(?<!\b[A-Z]\.)(?<!\b(?:Dr|Mr|Ms|St|vs|Mt|Jr|Sr|No)\.)(?<!\b(?:Mrs|e\.g|i\.e)\.)(?<!\bProf\.)"
    r"[\"')]* (?=[\"'(]*[A-Z0-9])"
)
_GREETING = re.compile(r"^(?:hi|hello|hey)(?: there)?[,.!]* ", re.IGNORECASE)
_INTRODUCTION = re.compile(r"(?:I'm|I am) [A-Z]")
_LEAD_IN = re.compile(
    r"^(?:(?:by the way|btw|speaking of (?:which|that|[\w ']{1,40}(?=,))|oh|yeah|yes|yep|no|well|anyway|also|actually"
    r"|and|so|but|thanks|thank you|in fact|plus|besides|ok|okay|hmm|wow|haha|wait|to be honest|honestly|i mean)\b"
    r"[,.!]* )+",
    re.IGNORECASE,
)
_REQUEST = re.compile(
    r"(?:[,;]| [-\u2013\u2014]| (?:and|so|but)) ?(?:(?:and|so|but) )?(?:I (?:was|am) |I'm |was |am )?"
    r"(?:(?:just|also) )*(?:wondering|hoping you|curious (?:if|about|whether))\b.*$"
    r"|(?:[,;]| [-\u2013\u2014]) ?(?:(?:and|so|but) )?(?:do|does|did|can|could|would|will|should|is|are|any|what|which"
    r"|how|where|when|who|why)\b[^?]*\?$",
    re.IGNORECASE,
)
_NOT_STATED = re.compile(
    r"^(?:can|could|would|will|do|does|did|is|are|what|which|how|where|who|why|should|shall|let|suppose|please)\b",
    re.IGNORECASE,
)
_ABOUT_THE_CHAT = re.compile(
    r"\byou(?:'ve| have)? (?:sent|mentioned|gave|given|suggested|recommended|said|wrote|provided|shared|listed)\b"
    r"|\byour (?:suggestion|recommendation|tip|advice|answer|help|response|idea)s?\b"
)
_HYPOTHETICAL = re.compile(
    r"\b(?:if|unless|would|wish|suppos(?:e|ing)|assum(?:e|ing)|let's say|scenario|hypothetical(?:ly)?"
    r"|for (?:example|instance)|might|maybe|perhaps|(?:is|was)(?:n't| not) true)\b|^say\b"
    r"|\b(?:story|novel|poem|song|letter|e-?mail|message|line|quote|slogan|motto)\b[^.!?]*:",
    re.IGNORECASE,
)
_FIRST_PERSON = re.compile(r"\b(?:I|my|My|me)\b")
_CLAUSE_BREAK = re.compile(
    r"(?:[;:]| [-\u2013\u2014]|(?<!^Hi),(?! [A-Z][a-z])) "
    r"| (?=(?:and|but|so|because|which|while|since|although|though) (?:I|my|we|it|he|she|they|has|have|was|is)\b)"
)
_CONJUNCTION = re.compile(r"^(?:and|but|so|because|which|while|since|although|though) ")


def is_role_play(message: str) -> bool:
    """Tell whether `message` asks the assistant to play a role: the rest of the session may then be fiction."""
    return _ROLE_PLAY.search(message[:MAX_MESSAGE]) is not None


def statements(message: str, first_person: re.Pattern[str] = _FIRST_PERSON) -> Iterator[str]:
    """Yield the sentences in which the user speaks of themself, without lead-in ("By the way,") and request.

    Args:
        message: the text of a user's turn.
        first_person: pattern of words; a statement must contain one of them.
    """
    if _is_pasted(message):
        return
    for raw_line in message.replace("\u2019", "'").splitlines():
        line = " ".join(raw_line.split())
        if line.startswith(">"):
            continue
        if line.endswith(":"):
            return  # the lines after the colon are quoted
        for sentence in sentences(_without_greeting(line)):
            statement = _REQUEST.sub("", without_lead_in(sentence)).strip()
            if _is_statement(statement, first_person):
                yield statement[0].upper() + statement[1:]


def sentences(line: str) -> list[str]:
    """Return the sentences of one line."""
    return _SENTENCE_END.split(line)


def without_lead_in(sentence: str) -> str:
    """Return `sentence` without a lead-in such as "Oh, well,"."""
    return _LEAD_IN.sub("", sentence)


def is_claimed(sentence: str, start: int) -> bool:
    """Tell whether `sentence` claims what follows character `start`, rather than supposing or quoting it."""
    before = sentence[:start]
    return _HYPOTHETICAL.search(before) is None and before.count('"') % 2 == 0


def _is_statement(sentence: str, first_person: re.Pattern[str]) -> bool:
    is_talk = sentence.endswith("?") or _NOT_STATED.match(sentence) or _ABOUT_THE_CHAT.search(sentence)
    return not is_talk and first_person.search(sentence) is not None


def _is_pasted(message: str) -> bool:
    signs = (_TASK, _LETTER, _CODE)
    return any(sign.search(message) for sign in signs) or len(_SPEAKER_LINE.findall(message)) > 1


def _without_greeting(line: str) -> str:
    greeting = _GREETING.match(line)
    if greeting is None:
        return line
    rest = line[greeting.end() :]
    # The greeting tells "Hi, I'm Anna" from "I'm Italian".
    return f"Hi, {rest}" if _INTRODUCTION.match(rest) else rest


def clause(sentence: str, start: int, end: int) -> str:
    """Return the clause, or clauses, of `sentence` that contain the characters from `start` to `end`."""
    breaks = [match.span() for match in _CLAUSE_BREAK.finditer(sentence)]
    first = max((after for _, after in breaks if after <= start), default=0)
    last = min((before for before, _ in breaks if before >= end), default=len(sentence))
    return _bounded(sentence[first:last])


def shortened(sentence: str, start: int, end: int) -> str:
    """Return `sentence` if it is short enough, else as many clauses around `start` to `end` as fit, next ones first."""
    if len(sentence) <= MAX_CHARACTERS:
        return sentence
    breaks = [match.span() for match in _CLAUSE_BREAK.finditer(sentence)]
    starts = [0, *(after for _, after in breaks)]
    stops = [*(before for before, _ in breaks), len(sentence)]
    first = max(index for index, offset in enumerate(starts) if offset <= start)
    last = min(index for index, offset in enumerate(stops) if offset >= end)
    while last + 1 < len(stops) and stops[last + 1] - starts[first] <= MAX_CHARACTERS:
        last += 1
    while first > 0 and stops[last] - starts[first - 1] <= MAX_CHARACTERS:
        first -= 1
    return _bounded(sentence[starts[first] : stops[last]])


def _bounded(text: str) -> str:
    text = _CONJUNCTION.sub("", text)
    text = text[0].upper() + text[1:]
    if len(text) <= MAX_CHARACTERS:
        return text
    return text[: MAX_CHARACTERS - 2].rsplit(" ", 1)[0] + " …"
