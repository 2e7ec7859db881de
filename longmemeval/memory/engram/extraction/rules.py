"""The extractor that needs no model: claims by patterns, deterministic."""

import re
from collections.abc import Iterator
from functools import lru_cache

import msgspec

from longmemeval.core.files import sha256_text
from longmemeval.core.text.dates_in_text.mentions import mentioned_dates
from longmemeval.memory.engram.extraction.claims import claim_of, owner
from longmemeval.memory.engram.extraction.clauses import Voiced, other_cues, prepared, relative_of, voices
from longmemeval.memory.engram.extraction.dating import Dated, dated
from longmemeval.memory.engram.extraction.endings import ended, names_in, overlaps
from longmemeval.memory.engram.extraction.patterns import Pattern, groups_of, patterns, source
from longmemeval.memory.engram.ledger import Ledger
from longmemeval.memory.engram.predicates import definition, normalised
from longmemeval.memory.engram.records import Claim, ClaimKind, Episode, Force
from longmemeval.memory.working_memory.statements import (
    is_claimed,
    is_role_play,
    statements,
    without_lead_in,
)

VERSION = 5
"""Increase with every change of what is read; the table of patterns is hashed as well."""

_FIRST_PERSON = re.compile(r"\b(?:I|my|My|me|[Ww]e|[Oo]ur)\b")
_NOT_MEANT = re.compile(
    r"\b(?:dream(?:t|ed)?|imagin\w+|pretend\w*|my (?:character|novel|story|dream)|as if|(?:want|like|love|hope)(?:ed)?"
    r" to|wish(?:ed)?|don't think|doubt|not sure|(?:he|she|they|[A-Z][a-z]+|my \w+) (?:said|says|thinks?|thought"
    r"|claims?|told \w+|asked|believes?|wants?|assumed))\b"
)
_CORRECTION = re.compile(
    r"\b(?:actually|correction|I meant|sorry|I was wrong|I misspoke|my mistake|let me correct"
    r"|I mixed (?:it|that) up)\b",
    re.I,
)
_NOW = re.compile(r"\b(?:now|just|recently|finally|no longer|any ?more|these days|switched|changed)\b")
_NOT = re.compile(
    r"(?: (?:in|on|since|from|around) [\w ]*?)?,? (?:and )?not "
    r"(?P<rest>(?:in |at |to |on |from |as |an? |the )*(?P<wrong>[\w][\w' -]*?))(?=$|[.,;!?])"
)
_OTHER = (
    "home",
    "employer",
    "occupation",
    "studies",
    "degree",
    "diet",
    "allergy",
    "former_home",
    "former_employer",
    "status",
)
_STATES = {"other": _OTHER, "plain": (*_OTHER, "pet", "owns", "plan", "relative", "habit")}
"""Prefixes of the predicates that are read from a sentence in another form."""
_ITEM = re.compile(r", and |, or |, | and | & |; ")
_QUESTION = re.compile(r"[^.!?\n]*\?")
_HANGING = re.compile(
    "(?:to|on|of|for|with|and|or|but|like|that|when|the|an?|in|at|from|as|is|are|by|about|into|if|my|our)",
    re.IGNORECASE,
)
_LONGEST = 16
"""Maximum words of a value."""


class RuleExtractor:
    """Reads what speakers say about themselves; messages of an assistant without a name are skipped."""

    @property
    def recipe(self) -> dict[str, object]:
        """The recipe of the claims."""
        return {"extractor": "rules", "version": VERSION, "patterns_sha256": sha256_text(source())}

    def __call__(self, episode: Episode, before: Episode | None, known: Ledger) -> list[Claim]:
        """Return the claims that `episode` makes, in the order of the text."""
        if episode.role != "user" and not episode.speaker:
            return []
        if is_role_play(episode.text):
            return []
        sentences = list(_read(episode, known))
        found = [claim for voiced in sentences for claim in _stated(voiced, episode, known)]
        stated = {claim.predicate for claim in found}
        found += [claim for voiced in sentences for claim in ended(voiced.text, episode, known, voiced.owner)]
        found += [claim for claim in _answered(episode, before, known) if claim.predicate not in stated]
        seen = dict.fromkeys((claim.kind, claim.subject, claim.predicate, normalised(claim.object)) for claim in found)
        return [
            next(
                claim
                for claim in found
                if (claim.kind, claim.subject, claim.predicate, normalised(claim.object)) == key
            )
            for key in seen
        ]


def _read(episode: Episode, known: Ledger) -> Iterator[Voiced]:
    """Yield the statements of a message, in each form in which they are read."""
    speaker = owner(episode)
    names = names_in(episode.text, speaker, known)
    about = rf"{_FIRST_PERSON.pattern}|{other_cues()}" + (rf"|\b(?:{'|'.join(names)})\b" if names else "")
    for sentence in statements(prepared(episode.text), re.compile(about)):
        yield from voices(_with_comma(sentence, episode), speaker, known)


def _stated(voiced: Voiced, episode: Episode, known: Ledger) -> Iterator[Claim]:
    corrected = _CORRECTION.search(episode.text) is not None
    for pattern, match in _matches(voiced.text, voiced.form):
        yield from _claims(pattern, match, voiced, episode, known, corrected)


@lru_cache(maxsize=1 << 14)
def _matches(sentence: str, form: str) -> tuple[tuple[Pattern, re.Match[str]], ...]:
    """Return the matches of the patterns that a sentence claims, rather than supposes or quotes.

    Histories of one data set share sessions: a sentence that was searched before is not searched again.

    Args:
        sentence: one statement.
        form: the form in which it is read (`Voiced.form`).
    """
    matches: list[tuple[Pattern, re.Match[str]]] = []
    taken: list[tuple[int, int]] = []
    for pattern in patterns().statements:
        if form != "said" and not pattern.written.predicate.startswith(_STATES[form]):
            continue
        for match in pattern.search.finditer(sentence):
            begin = match.start()
            if not is_claimed(sentence, begin) or _NOT_MEANT.search(sentence[:begin]):
                continue
            if pattern.written.date == "event" and any(a < match.end() and begin < b for a, b in taken):
                continue
            if not pattern.written.predicate.startswith(("pet", "relative")):
                taken.append(match.span())
            matches.append((pattern, match))
    return tuple(matches)


def _claims(
    pattern: Pattern, match: re.Match[str], voiced: Voiced, episode: Episode, known: Ledger, corrected: bool
) -> Iterator[Claim]:
    written, sentence = pattern.written, voiced.text
    groups = groups_of(match)
    predicate = written.predicate.format_map({name: value.lower() for name, value in groups.items()})
    subject = voiced.owner
    if written.subject == "relative":
        subject = groups.get("called") or relative_of(subject, groups["relative"].lower(), known)
    rule = "stretch" if predicate.startswith("relative:") else written.date  # "my son Theo has lived here since 2021"
    when = dated(sentence, match.start(), episode.event_at, rule, predicate.startswith("former"))
    if not when.named and written.date in ("lasting", "stretch"):
        return
    whole = written.object.format_map(groups)
    wrong = _NOT.match(sentence, match.end())
    force: Force = "change" if written.change or _NOW.search(sentence) else "plain"
    if corrected:
        force = "correction"
    if wrong and written.kind == "assert" and not _NOW.search(sentence):
        value = whole if mentioned_dates(wrong["rest"], episode.event_at) else wrong["wrong"]
        yield claim_of("retract", subject, predicate, value, Dated(episode.event_at), episode)
        force = "correction"
    elif corrected and when.named and definition(predicate).functional and _is_known(known, subject, predicate, whole):
        yield claim_of("retract", subject, predicate, whole, Dated(episode.event_at), episode)
    for value in _listed(whole) if written.list else [whole]:
        value = _whole(_tidy(value)) if written.predicate in ("event", "plan") else _tidy(value)
        if value or not written.object:
            claim = claim_of(written.kind, subject, predicate, value, when, episode, force)
            if written.date != "stretch" or not overlaps(claim, known):
                yield claim


def _with_comma(sentence: str, episode: Episode) -> str:
    """Put a comma after a date at the start, so that a clause begins there: "Last week, I went"."""
    for mention in mentioned_dates(sentence, episode.event_at)[:1]:
        end = sentence.find(mention.phrase) + len(mention.phrase)
        if end <= len(mention.phrase) + 4 and re.match(r" (?:I|my|we|I'\w+|we'\w+)\b", sentence[end:]):
            return f"{sentence[:end]},{sentence[end:]}"
    return sentence


def _listed(value: str) -> list[str]:
    """Split a list of short items; any other value with an "and" is returned whole."""
    value = re.sub(r"^(?:both|all kinds of|things like|such as) ", "", value)
    parts = [re.sub(r"^(?:some|a little|a bit of|basic|fluent) ", "", part.strip()) for part in _ITEM.split(value)]
    if any(not part or len(part.split()) > 4 for part in parts):
        return [value]
    return [part for part in parts if not part.startswith("not ")]


def _tidy(value: str) -> str:
    words = re.sub(r"^[\s,'\"-]+|[\s,'\"-]+$", "", value).split()
    return " ".join(words[:_LONGEST])


def _whole(value: str) -> str:
    """Return a clause without dangling words at its end; empty if too little is left: "been listening to"."""
    words = value.split()
    while words and _HANGING.fullmatch(words[-1]):
        words.pop()
    return " ".join(words) if len(words) >= (3 if words[:1] == ["been"] else 2) else ""


def _is_known(known: Ledger, subject: str, predicate: str, value: str) -> bool:
    return any(normalised(fact.object) == normalised(value) for fact in known.current(subject, predicate))


def _answered(episode: Episode, before: Episode | None, known: Ledger) -> Iterator[Claim]:
    """Yield the claims that a question and its answer make together."""
    if before is None or (before.speaker, before.role) == (episode.speaker, episode.role):
        return
    questions = _QUESTION.findall(before.text.replace("\u2019", "'"))[-1:]
    answer = without_lead_in(episode.text.replace("\u2019", "'").strip())
    both = (before.episode_id, episode.episode_id)
    raw = episode.text.strip()
    denied = patterns().no.match(raw) is not None
    for question in questions:
        for pattern in patterns().questions if not denied else ():
            match = pattern.search.search(question)
            reply = pattern.answer.match(answer) if match and pattern.answer else None
            if match and reply and reply["object"] != before.speaker and not answer[: reply.end() + 1].endswith("?"):
                yield _claim_of_answer(pattern, {**_lower(match), **reply.groupdict()}, episode, both, "assert")
        for pattern in patterns().confirmed:
            match = pattern.search.search(question)
            if match and (denied or patterns().yes.match(raw)):
                kind: ClaimKind = "end" if denied else "assert"
                yield _claim_of_answer(pattern, match.groupdict(), episode, both, kind)


def _claim_of_answer(
    pattern: Pattern, groups: dict[str, str | None], episode: Episode, both: tuple[str, str], kind: ClaimKind
) -> Claim:
    values = {name: value for name, value in groups.items() if value}
    values.setdefault("animal", values.get("animal2", ""))
    predicate = pattern.written.predicate.format_map(values)
    claim = claim_of(kind, owner(episode), predicate, _tidy(values["object"]), Dated(episode.event_at), episode)
    return msgspec.structs.replace(claim, episode_ids=both)


def _lower(match: re.Match[str]) -> dict[str, str | None]:
    return {name: value.lower() if value else value for name, value in match.groupdict().items()}
