"""Whether an answer as a whole says that the question cannot be answered.

A text is read as a person would read it: what follows a final "Answer:" decides, else the conclusion of structured
reasoning, else all of it. Its clauses are sorted, by the patterns of `refusal_rules.json`, into refusals ("I can't
tell", "there is no mention of …"), what was told instead ("you mentioned a cat"), answers ("so it was May") and asides
("let me know"). Then:

1. Without a refusal the text answers; so do "0" and "none".
2. A refusal that comes first abstains, unless an answer follows ("I don't have the exact date, but you said March 3").
3. A refusal that comes after an answer abstains only where it is set against it ("…, but you never mentioned …") or
   says that the question itself cannot be answered; a remark on what else is missing refuses nothing.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
from msgspec import Struct

from longmemeval.files import sha256_file

Kind = Literal["unable", "unsure", "absent", "told", "answer", "aside", "other"]

_RULES_FILE = Path(__file__).with_name("refusal_rules.json")
_REFUSALS: tuple[Kind, ...] = ("unable", "unsure", "absent")
_KINDS: tuple[Kind, ...] = (*_REFUSALS, "aside", "told", "answer")
"""In the order they are looked for."""

_THINKING = re.compile(r"<(think|thinking|thought|reasoning|scratchpad)>.*?(?:</\1>|\Z)", re.DOTALL)
_ANSWER_MARK = re.compile(
    r"(?<!to )\banswer(?: to (?:the|this|your)[^:\n]{0,200})?(?: is| would be| should be)?[\"*_\s]{0,6}:"
    r"|^[ \t#*_]{0,20}(?:\d+[.)] *)?(?:final |short )?answer[ \t*_]{0,20}$",
    re.MULTILINE,
)
_STRUCTURE = re.compile(r"\bstep \d|\bextract|\bnotes?\b\W*[:\n]|\breasoning\b|\brelevant information\b")
_CONCLUSION = re.compile(r"\b(?:therefore|thus|hence|in conclusion|in summary|consequently|conclude)\b")
_CONTRACTIONS = (
    ("\u2019", "'"),
    ("cannot", "can not"),
    ("can't", "can not"),
    ("won't", "will not"),
    ("n't", " not"),
    ("i'm", "i am"),
    ("'ve", " have"),
    ("'d ", " would "),
)
_EMPHASIS = re.compile(r"[*_`#>]+")
_QUOTED = re.compile(r"\"[^\"]{0,300}\"|\u201c[^\u201d]{0,300}\u201d")
_PARENTHESES = re.compile(r"\([^()]*\)")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\")]*\s+|\n+|;\s+|\s[\u2014\u2013-]+\s|\u2014")
_JOINT = re.compile(
    r"[,:\s]*\b"
    r"(but|however|yet|nevertheless|nonetheless|that said"
    r"|so(?! (?:far|many|much|that))|therefore|hence|thus|(?<=, )which)"
    r"\b[,\s]*"
)
_AGAINST = ("but", "however", "yet", "nevertheless", "nonetheless", "that said")
_GRANTED = re.compile(r"(?:even )?(?:while|although|though|without|assuming|since|because|despite)\b")


class _Rules(Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    """Raised when this module reads the patterns in another way; so judges that use it get another identity."""
    words: dict[str, str]
    """Parts of the patterns: `<NAME>` stands for one, and for its text only."""
    unable: tuple[str, ...]
    """The question cannot be answered."""
    unsure: tuple[str, ...]
    """Who answers does not know something; it may be a detail."""
    absent: tuple[str, ...]
    """Something was never told."""
    beyond: tuple[str, ...]
    """Makes a refusal a remark: "no *other* pair is mentioned"."""
    inexact: tuple[str, ...]
    """Makes a refusal a concession where more is told: "not the *exact* date"."""
    hedged: tuple[str, ...]
    """The same where "but" or "although" says so: models write "no *specific* information" of what they do not know."""
    told: tuple[str, ...]
    """What was told instead."""
    answer: tuple[str, ...]
    """Signs of an answer: a conclusion, an estimate, advice."""
    aside: tuple[str, ...]
    """Courtesies, questions, offers, advice to look elsewhere: neither."""

    def pattern(self, name: str) -> re.Pattern[str]:
        """All patterns of one kind as one."""
        joined = "|".join(getattr(self, name))
        for word, meaning in self.words.items():
            joined = joined.replace(f"<{word}>", meaning)
        return re.compile(joined)


class _Clause(NamedTuple):
    kind: Kind
    against: bool
    """Set against what stands before it: "but …"."""
    granted: bool
    """Opens with "although …" or the like: what follows matters more."""
    inexact: bool
    hedged: bool


def abstains(text: str) -> bool:
    """Whether `text`, as the answer to a question, says that it cannot be answered. The rules know English only.

    Args:
        text: one answer as the model gave it, with or without reasoning before it.

    Returns:
        False for an empty text too, and for "0" and "none", which answer a question that asks for a number.
    """
    clauses = [clause for clause in _clauses(_conclusion(_plain(text))) if clause.kind != "aside"]
    refusals = [index for index, clause in enumerate(clauses) if clause.kind in _REFUSALS]
    if not refusals:
        return False
    if all(clause.kind == "told" for clause in clauses[: refusals[0]]):
        return not _answered(clauses[refusals[0] :])
    last = clauses[refusals[-1]]
    if last.inexact or any(clause.kind != "told" for clause in clauses[refusals[-1] + 1 :]):
        return False
    return last.against or last.kind == "unable"


@cache
def rules_sha256() -> str:
    """Of the patterns and their version; part of the identity of every judge that uses `abstains`."""
    return sha256_file(_RULES_FILE)


def _answered(clauses: Sequence[_Clause]) -> bool:
    """Whether an answer follows the refusal that `clauses` begin with, and no later refusal takes it back."""
    refusal, answered = clauses[0], False
    for clause in clauses[1:]:
        if clause.kind in _REFUSALS:
            refusal, answered = clause, answered and clause.kind == "absent"
        elif clause.kind == "answer" or _concedes(refusal, clause):
            answered = True
    return answered


def _concedes(refusal: _Clause, following: _Clause) -> bool:
    """Whether the refusal only grants that something is missing, and what follows is the point."""
    opposed = refusal.granted or following.against
    if following.kind == "told":
        return opposed and (refusal.inexact or (refusal.hedged and refusal.granted))
    return refusal.inexact or refusal.granted or (following.against and (refusal.hedged or refusal.kind != "absent"))


def _plain(text: str) -> str:
    """In lower case, "n't" as "not", without thinking aloud."""
    text = text.lower()
    for short, long in _CONTRACTIONS:
        text = text.replace(short, long)
    return _THINKING.sub("\n", text)


def _conclusion(text: str) -> str:
    """What follows the last "Answer:"; of structured reasoning the last paragraph, from a "therefore" on."""
    for mark in reversed(list(_ANSWER_MARK.finditer(text))):
        if re.search(r"\w", text[mark.end() :]):
            text = text[mark.end() :]
            break
    paragraphs = [part for part in re.split(r"\n\s*\n", text) if re.search(r"\w", part)]
    if len(paragraphs) < 2 or not _STRUCTURE.search(text):
        return text
    conclusion = paragraphs[-1]
    if conclusion_mark := _CONCLUSION.search(conclusion):
        return conclusion[conclusion_mark.start() :]
    return conclusion


def _clauses(text: str) -> Iterator[_Clause]:
    text = _EMPHASIS.sub("", text)
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


def _clause(text: str, *, against: bool, granted: bool) -> _Clause:
    found = _patterns()
    kind: Kind = next((name for name in _KINDS if found[name].search(text)), "other")
    remark = kind in _REFUSALS and found["beyond"].search(text)
    if text.endswith("?") or remark or (granted and kind == "other"):
        kind = "aside"
    return _Clause(kind, against, granted, bool(found["inexact"].search(text)), bool(found["hedged"].search(text)))


@cache
def _patterns() -> dict[str, re.Pattern[str]]:
    rules = msgspec.json.decode(_RULES_FILE.read_bytes(), type=_Rules)
    return {name: rules.pattern(name) for name in (*_KINDS, "beyond", "inexact", "hedged")}
