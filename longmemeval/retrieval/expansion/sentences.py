"""Sentences of a chat message, and those in which people tell something of themselves."""

import re

_MAX_MESSAGE = 3000
"""Characters of the longest message that is read for statements; what is longer is taken for pasted text."""

_SENTENCE_END = re.compile(
    r"(?:(?<=[.!?])(?<!\b(?:Dr|Mr|Ms|St|vs|Mt|Jr|Sr|No)\.)(?<!\b(?:Mrs|e\.g|i\.e)\.)|(?<=[.!?][\"')\]]))\s+(?=[\"'(\[]*\w)"
)
_PASTED = re.compile(
    r"```|[;{}][ \t]*$|</\w+>|^[ \t]*(?:import|def|class|function|SELECT)\b|^dear\b[^.!?\n]{0,40},\s*$"
    r"|^(?:sincerely|(?:best|kind|warm) regards)\b",
    re.IGNORECASE | re.MULTILINE,
)
_TASK = re.compile(
    r"(?:^|[.!?\n])[ \t]*(?:(?:please|can you|could you|now|hey|hi|i (?:want|need) you to|i'd like you to)[, ]+)*"
    r"(?:act (?:as|like)|pretend|role-?play|imagine (?:you|that)|you are (?:now )?an?|(?:re)?write|draft|compose"
    r"|translate|paraphrase|rephrase|proofread|summari[sz]e|continue)\b",
    re.IGNORECASE,
)
_LEAD_IN = re.compile(
    r"^(?:(?:by the way|btw|speaking of [\w '-]{1,40}(?=,)|oh|yeah|yes|no|well|anyway|also|actually|and|so|but|thanks"
    r"|thank you|in fact|ok|okay|hmm|wow|haha|hey|hi|hello)\b[,.!]* )+",
    re.IGNORECASE,
)
# What is asked behind a statement: ", do you have any tips?", "and I was wondering if …".
_REQUEST = re.compile(
    r"(?:[,;]| [-\u2013\u2014]| (?:and|so|but)) ?(?:(?:and|so|but) )?(?:I(?:'m| am| was) )?(?:just )?"
    r"(?:wondering|hoping you|curious (?:if|about|whether))\b.*$"
    r"|(?:[,;]| [-\u2013\u2014]) ?(?:(?:and|so|but) )?(?:do|does|did|can|could|would|will|should|is|are|any|what|which"
    r"|how|where|when|who|why)\b[^?]*\?$",
    re.IGNORECASE,
)
_ASKED = re.compile(
    r"^(?:(?:can|could|would|will|do|does|did|is|are|what|which|how|where|who|why|should|shall|let|please|give|tell|show)\b"
    r"|I(?: was|'m| am) (?:just )?(?:wondering|curious|hoping you)\b|I(?:'d like| want| need) you\b"
    r"|I (?:have|had) an? (?:\w+ )?question)",
    re.IGNORECASE,
)
_ABOUT_THE_CHAT = re.compile(
    r"\byou(?:'ve| have)? (?:mentioned|gave|given|suggested|recommended|said|wrote|provided|shared|listed)\b"
    r"|\byour (?:suggestion|recommendation|tip|advice|answer|help|response)s?\b",
    re.IGNORECASE,
)
_FIRST_PERSON = re.compile(r"\b(?:i|me|my|mine|myself|we|us|our|ours|ourselves)\b", re.IGNORECASE)


def sentences(message: str) -> list[str]:
    """The sentences of `message` in order, each on one line; a line of the message ends a sentence too."""
    lines = (" ".join(line.split()) for line in message.replace("\u2019", "'").splitlines())
    return [sentence for line in lines for sentence in _SENTENCE_END.split(line) if sentence]


def statements(message: str) -> list[str]:
    """The sentences in which somebody tells of themself, without lead-in ("By the way,") and trailing request.

    A message that is a writing task, pasted text or code has none: its first person is somebody else.
    """
    if len(message) > _MAX_MESSAGE or _PASTED.search(message) or _TASK.search(message):
        return []
    told = (_REQUEST.sub("", _LEAD_IN.sub("", sentence)).strip() for sentence in sentences(message))
    return [sentence[0].upper() + sentence[1:] for sentence in told if sentence and _is_statement(sentence)]


def _is_statement(sentence: str) -> bool:
    is_talk = sentence.endswith("?") or _ASKED.search(sentence) or _ABOUT_THE_CHAT.search(sentence)
    return not is_talk and _FIRST_PERSON.search(sentence) is not None
