"""Bring sentences of a chat into the plain form that the patterns read: a subject, a verb, "I" for the person meant.

"Turns out Noor was let go by the Louvre, so she's at the Prado these days" is read once as it stands and once for each
person in it, as if they had said it: Noor, "I'm at the Prado these days". So one pattern serves the speaker and
everybody else. No information is added: a sentence that fits no form of `clauses.toml` is read as it stands.
"""

import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Literal

import msgspec
from msgspec import Struct

from longmemeval.core.text.words import content_words
from longmemeval.memory.engram.records import ClaimKind
from longmemeval.memory.engram.timeline import Ledger
from longmemeval.memory.working_memory.statements import BLOCKS, is_claimed

# The patterns of the rules, read from `patterns.toml` and `endings.toml`.

DateRule = Literal["since", "lasting", "begins", "event", "ends", "leaves", "stretch", "while"]
_BLOCK = re.compile(r"(?<!\?P)(?<!\?<)<([\w ]+)>")
_OWN = {"we did": "<start>[Ww]e(?:'ve|'d| have| had)? <adverbs>"}


class _Written(Struct, frozen=True, forbid_unknown_fields=True):
    """A pattern as written in the file."""

    predicate: str
    match: str
    object: str = "{object}"
    subject: Literal["speaker", "relative"] = "speaker"
    kind: ClaimKind = "assert"
    date: DateRule = "since"
    change: bool = False
    list: bool = False
    planned: bool = False
    answer: str = ""


class WrittenEnding(Struct, frozen=True, forbid_unknown_fields=True):
    """A pattern of endings as written in the file."""

    match: str
    of: str | tuple[str, ...]
    """Predicates, or the name of a list of them."""
    kind: Literal["ends", "parts", "renames"] = "ends"
    says: str = ""
    ahead: bool = False
    """True if a day that is still to come may be named, on which it ends."""
    only: str = ""
    """Pattern of the values that end; empty: any value."""


class _PatternsFile(Struct, frozen=True, forbid_unknown_fields=True):
    blocks: dict[str, str]
    pattern: list[_Written]
    question: list[_Written]
    confirmed: list[_Written]
    answers: dict[str, str]
    numbers: dict[str, int]


class _Endings(Struct, frozen=True, forbid_unknown_fields=True):
    sets: dict[str, tuple[str, ...]]
    blocks: dict[str, str]
    ending: list[WrittenEnding]


class Pattern(Struct, frozen=True):
    """One compiled pattern."""

    written: _Written
    search: re.Pattern[str]
    answer: re.Pattern[str] | None = None
    """Pattern of the answer, for a question."""


class Ending(Struct, frozen=True):
    """One compiled pattern of endings."""

    written: WrittenEnding
    search: re.Pattern[str]
    of: tuple[str, ...]
    """Predicates, or prefixes of predicates."""


class Patterns(Struct, frozen=True):
    """All patterns."""

    statements: tuple[Pattern, ...]
    questions: tuple[Pattern, ...]
    confirmed: tuple[Pattern, ...]
    """Questions that are answered with yes or no."""
    endings: tuple[Ending, ...]
    yes: re.Pattern[str]
    no: re.Pattern[str]
    numbers: dict[str, int]
    """Numbers by their words."""


def source() -> str:
    """Return the texts of the files; their hash identifies the rules."""
    return "".join(read(name) for name in ("patterns", "endings", "clauses"))


def read(name: str) -> str:
    """Return the text of one file of the rules."""
    folder = resources.files("longmemeval.memory.engram.extraction")
    return (folder / f"{name}.toml").read_text(encoding="utf-8")


@cache
def _patterns_file() -> _PatternsFile:
    return msgspec.convert(tomllib.loads(read("patterns")), _PatternsFile)


@cache
def _ending_file() -> _Endings:
    return msgspec.convert(tomllib.loads(read("endings")), _Endings)


@cache
def patterns() -> Patterns:
    """Return the shipped patterns, compiled."""
    file, endings, sets = _patterns_file(), _ending_file().ending, _ending_file().sets
    follows = r"(?=$|[.!,;]| (?:and|but|since|because|now|for|with)\b)"
    return Patterns(
        tuple(Pattern(written, compiled(written.match)) for written in file.pattern),
        tuple(
            Pattern(written, compiled(written.match, re.IGNORECASE), compiled(written.answer + follows))
            for written in file.question
        ),
        tuple(Pattern(written, compiled(written.match)) for written in file.confirmed),
        tuple(
            Ending(written, compiled(written.match), sets[written.of] if isinstance(written.of, str) else written.of)
            for written in endings
        ),
        re.compile(file.answers["yes"], re.IGNORECASE),
        re.compile(file.answers["no"], re.IGNORECASE),
        file.numbers,
    )


def compiled(pattern: str, flags: int = 0, blocks: Mapping[str, str] = MappingProxyType({})) -> re.Pattern[str]:
    """Compile a pattern, with the names of blocks replaced by the blocks, recursively.

    A named group may occur several times; see `groups_of`.

    Args:
        pattern: as written in a file of the rules.
        flags: flags of the regular expression.
        blocks: additional blocks by name.
    """
    blocks = {**BLOCKS, **_OWN, **_patterns_file().blocks, **_ending_file().blocks, **blocks}
    while (wider := _BLOCK.sub(lambda found: blocks[found[1]], pattern)) != pattern:
        pattern = wider
    seen = Counter[str]()

    def numbered(group: re.Match[str]) -> str:
        seen[group[1]] += 1
        return group[0] if seen[group[1]] == 1 else f"(?P<{group[1]}_{seen[group[1]]}>"

    return re.compile(re.sub(r"\(\?P<(\w+)>", numbered, pattern), flags)


def groups_of(match: re.Match[str]) -> dict[str, str]:
    """Return the groups that matched something, stripped; a group that occurs twice in a pattern has one name."""
    return {re.sub(r"_\d+$", "", name): value.strip() for name, value in match.groupdict().items() if value}


_WE_IS = {"'re": "I'm", " are": "I am", " were": "I was", None: "I"}


class Voiced(Struct, frozen=True):
    """A sentence as somebody would say it of themself."""

    owner: str
    text: str
    form: str = "said"
    """Form of the sentence: "said": as it stands; "plain": reworded; "other": about somebody else. In the latter two,
    only states are read."""


class _ClausesFile(Struct, frozen=True, forbid_unknown_fields=True):
    lists: dict[str, tuple[str, ...]]
    forms: dict[str, str]
    verbs: dict[str, str]


@cache
def _clauses_file() -> _ClausesFile:
    return msgspec.convert(tomllib.loads(read("clauses")), _ClausesFile)


@cache
def _form(name: str) -> re.Pattern[str]:
    """Return one of the forms, compiled."""
    lists = {listed: f"(?:{'|'.join(items)})" for listed, items in _clauses_file().lists.items()}
    return compiled(_clauses_file().forms[name], blocks={**lists, **_clauses_file().forms})


@cache
def other_cues() -> str:
    """Return the pattern of cues for which a sentence is read although it has neither "I" nor a known name."""
    alone = rf"\b(?i:{'|'.join(_clauses_file().lists['alone'])})\b"
    forms = (_form(name).pattern for name in ("dropped_I", "dropped_I_am", "first_day", "brings_out", "stolen"))
    return "|".join([*forms, alone, r"^(?:The|Home)\b", r"\bhappen(?:ing)?\b"])


_JOIN = chr(0x10339)
_MARKS = [chr(0x10330 + number) for number in range(9)]
"""Letters that no chat contains; each stands for a character of a name that would end a word or begin a clause."""
_MARKED = str.maketrans(dict(zip(".,?!:;\"'", _MARKS[1:], strict=True)))
_WRITTEN = str.maketrans({**dict(zip(_MARKS[1:], ".,?!:;\"'", strict=True)), _MARKS[0]: None, _JOIN: " "})


def _protected(text: str) -> str:
    """Mark the words of names, titles and short quotations, so that no rule reads or rewrites a pronoun of theirs."""
    text = _form("quotation").sub(
        lambda quoted: _form("any_pronoun").sub(rf"\g<0>{_MARKS[0]}", quoted[0]).translate(_MARKED), text
    )
    text = _form("title_pronoun").sub(rf"\g<0>{_MARKS[0]}", text)
    text = _form("title_as").sub(rf"\g<0>{_MARKS[0]}", text)
    text = _form("abbreviation").sub(lambda short: short[0].translate(_MARKED), text)
    return _form("numbered").sub(lambda name: name[0].replace(" ", _JOIN), text)


def restored(text: str) -> str:
    """Return a text of `prepared` with its names as they were written."""
    return text.translate(_WRITTEN)


def prepared(text: str) -> str:
    """Return a message in normalised spelling: days as numbers, "I" for "i", no tag at the end (", haha")."""
    text = _form("name_next").sub(", and her name is", text)
    text = _form("small_i").sub("I", _protected(text.replace("\u2019", "'")))
    text = _form("ordinal_day").sub(lambda day: f"{_clauses_file().lists['ordinals'].index(day[1]) + 1} {day[2]}", text)
    text = _form("no_longer").sub(lambda no: f"I no longer {no['verb']}" if no["verb"] else "I'm no longer ", text)
    return _form("tag").sub("", _form("no_more").sub("I've given up ", text))


def last_day(text: str) -> dict[str, str]:
    """Return the words for somebody's last day at work: `day`, and `own` if it is the speaker's; empty if none."""
    found = _form("last_day").search(text)
    return groups_of(found) if found else {}


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


def with_antecedents(text: str, owner: str, known: Ledger) -> str:
    """Return a message with the person or thing of the sentence or clause before in the place of "she" or "it".

    Only the one person that the sentence before is about, and only the one known possession that was mentioned, are
    meant with certainty; any other pronoun stays.
    """
    read: list[str] = []
    meant = ""
    for sentence in _form("sentences").split(text):
        if meant:
            sentence = _form("he_or_she").sub(lambda _, whom=meant: whom, sentence)
        if read and _form("over_now").search(f"{read[-1].rstrip('.!?')}, {sentence}"):
            sentence = re.sub(r"^((?:I'm|\w+'s|My [\w ]+'s) in [^.,;!?]+?) now\b", r"\1 these days", sentence)
        plain = _form("kin_alone").sub(lambda kin: f"{kin[1]}My {kin[2].lower()}", _form("title").sub("", sentence))
        people = _people(plain, owner, known)
        about = people[0][0] if len({name for _, name in people}) == 1 else None
        told = about is not None and about.start() == 0 and _in_first_person(plain[about.end() :])
        meant = about[0].rstrip(", ") if about and told and " and " not in about[0] else ""
        read.append(sentence)
    text = " ".join(read)
    for given in reversed(list(_form("gave_it").finditer(text))):
        before = set(content_words(text[: given.start()]))
        things = [fact.object.split()[-1] for fact in known.held(owner, ("owns",))]
        mentioned = [thing for thing in things if before & set(content_words(thing))]
        if len(mentioned) == 1:
            text = f"{text[: given.end() - 2]}my {mentioned[0]}{text[given.end() :]}"
    return text


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
    people: list[tuple[re.Match[str], str]] = []
    for found in _form("person").finditer(text):
        name = found["called"] or found["named"]
        told = any(name == before for _, before in people)
        if found["named"] and not (told or known.knows(name) or known.facts_naming(owner, name)):
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
    elif verb is None or (verb[2] not in _clauses_file().verbs and verb[2] not in _clauses_file().lists["same"]):
        return ""
    else:
        own = _clauses_file().verbs.get(verb[2], verb[2])
        subject = f"I'm {verb[1]}".rstrip() if own == "am" else f"I {verb[1]}{own}"
        clause = subject + rest[verb.end() :]
    return re.sub(r"\b(?:his|her|their)\b", "my", clause).rstrip(" ,;:-")
