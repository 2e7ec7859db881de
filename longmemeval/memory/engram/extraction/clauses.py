"""Bring sentences of a chat into the plain form that the patterns read: a subject, a verb, "I" for the person meant.

"Turns out Noor was let go by the Louvre, so she's at the Prado these days" is read once as it stands and once for each
person in it, as if they had said it: Noor, "I'm at the Prado these days". So one pattern serves the speaker and
everybody else. No information is added: a sentence that fits no form of `clauses.toml` is read as it stands.
"""

import re
import tomllib
from collections.abc import Iterator
from functools import cache

import msgspec
from msgspec import Struct

from longmemeval.memory.engram.extraction.patterns import compiled, read
from longmemeval.memory.engram.ledger import Ledger
from longmemeval.memory.working_memory.statements import is_claimed

_WE_IS = {"'re": "I'm", " are": "I am", " were": "I was", None: "I"}


class Voiced(Struct, frozen=True):
    """A sentence as somebody would say it of themself."""

    owner: str
    text: str
    form: str = "said"
    """Form of the sentence: "said": as it stands; "plain": reworded; "other": about somebody else. In the latter two,
    only states are read."""


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    lists: dict[str, tuple[str, ...]]
    forms: dict[str, str]
    verbs: dict[str, str]


@cache
def _file() -> _File:
    return msgspec.convert(tomllib.loads(read("clauses")), _File)


@cache
def _form(name: str) -> re.Pattern[str]:
    """Return one of the forms, compiled."""
    lists = {listed: f"(?:{'|'.join(items)})" for listed, items in _file().lists.items()}
    return compiled(_file().forms[name], blocks={**lists, **_file().forms})


@cache
def other_cues() -> str:
    """Return the pattern of cues for which a sentence is read although it has neither "I" nor a known name."""
    alone = rf"\b(?i:{'|'.join(_file().lists['alone'])})\b"
    forms = (_form(name).pattern for name in ("dropped_I", "dropped_I_am"))
    return "|".join([*forms, alone, r"^(?:The|Home)\b", r"\bhappen(?:ing)?\b"])


def prepared(text: str) -> str:
    """Return a message in normalised spelling: days as numbers, "I" for "i", no tag at the end (", haha")."""
    text = _form("small_i").sub("I", text)
    text = _form("ordinal_day").sub(lambda day: f"{_file().lists['ordinals'].index(day[1]) + 1} {day[2]}", text)
    text = _form("no_longer").sub(lambda no: f"I no longer {no['verb']}" if no["verb"] else "I'm no longer ", text)
    return _form("tag").sub("", _form("no_more").sub("I've given up ", text))


def voices(sentence: str, owner: str, known: Ledger) -> Iterator[Voiced]:
    """Yield a sentence as it stands, in plain words, and as the people in it would say it.

    Args:
        sentence: one statement.
        owner: the person that "I" refers to.
        known: what has been believed so far, by which names are told from other words.
    """
    yield Voiced(owner, sentence)
    plain = _plain(sentence, owner, known)
    for text in dict.fromkeys((plain, _form("we").sub(lambda found: found[1] + _WE_IS[found["be"]], plain))):
        if text != sentence:
            yield Voiced(owner, text, "plain")
    yield from _others(plain, owner, known)


def relative_of(owner: str, kin: str, known: Ledger) -> str:
    """Return the name of a person's relative, or a description that is used until the name is known."""
    names = {fact.object for fact in known.current(owner, f"relative:{kin}")}
    return names.pop() if len(names) == 1 else f"{owner}'s {kin}"


def _plain(sentence: str, owner: str, known: Ledger) -> str:
    """Return a sentence without lead-in, with a subject for every verb, and years in the form "from … to …"."""
    text = _form("lead_in").sub(lambda found: found[1], sentence)
    text = _form("title").sub("", text)
    text = _form("kin_alone").sub(lambda found: f"{found[1]}my {found[2].lower()}", text)
    text = _form("years").sub(r"from \1 to \2", text)
    if _form("over_now").search(text):
        text = re.sub(r"\bnow\b(?=[.,!]|$)", "these days", text)
    if _form("dropped_I").match(text):
        text = f"I {text[0].lower()}{text[1:]}"
    elif _form("dropped_I_am").match(text):
        text = f"I'm {text[0].lower()}{text[1:]}"
    text = _without_pronouns(text, owner, known)
    while (found := _form("shared_subject").search(text)) is not None:
        text = f"{text[: found.end()]} {found['subject']}{text[found.end() :]}"
    return text[:1].upper() + text[1:]


def _without_pronouns(text: str, owner: str, known: Ledger) -> str:
    """Replace "he", "she" and "him" by the person that a sentence names, if it names exactly one."""
    people = _people(text, owner, known)
    if len({name for _, name in people}) != 1:
        return text
    first, _ = people[0]
    label = first["called"] or first["named"] or first[0].rstrip(", ")
    return text[: first.end()] + _form("pronoun").sub(lambda _: label, text[first.end() :])


def _people(text: str, owner: str, known: Ledger) -> list[tuple[re.Match[str], str]]:
    """Return the places where a sentence names other people, with the names under which facts about them are kept."""
    people = []
    for found in _form("person").finditer(text):
        name = found["called"] or found["named"]
        if found["named"] and not (known.knows(name) or known.facts_naming(owner, name)):
            continue
        if not name and found[0][:2].lower() not in ("my", "ou"):
            continue  # "his brother", whose name is not given
        people.append((found, name or relative_of(owner, found["kin"].lower(), known)))
    return people


def _others(text: str, owner: str, known: Ledger) -> Iterator[Voiced]:
    """Yield each clause about somebody else as that person would say it."""
    starts = [found.end() for found in _form("a_start").finditer(text)]
    people = [(found, name) for found, name in _people(text, owner, known) if found.start() in starts]
    for number, (found, name) in enumerate(people):
        rest = text[found.end() : people[number + 1][0].start() if number + 1 < len(people) else None]
        speaker = _form("speaker").search(rest)
        clause = _in_first_person(rest[: speaker.start()] if speaker else rest)
        if clause and name != owner and is_claimed(text, found.start()):
            before = text[: found.start()] if number == 0 and len(text[: found.start()].split()) < 5 else ""
            yield Voiced(name, before + clause, "other")


def _in_first_person(rest: str) -> str:
    """Turn the text after a person's name into what that person would say; empty if no known verb follows."""
    verb = _form("verb").match(rest)
    if _form("has_done").match(rest):
        clause = f"I've{rest[2:]}"
    elif _form("is_so").match(rest):
        clause = f"I'm{rest[2:]}"
    elif verb is None or (verb[2] not in _file().verbs and verb[2] not in _file().lists["same"]):
        return ""
    else:
        own = _file().verbs.get(verb[2], verb[2])
        subject = f"I'm {verb[1]}".rstrip() if own == "am" else f"I {verb[1]}{own}"
        clause = subject + rest[verb.end() :]
    return re.sub(r"\b(?:his|her|their)\b", "my", clause).rstrip(" ,;:-")
