"""Detection of answers that, as a whole, say that the question cannot be answered.

A text is read as a person would read it: what follows a final "Answer:" decides, else the conclusion of structured
reasoning, else all of it; if what follows the last "therefore" refuses, no more is read. The patterns of
`refusal_rules.json` sort the clauses into refusals ("I can't tell", "there is no mention of …"), what was mentioned
instead ("you mentioned a cat"), answers ("so it was May"), estimates ("about 5, I would guess") and asides ("let me
know"). Then:

1. A text without a refusal answers; so do "0" and "none".
2. A refusal that comes first abstains, unless an answer follows ("I don't have the exact date, but you said March 3").
   After "we cannot determine it" only an estimate, a number or a "but" is an answer; other known facts are not.
3. A refusal that comes after an answer abstains only if it contradicts it ("…, but you never mentioned …") or
   says that the question itself cannot be answered; a remark that something else is missing refuses nothing.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
from msgspec import Struct

from longmemeval.core.arguments import checked
from longmemeval.core.files import sha256_file

Kind = Literal["unable", "unsure", "absent", "told", "estimate", "answer", "aside", "other"]

_RULES_FILE = Path(__file__).with_name("refusal_rules.json")
_REFUSALS: tuple[Kind, ...] = ("unable", "unsure", "absent")
_KINDS: tuple[Kind, ...] = (*_REFUSALS, "aside", "estimate", "told", "answer")
"""Kinds of clauses in the order of matching."""

_THINKING = re.compile(r"<(think|thinking|thought|reasoning|scratchpad)>.*?(?:</\1>|\Z)", re.DOTALL)
_ANSWER_MARK = re.compile(
    r"(?<!to )\b(?:answer|conclusion|result|verdict)(?: to (?:the|this|your)[^:\n]{0,200})?"
    r"(?: is| would be| should be)?[\"*_\s]{0,6}:"
    r"|\b(?:respond|reply|answer) (?:with|by saying)\b:?\s(?=[\"\u201c])"
    r"|^[ \t#*_]{0,20}(?:\d+[.)] *)?(?:final |short )?(?:answer|conclusion|result|verdict)[ \t*_]{0,20}$",
    re.MULTILINE,
)
_ANSWER_WORDS = ("answer", "conclusion", "result", "verdict", "respond", "reply")
"""Words of which every `_ANSWER_MARK` has one; most texts have none, and the pattern is not tried on these."""
_LONGEST, _END = 4_000, 1_500
"""Lengths in characters. Of a longer text only the two ends are read: a refusal is at one of them."""
_STRUCTURE = re.compile(r"\bstep \d|\bextract|\bnotes?\b\W*[:\n]|\breasoning\b|\brelevant information\b")
_LAST_WORD = re.compile(
    r"(?:^|[.!?:;,]\s{1,4}|\n)[^\w\n]{0,20}(?:therefore|thus|hence|consequently|accordingly|as such|as a result"
    r"|because of this|given this|for this reason|in conclusion|to conclude|in summary|in short|so(?! far))\b"
)
"""Beginning of the last conclusion of a text."""
_OPENING_QUOTE = re.compile(r"^(\W*)[\"\u201c]([^\"\u201d]{0,300})[\"\u201d]")
_NUMBER = re.compile(
    r"\d|\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|(?:thir|four|fif|six|seven|eigh|nine)teen"
    r"|twenty)\b"
)
_NEGATIVE = re.compile(
    r"\b(?:not?|n/a|never|none|nothing|nowhere|neither|without|un[a-z]+|i[mn](?:possible|sufficient|adequate|complete"
    r"|determinate)|difficult|hard|miss|lack|need|required|necessary|absent|silent|fail|yet|omit|leave|left|beyond|blank"
    r"|mystery|empty|stops?)"
)
"""Words of which every refusal has one; most clauses of a long text have none, and no pattern is tried on these."""
_GUESS = re.compile(r"\bguess(?:ing)?\b(?! who| what)")
_DETAIL = re.compile(r"^(?!.*\b(?:impossible|not possible)\b).*\b(?:whether|if)\b")
_WHOLE = re.compile(
    r"\b(?:definitive|definite|exact|precise|accurate|conclusive) (?:answer|response|conclusion|reply)\b"
    r"|\b(?:impossible|not possible) (?:for (?:me|us) )?to (?:\w+ly )?(?:determine|calculate|answer|establish) how\b"
)
"""Refusals of the question itself in spite of a word such as "exact", as models write them at the end."""
_BARE_ANSWER = re.compile(r"^\s*(zero|none|\d{1,4})[:,] ")
_CONCLUSION = re.compile(r"\b(?:therefore|thus|hence|in conclusion|in summary|consequently|conclude)\b")
_CONTRACTIONS = (
    ("can't", "can not"),
    ("won't", "will not"),
    ("n't", " not"),
    ("i'm", "i am"),
    ("'ve", " have"),
    ("'d ", " would "),
    ("'ll ", " will "),
    ("'re ", " are "),
    ("it's ", "it is "),
    ("that's ", "that is "),
    ("there's ", "there is "),
)
_EMPHASIS = re.compile(r"[*_`#>]+")
_QUOTED = re.compile(r"\"[^\"]{0,300}\"|\u201c[^\u201d]{0,300}\u201d")
_PARENTHESES = re.compile(r"\([^()]*\)")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\")]*\s+|\n+|;\s+|\s[\u2014\u2013-]+\s|\u2014")
_JOINT = re.compile(
    r"[,:\s]*\b"
    r"(but(?! not (?:a|an|the|any|for|in|on|of|which|when|what|who|how|to|your)\b)"
    r"(?! no (?:\w+ ){0,2}\w+\W*$)"
    r"|however|yet|nevertheless|nonetheless|that said|so(?! (?:far|many|much|that))|therefore|hence|thus"
    r"|(?<=, )(?:which|(?:al)?though))"
    r"\b[,\s]*"
)
_AGAINST = ("but", "however", "yet", "nevertheless", "nonetheless", "that said")
_GRANTED = re.compile(
    r"(?:even )?(?:while|although|though|without|assuming|since|because|despite|as(?= (?:i|we|there|the) ))\b"
)


class _Rules(Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    """Version, raised when this module reads the patterns in another way, which gives its judges another identity."""
    words: dict[str, str]
    """Parts of the patterns: `<NAME>` is replaced by the text of one."""
    reported: tuple[str, ...]
    """Somebody said that something is not known: not a refusal."""
    unable: tuple[str, ...]
    """The question cannot be answered."""
    unsure: tuple[str, ...]
    """The speaker does not know something; it may be a detail."""
    absent: tuple[str, ...]
    """Something was never mentioned."""
    beyond: tuple[str, ...]
    """Turns a refusal into a remark: "no *other* pair is mentioned"."""
    inexact: tuple[str, ...]
    """Turns a refusal into a concession if more follows: "not the *exact* date"."""
    hedged: tuple[str, ...]
    """Likewise, if "but" or "although" follows: models write "no *specific* information" of what they do not know."""
    told: tuple[str, ...]
    """Facts mentioned instead."""
    estimate: tuple[str, ...]
    """An answer whatever was refused before: an assumption, a guess, a sum, advice."""
    answer: tuple[str, ...]
    """Signs of an answer. After "cannot be determined" they only repeat known facts."""
    aside: tuple[str, ...]
    """Courtesies, questions, offers, advice to look elsewhere: neither."""

    def pattern(self, name: str) -> re.Pattern[str]:
        """Return all patterns of one kind as one."""
        joined = "|".join(getattr(self, name))
        for word, meaning in self.words.items():
            joined = joined.replace(f"<{word}>", meaning)
        return re.compile(joined)


class _Clause(NamedTuple):
    kind: Kind
    against: bool
    """True if it contradicts what precedes it: "but …"."""
    granted: bool
    """True if it opens with "although …" or similar: the text after it matters more."""
    inexact: bool
    hedged: bool
    number: bool
    detail: bool
    """True if it asks "whether": after an answer, a remark."""
    guess: bool
    whole: bool
    """True if it refuses the question itself, whatever word would make it a concession: "no definitive answer"."""

    @property
    def is_final(self) -> bool:
        """True if it refuses the question even after an answer."""
        return self.kind == "unable" and (self.whole or not self.inexact) and not self.detail


@checked()
def abstains(text: str) -> bool:
    """Return whether `text`, as an answer, says that the question cannot be answered. Works for English only.

    Args:
        text: one answer as the model gave it, with or without reasoning before it.

    Returns:
        False also for an empty text, and for "0" and "none", which answer a question that asks for a number.
    """
    return abstains_in_record(text)


@lru_cache(maxsize=2048)
def abstains_in_record(text: str) -> bool:
    """Return `abstains(text)`, cached: grading and several tables ask about the same recorded answer."""
    if not _may_refuse(_plain(text)):
        return False
    final = _final(text)
    concluded = _from_last_word(final)
    return _refuses(concluded) or (concluded != final and _refuses(final))


def _may_refuse(plain: str) -> bool:
    """Return False if no clause can be a refusal: whatever part is cut out, none has a word of `_NEGATIVE`."""
    bare = _EMPHASIS.sub("", plain)
    # Marks of emphasis and quotes alone are removed without a space in their place, which can make a word.
    return bool(_NEGATIVE.search(bare) or ('"' in bare and _NEGATIVE.search(bare.replace('"', ""))))


def ends_in_refusal(text: str) -> bool:
    """Return whether the last statement of `text` is that something is not known, whatever it said before.

    For an unanswerable question that is enough: "You have a cat. There is no mention of a hamster."
    """
    clauses = [clause for clause in _clauses(_final(text)) if clause.kind not in ("aside", "told")]
    return bool(clauses) and clauses[-1].kind in _REFUSALS and (clauses[-1].whole or not clauses[-1].inexact)


@lru_cache(maxsize=512)
def guesses(text: str) -> bool:
    """Return whether `text` refuses and then names its answer as a guess: it claims nothing."""
    plain = _plain(text)
    if "guess" not in plain or not _may_refuse(plain):
        return False
    clauses = _clauses(_final(text))
    first = next((place for place, clause in enumerate(clauses) if clause.kind in _REFUSALS), len(clauses))
    return any(clause.guess for clause in clauses[first + 1 :])


def conclusion(text: str) -> str:
    """Return where `text` states its result, in lower case: after "Answer:" or the last "therefore"; else all of it."""
    return _from_last_word(_final(text))


@lru_cache(maxsize=512)
def _final(text: str) -> str:
    """Return the part of `text` that decides, in lower case; cached, since several rules of a judge read it."""
    return _final_part(_plain(text))


def _from_last_word(final: str) -> str:
    marks = list(_LAST_WORD.finditer(final))
    return final[marks[-1].start() :] if marks else final


@cache
def rules_sha256() -> str:
    """Return the hash of the patterns and their version; part of the identity of every judge that uses `abstains`."""
    return sha256_file(_RULES_FILE)


def _refuses(text: str) -> bool:
    clauses = [clause for clause in _clauses(text) if clause.kind != "aside"]
    refusals = [index for index, clause in enumerate(clauses) if clause.kind in _REFUSALS]
    if not refusals:
        return False
    if all(clause.kind == "told" for clause in clauses[: refusals[0]]):
        return not _answered(clauses[refusals[0] :])
    for index in reversed(refusals):
        refusal, following = clauses[index], clauses[index + 1 :]
        if refusal.is_final:
            return not any(_takes_back(refusal, clause) for clause in following)
        hedge = refusal.kind == "unsure" and any(clause.kind in ("answer", "estimate") for clause in clauses[:index])
        if refusal.against and not refusal.inexact and not hedge:
            return all(clause.kind in (*_REFUSALS, "told") for clause in following)
    return False


def _answered(clauses: Sequence[_Clause]) -> bool:
    """Return whether an answer follows the refusal that `clauses` begin with, and no later refusal retracts it."""
    refusal, answered = clauses[0], False
    for clause in clauses[1:]:
        if clause.kind in _REFUSALS:
            refusal, answered = clause, answered and clause.kind == "absent" and not clause.against
        elif _takes_back(refusal, clause):
            answered = True
    return answered


def _takes_back(refusal: _Clause, following: _Clause) -> bool:
    """Return whether the clause after a refusal is an answer after all: an estimate, a number, the point."""
    opposed = refusal.granted or following.against
    if following.kind in _REFUSALS:
        return False
    if following.kind == "told":
        return opposed and (refusal.inexact or (refusal.hedged and refusal.granted))
    if following.kind == "estimate" or refusal.inexact or refusal.granted:
        return True
    if refusal.kind == "unable":
        return following.against or following.number
    return following.kind == "answer" or (following.against and (refusal.hedged or refusal.kind != "absent"))


def _plain(text: str) -> str:
    """Return the text in lower case, "n't" as "not", without tagged reasoning."""
    text = text.lower().replace("\u2019", "'").replace("cannot", "can not")
    for short, long in _CONTRACTIONS if "'" in text else ():
        text = text.replace(short, long)
    return _THINKING.sub("\n", text) if "<" in text else text


def _final_part(text: str) -> str:
    """Return the text after the last "Answer:"; for structured reasoning the last paragraph, from a "therefore" on.

    A last paragraph of nothing but courtesies is passed over.
    """
    marks = list(_ANSWER_MARK.finditer(text)) if any(word in text for word in _ANSWER_WORDS) else []
    for heading in reversed(marks):
        if re.search(r"\w", text[heading.end() :]):
            text = _OPENING_QUOTE.sub(r"\1\2. ", text[heading.end() :])
            break
    paragraphs = [part for part in re.split(r"\n\s*\n", text) if re.search(r"\w", part)]
    if len(paragraphs) < 2 or not _STRUCTURE.search(text):
        return text
    said = (part for part in reversed(paragraphs) if any(clause.kind != "aside" for clause in _clauses(part)))
    last = next(said, paragraphs[-1])
    mark = _CONCLUSION.search(last)
    return last[mark.start() :] if mark else last


@lru_cache(maxsize=2048)
def _clauses(text: str) -> tuple[_Clause, ...]:
    """Return the clauses of a text, cached as `abstains_in_record` is."""
    return tuple(_read_clauses(text))


def _read_clauses(text: str) -> Iterator[_Clause]:
    if len(text) > _LONGEST:
        text = f"{text[:_END].rpartition(' ')[0]}\n{text[-_END:].partition(' ')[2]}"
    text = _BARE_ANSWER.sub(r"\1. ", _EMPHASIS.sub("", text))
    bare = _PARENTHESES.sub(" ", text)
    for sentence in _SENTENCE_END.split(bare if re.search(r"\w", bare) else text):
        sentence = re.sub(r"^(?:[-\u2022]|\d+[.)])\s+", "", " ".join(sentence.split()))
        without_quotes = _QUOTED.sub("quoted", sentence)
        yield from _clauses_of(without_quotes if len(without_quotes.split()) > 2 else sentence.replace('"', ""))


def _clauses_of(sentence: str) -> Iterator[_Clause]:
    if _GRANTED.match(sentence):
        granted, comma, sentence = sentence.partition(", ")
        if comma:
            yield _clause(granted, against=False, granted=True)
        else:
            sentence = granted
    parts = _JOINT.split(sentence)
    for index in range(0, len(parts), 2):
        if re.search(r"\w", parts[index]):
            yield _clause(parts[index], against=index > 0 and parts[index - 1] in _AGAINST, granted=False)


@lru_cache(maxsize=16384)
def _clause(text: str, *, against: bool, granted: bool) -> _Clause:
    """Return one clause, cached: the answers of several runs to a question repeat the same sentences."""
    patterns = _patterns()
    refusing = _NEGATIVE.search(text) and not patterns["reported"].search(text)
    kinds = _KINDS if refusing else _KINDS[len(_REFUSALS) :]
    kind: Kind = next((name for name in kinds if patterns[name].search(text)), "other")
    refuses = kind in _REFUSALS
    if text.endswith("?") or (refuses and patterns["beyond"].search(text)) or (granted and kind == "other"):
        kind = "aside"
    return _Clause(
        kind=kind,
        against=against,
        granted=granted,
        inexact=refuses and bool(patterns["inexact"].search(text)),
        hedged=refuses and bool(patterns["hedged"].search(text)),
        number=bool(_NUMBER.search(text)),
        detail=refuses and bool(_DETAIL.search(text)),
        guess=bool(_GUESS.search(text)),
        whole=refuses and bool(_WHOLE.search(text)),
    )


@cache
def _patterns() -> dict[str, re.Pattern[str]]:
    rules = msgspec.json.decode(_RULES_FILE.read_bytes(), type=_Rules)
    return {name: rules.pattern(name) for name in (*_KINDS, "reported", "beyond", "inexact", "hedged")}
