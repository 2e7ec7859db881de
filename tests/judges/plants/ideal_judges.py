"""Judges of rules that do what the prompts of the benchmarks say; they see nothing of how plants are made.

Each reads question, gold and reply out of the prompt as it is sent, and answers as the prompt demands. They compare
words, so they are for replies that say things in the words of the gold or not at all.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from longmemeval.judges.offline.refusal import abstains
from longmemeval.llm.protocol import ChatMessage, ChatReply, ChatRequest
from longmemeval.records import Usage

Decide = Callable[[bool], bool]
"""From what is true to what is said of it."""

_WORDS = re.compile(r"[a-z]+")
_NUMBERS = _WORDS.findall("zero one two three four five six seven eight nine ten eleven twelve")
_IDLE = frozenset(
    _WORDS.findall("a an the and of to in on at for by with it is was were are be been i you my your me am")
)
_ORDER = re.compile(r"\border\b|\bfirst\b|\bearliest\b|\blast\b|chronolog", re.IGNORECASE)
_UNDECIDED = re.compile(r"cannot tell which|not sure which|one of the two", re.IGNORECASE)
_FORGIVES = "do not penalize off-by-one errors"


@lru_cache(maxsize=1 << 14)
def words(text: str) -> tuple[str, ...]:
    """Words and numbers in order, numbers as digits, weeks as days, plurals without their s."""
    low = re.sub(r"(?<=\d),(?=\d{3})", "", text.lower().replace("\u2019", "'"))
    found = re.findall(r"[a-z]+(?:'[a-z]+)?|\d+(?:[.:/]\d+)*", low)
    digits = [str(_NUMBERS.index(one)) if one in _NUMBERS[2:] else one for one in found]
    for place in range(len(digits) - 1):
        if digits[place + 1] in ("week", "weeks") and (digits[place].isdigit() or digits[place] == "one"):
            count = 1 if digits[place] == "one" else int(digits[place])
            digits[place : place + 2] = [str(7 * count), "day"]
    plain = (re.sub(r"'s$|(?<=[a-z]{3})s$|(?<=\d)(?:st|nd|rd|th)$", "", one) for one in digits)
    return tuple(one for one in plain if one not in _IDLE)


def alternatives(gold: str) -> list[str]:
    """Every answer that a gold accepts."""
    aside = re.findall(r"\((?:or|also) ([^)]*)\)", gold)
    plain = re.sub(r"\((?:or|also) [^)]*\)", "", gold)
    sentences = re.split(r"(?<=[.;])\s+", plain)
    also = [re.sub(r"\W*\b(?:is|are|would be)? ?also (?:acceptable|fine)\b.*", "", one) for one in sentences]
    accepting = [place for place, one in enumerate(sentences) if also[place] != one]
    rest = " ".join(one for place, one in enumerate(sentences) if place not in accepting)
    ways = [rest, *aside, *(re.sub(r"\([^)]*\)", "", also[place]) for place in accepting)]
    return [part for way in ways for part in ([way] if "," in way else re.split(r"\bor\b", way)) if words(part)]


def holds(said: Sequence[str], wanted: Sequence[str], *, one_off: bool = False) -> bool:
    """Whether all words are there, numbers at most one off where that is forgiven."""
    numbers = {int(one) for one in said if one.isdigit()}
    near = {str(one + step) for one in numbers for step in (-1, 0, 1)} if one_off else set[str]()
    return set(wanted) <= {*said, *near}


def is_right(question: str, gold: str, reply: str, *, one_off: bool = False, may_waver: bool = False) -> bool:
    """Whether a reply gives the answer of a gold."""
    if not reply.strip() or (_UNDECIDED.search(reply) and not may_waver):
        return False
    said = words(reply)
    for way in alternatives(gold):
        wanted = words(way)
        if holds(said, wanted, one_off=one_off):
            places = [said.index(one) for one in dict.fromkeys(wanted) if one in said]
            listed = way.count(",") > 1 and _ORDER.search(question)
            if not listed or places == sorted(places):
                return not abstains(reply) or abstains(gold)
    return False


def follows(rubric: str, reply: str) -> bool:
    """Whether a reply takes up most of what a rubric of preferences says."""
    wanted = set(words(rubric))
    return len(wanted & set(words(reply))) >= 0.6 * len(wanted)


def nugget_score(nugget: str, reply: str) -> float:
    """BEAM: 1 for a statement that is made, .5 for a part of it, 0 for none or another value."""
    head, colon, rest = nugget.partition(":")
    wanted = words(rest if colon and re.search(r"response should", head, re.IGNORECASE) else nugget)
    said = words(reply)
    if holds(said, wanted) or (abstains(nugget) and abstains(reply)):
        return 1.0
    numbers = [one for one in wanted if one[0].isdigit()]
    if not holds(said, numbers):
        return 0.0
    return 0.5 if len(set(wanted) & set(said)) >= 0.6 * len(set(wanted)) else 0.0


def same_event(first: str, second: str) -> bool:
    """BEAM: whether two snippets say the same, whatever numbers the second as an item."""
    frameless = re.sub(r"^.*?response should \w+:", "", first, flags=re.IGNORECASE)
    return words(frameless) == words(re.sub(r"^\s*(?:\d+[.)]|[-*])\s*", "", second))


def linked(evidence: str, reply: str) -> bool:
    """LoCoMo-Plus: whether a reply reflects what was said, be it in the other person's words."""
    said_first = re.split(r"\\nB:|\sB:", evidence.split("\n")[0].partition("\N{FULLWIDTH COLON}")[2])[0]
    wanted = set(words(said_first))
    return len(wanted & set(words(reply))) >= 0.6 * len(wanted)


class IdealModel:
    """A chat model that answers every judge's prompt by the rules above.

    Args:
        spec: what it is called.
        decide: what it says, from a prompt and what is true; by default the truth.
    """

    def __init__(self, spec: str, decide: Callable[[str, bool], bool] = lambda prompt, verdict: verdict) -> None:
        self.spec, self._decide = spec, decide

    async def complete(self, request: ChatRequest) -> ChatReply:
        return ChatReply(self._reply(request.messages), "stop", Usage(calls=1))

    def _reply(self, messages: Iterable[ChatMessage]) -> str:
        prompt = "\n\n".join(message.content for message in messages)

        def decide(verdict: bool) -> bool:
            return self._decide(prompt, verdict)

        ways = (_beam, _locomo_plus, _longmemeval, _strict, _convomem)
        return next(reply for way in ways if (reply := way(prompt, decide)))


def _parts(pattern: str, prompt: str) -> tuple[str, ...]:
    found = re.search(pattern, prompt, re.DOTALL)
    return tuple(found.groups()) if found else ()


def _beam(prompt: str, decide: Decide) -> str:
    if found := _parts(r"RUBRIC CRITERION \(what to check\): (.*)\n- RESPONSE TO EVALUATE: (.*?)\n\n## EVAL", prompt):
        score = nugget_score(*found)
        said = score if score == 0.5 else float(decide(score == 1))
        return json.dumps({"score": said, "reason": "r"})
    if found := _parts(r"First snippet: (.*?) \n.*Second snippet: (.*?)\n *$", prompt):
        return "YES" if decide(same_event(*found)) else "NO"
    return ""


def _locomo_plus(prompt: str, decide: Decide) -> str:
    found = _parts(r"Memory/Evidence:\n(.*)\n\nModel Prediction:\n(.*)\n\nReturn your judgment", prompt)
    return json.dumps({"label": "correct" if decide(linked(*found)) else "wrong", "reason": "r"}) if found else ""


def _longmemeval(prompt: str, decide: Decide) -> str:
    shape = r"Question: (.*)\n\n(Correct Answer|Explanation|Rubric): (.*)\n\nModel Response: (.*)\n\n(?:Is|Does) the"
    if not (found := _parts(shape, prompt)):
        return ""
    question, what, gold, reply = found
    if what == "Explanation":
        return _yes(decide(abstains(reply)))
    if what == "Rubric":
        return _yes(decide(follows(gold, reply)))
    # It passes what contains the answer, also beside another.
    return _yes(decide(is_right(question, gold, reply, one_off=_FORGIVES in prompt, may_waver=True)))


def _strict(prompt: str, decide: Decide) -> str:
    shape = r"Question: (.*)\n\n(Correct answer|Why it cannot be answered): (.*)\n\nResponse: (.*)\n\nThe response is"
    if not (found := _parts(shape, prompt)):
        return ""
    question, what, gold, reply = found
    return _yes(decide(abstains(reply) if what.startswith("Why") else is_right(question, gold, reply)))


def _convomem(prompt: str, decide: Decide) -> str:
    if found := _parts(r"Criteria: (.*)\nReply to grade: (.*)\n\nRIGHT:", prompt):
        return "RIGHT" if decide(follows(*found)) else "WRONG"
    shape = r"Question: (.*?)\nReference answer: (.*?)\n(?:Messages.*\n)?Reply to grade: (.*)\n\nRIGHT:"
    if found := _parts(shape, prompt):
        return "RIGHT" if decide(is_right(*found)) else "WRONG"
    if found := _parts(r"Question: .*?\nReply to grade: (.*)\n\nRIGHT:", prompt):
        return "RIGHT" if decide(abstains(*found)) else "WRONG"
    return ""


def _yes(verdict: bool) -> str:
    return "yes" if verdict else "no"
