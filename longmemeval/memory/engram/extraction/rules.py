"""The extractor that needs no model: claims by patterns, deterministic."""

import re
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from functools import cache, lru_cache
from typing import NamedTuple

import msgspec
from dateutil.relativedelta import relativedelta
from msgspec import Struct

from longmemeval.core.files import sha256_text
from longmemeval.core.text.dates_in_text.meanings import COUNT, count_of
from longmemeval.core.text.dates_in_text.mentions import MentionedDate, mentioned_dates, resolved
from longmemeval.core.text.words import content_words
from longmemeval.memory.engram.extraction.clauses import (
    DateRule,
    Ending,
    Pattern,
    Voiced,
    groups_of,
    last_day,
    other_cues,
    patterns,
    prepared,
    relative_of,
    restored,
    source,
    voices,
    with_antecedents,
)
from longmemeval.memory.engram.parameters import definition, fact_sentence, normalised, predicates, slot_of
from longmemeval.memory.engram.records import Claim, ClaimKind, Episode, Fact, Force
from longmemeval.memory.engram.timeline import Ledger
from longmemeval.memory.working_memory.statements import is_claimed, is_role_play, statements, without_lead_in

# Date claims by the days their sentences name, with the harness's resolver of dates.

_FOR = re.compile(
    r"\bfor (?:the (?:past|last) )?(?:about |over |almost |nearly |around )?"
    rf"(?P<count>{COUNT}) (?P<unit>years?|months?|weeks?)\b",
    re.I,
)
_BOTH_ENDS = re.compile(r"(?:from|between)\b", re.IGNORECASE)
_SHORTEST_PERIOD = timedelta(weeks=4)
"""Minimum length of a named period; a shorter one may be days of the week: "from Monday to Friday"."""


class Dated(Struct, frozen=True):
    """The moment a claim begins to hold, and the days its sentence names."""

    valid_at: datetime
    until: datetime | None = None
    words: str = ""
    """The words for the named days, to put after a fact; empty if no days are named."""
    named: bool = False
    latest: datetime | None = None
    """The last of the named days, if there are several."""


def dated(sentence: str, start: int, said_at: datetime, rule: DateRule, former: bool) -> Dated:
    """Return when the claim of a sentence begins to hold.

    Args:
        sentence: the statement.
        start: index in it where the claim begins.
        said_at: when it was said.
        rule: the meaning of a named day for this kind of claim.
        former: True if the claim is about something that is over, so that both its ends may be named.
    """
    over = _named_period(sentence, said_at) if rule in ("stretch", "while") else None
    if over or rule == "stretch":
        return over or Dated(said_at)
    mention = _nearest(sentence, start, said_at)
    if rule == "leaves":
        over_on = _ahead(mention, said_at) if mention else _end_of(sentence, said_at)
        return Dated(_after(over_on), named=True) if over_on else Dated(said_at)
    since = mention is not None and mention.phrase.lower().startswith("since")
    if rule in ("since", "lasting", "while") and not since:
        lasting = _FOR.search(sentence)
        return Dated(_before(said_at, lasting), named=True) if lasting else Dated(said_at)
    if mention is None:
        return Dated(said_at)
    placed = _placed(mention, said_at, rule, former)
    if rule == "ends" and placed.valid_at < said_at:
        last = datetime.combine(mention.end, time())
        return msgspec.structs.replace(placed, latest=min(last, said_at) if mention.end > mention.start else None)
    return placed


def _named_period(sentence: str, said_at: datetime) -> Dated | None:
    """Return the period in the past that a sentence names by both its ends: "from 2012 to 2016"."""
    for mention in mentioned_dates(sentence, said_at):
        both = _BOTH_ENDS.match(mention.phrase) is not None
        if both and mention.end < said_at.date() and mention.end - mention.start >= _SHORTEST_PERIOD:
            return Dated(datetime.combine(mention.start, time()), _after(mention.end), mention.shown, named=True)
    return None


def dated_by(words: str, context: str, said_at: datetime, rule: DateRule, former: bool) -> Dated | None:
    """Return when a claim begins to hold, by words that say so; None if they name no day.

    Args:
        words: "last May", "for two years".
        context: the message that contains them.
        said_at: when it was said.
        rule: as for `dated`.
        former: as for `dated`.
    """
    lasting = _FOR.search(words)
    if lasting and rule in ("since", "begins"):
        return Dated(_before(said_at, lasting), named=True)
    day = resolved(words, context, said_at)
    return _placed(day, said_at, rule, former) if day else None


def _placed(mention: MentionedDate, said_at: datetime, rule: DateRule, former: bool) -> Dated:
    """Apply the days that a sentence names to its claim."""
    begin = datetime.combine(mention.end if rule == "ends" and "end of" in mention.phrase else mention.start, time())
    if mention.phrase.endswith("weeks ago"):  # The likeliest day is the one in the middle.
        begin += (mention.end - mention.start) / 2
    if mention.start == said_at.date() == mention.end:
        begin = said_at
    if rule == "ends":
        return Dated(min(begin, said_at), named=True)
    if begin > said_at:
        return Dated(said_at, _after(mention.end), mention.shown, named=True)
    over = _after(mention.end) if former else None
    latest = datetime.combine(mention.end, time()) if rule == "begins" and mention.end > mention.start else None
    return Dated(begin, over, mention.shown, named=True, latest=min(latest, said_at) if latest else None)


def _end_of(words: str, said_at: datetime) -> date | None:
    """Return the last day of the current year or month if words name it."""
    found = _END_OF.search(words)
    month = 12 if found and found["unit"] == "year" else said_at.month
    return said_at.date().replace(day=1, month=month) + relativedelta(day=31) if found else None


def _ahead(mention: MentionedDate, said_at: datetime) -> date:
    """Return the last day that is named, of the next year if it would be over: "I finish on 9 June"."""
    over = mention.end < said_at.date() and not re.search(r"\d{4}|ago|last|yesterday|past", mention.phrase)
    return mention.end + relativedelta(years=1) if over else mention.end


def _after(day: date) -> datetime:
    """Return the moment at which a day is over."""
    return datetime.combine(day, time()) + timedelta(1) if day < date.max else datetime.max


def _nearest(sentence: str, start: int, said_at: datetime) -> MentionedDate | None:
    """Return the first date after `start`, else the last one before it."""
    found = mentioned_dates(sentence, said_at)
    behind = [mention for mention in found if sentence.find(mention.phrase) >= start]
    return behind[0] if behind else found[-1] if found else None


def _before(said_at: datetime, lasting: re.Match[str]) -> datetime:
    number = count_of(lasting["count"].lower())[1]
    unit = lasting["unit"].lower().removesuffix("s")
    months = {"year": 12, "month": 1}.get(unit)
    if months:
        return said_at + relativedelta(months=-months * min(number, 1200))
    return said_at - timedelta(weeks=min(number, 5000))


# Claims of one episode.


def owner(episode: Episode) -> str:
    """Return the person that "I" refers to."""
    return episode.speaker or "user"


def claim_of(
    kind: ClaimKind, subject: str, predicate: str, value: str, when: Dated, episode: Episode, force: Force = "plain"
) -> Claim:
    """Return a claim of one episode: its value normalised for the predicate, its text a sentence with named days."""
    value = _number(value) if definition(predicate).exact or predicate == "age" else value
    subject, predicate = restored(subject), restored(predicate)
    text = fact_sentence(subject, predicate, restored(_in_third_person(value))) + (
        f" ({when.words})" if when.words and kind == "assert" else ""
    )
    return Claim(
        kind=kind,
        subject=subject,
        predicate=predicate,
        object=restored(value),
        text=text,
        episode_ids=(episode.episode_id,),
        valid_at=when.valid_at,
        until=when.until if kind == "assert" else None,
        said_at=episode.event_at,
        latest=when.latest,
        force=force,
    )


def _in_third_person(value: str) -> str:
    """Turn a value in the first person into the third."""
    possessive = re.sub(r"\b(?:my|our)\b|^(?:My|Our)(?= [a-z])", "their", value)
    return re.sub(r"^been\b", "has been", re.sub(r"\b(?:myself|ourselves)\b", "themselves", possessive))


def _number(value: str) -> str:
    lower = value.lower().replace(",", "")
    return str(patterns().numbers.get(lower, lower))


# Read endings: somebody leaves, gives up, separates, dies, or changes a plan or the name of a pet.
#
# Such sentences say little about what ends ("I quit the Post Office", "Barley died"): the rest follows from what is
# known about the person or pet. So an ending ends facts that hold; if it fits none of them, it ends nothing.

_LIGHT = frozenset(content_words("go do get have make take be keep thing work start play learn study do practise"))
"""Stems that say too little to identify what ends: "I stopped going"."""
_ADDED = frozenset(
    content_words("old new former dear beloved job position school course club team lesson habit class degree")
)
"""Stems that may accompany the value: "my old motorbike", "law school"."""


_ADDED_TO_A_PLAN = _ADDED | frozenset(
    content_words("plan idea trip visit holiday walk wedding move dream project thing journey business adventure")
)
_NAME = re.compile(r"\b[A-Z][a-z]+\b")
_WHOM = {"relative", "animal", "called", "named"}
_TOGETHER = ("married", "engaged", "in a relationship")


class _About(NamedTuple):
    """The people and pets that a sentence is about."""

    subjects: tuple[str, ...]
    """All names under which facts about them are kept."""
    named_by: list[Fact]
    """The facts that relate them to the speaker: "Ann's dog is Rex"."""


def known_names(text: str, owner: str, known: Ledger) -> list[str]:
    """Return the names in a text that belong to a person's relatives and pets, or to anybody else facts are about."""
    words = dict.fromkeys(_NAME.findall(text))
    return [word for word in words if known.knows(word) or known.facts_naming(owner, word)]


def ended(sentence: str, episode: Episode, known: Ledger, owner: str) -> Iterator[Claim]:
    """Yield the claims that end facts according to a sentence, and those that take their place.

    Args:
        sentence: one statement.
        episode: the message it is from.
        known: what has been believed so far.
        owner: the person that "I" refers to.
    """
    for ending, match in _endings_matches(sentence):
        groups = {name: restored(value) for name, value in groups_of(match).items()}
        over = _over(ending, groups, owner, known)
        yield from _endings_claims(ending, groups, over, sentence, match.start(), episode, owner)


@lru_cache(maxsize=1 << 14)
def _endings_matches(sentence: str) -> tuple[tuple[Ending, re.Match[str]], ...]:
    """Return the endings that a sentence claims; sentences that histories share are searched once."""
    return tuple(
        (ending, match)
        for ending in patterns().endings
        for match in ending.search.finditer(sentence)
        if is_claimed(sentence, match.start())
    )


def _endings_claims(
    ending: Ending, groups: dict[str, str], over: list[Fact], sentence: str, start: int, episode: Episode, owner: str
) -> Iterator[Claim]:
    written = ending.written
    when = dated(sentence, start, episode.event_at, "leaves" if written.ahead else "ends", False)
    begins = dated(sentence, start, episode.event_at, "begins", False)
    for fact in over:
        yield claim_of("end", fact.subject, fact.predicate, fact.object, when, episode)
        if written.kind == "renames":
            yield claim_of("assert", fact.subject, fact.predicate, groups["object"], begins, episode, "change")
    if written.says:
        yield claim_of("assert", owner, "status", written.says, begins, episode, "change")


def _over(ending: Ending, groups: dict[str, str], owner: str, known: Ledger) -> list[Fact]:
    """Return the facts that a sentence ends."""
    about = _about(groups, owner, known)
    named_by = [fact for fact in about.named_by if fact.predicate.startswith(ending.of)]
    if ending.written.kind == "renames":
        return named_by
    if ending.written.kind == "parts":
        if about.named_by and not named_by:
            return []  # a pet or a friend
        together = [fact for fact in known.current(owner, "status") if fact.object in _TOGETHER]
        partners = named_by or (
            [] if about.named_by else known.held(owner, ending.of) if not groups.keys() & _WHOM else []
        )
        return [*partners, *together] if partners or together else []
    facts = [fact for subject in about.subjects for fact in known.held(subject, ending.of)]
    meant = [fact for fact in [*facts, *named_by] if _is_meant(fact, groups.get("what"))]
    return [fact for fact in meant if re.search(ending.written.only, fact.object)]


def _is_meant(fact: Fact, what: str | None) -> bool:
    """Return whether the value of a fact is the one named by `what`; True if `what` is None."""
    if what is None:
        return True
    words, value = set(content_words(what)), set(content_words(fact.object)) or {fact.object.lower()}
    about = set(content_words(fact.predicate.partition(":")[2]))
    added = _ADDED_TO_A_PLAN if fact.predicate == "plan" else _ADDED
    core = words - _LIGHT - added - _stems(fact.predicate) - about or words - _LIGHT
    return bool(core) and (core <= value or (value <= words and core - value <= added))


@cache
def _stems(predicate: str) -> frozenset[str]:
    """Return the stems of the words that express a predicate."""
    name = predicate.partition(":")[0]
    known = predicates().get(name)
    wordings = (name, *known.aliases, re.sub(r"\{\w+\}", "", known.said)) if known else (name,)
    return frozenset(content_words(" ".join(wordings)))


def _about(groups: dict[str, str], owner: str, known: Ledger) -> _About:
    """Return the people and pets that the groups of a match name."""
    if "self" in groups or not groups.keys() & _WHOM:
        return _About((owner,), [])
    name = groups.get("called") or groups.get("named")
    kin, animal = groups.get("relative", "").lower(), groups.get("animal", "").lower()
    if kin or animal:
        predicate = f"relative:{kin}" if kin else f"pet:{animal}"
        held = known.held(owner, (predicate,))
        named_by = [fact for fact in held if fact.predicate == predicate and name in (None, fact.object)]
        if not name and len(named_by) > 1:
            return _About((), [])
    else:
        named_by = known.facts_naming(owner, name or "")
    kins = {kin or fact.predicate.partition(":")[2] for fact in named_by} | ({kin} if kin else set())
    names = [fact.object for fact in named_by] + [f"{owner}'s {relation}" for relation in sorted(kins)]
    return _About(tuple(dict.fromkeys([*names, *([name] if name and name != owner else [])])), named_by)


def overlaps(claim: Claim, known: Ledger) -> bool:
    """Return whether another value of the slot is known for a part of the period of a claim."""
    slot = slot_of(claim.subject, claim.predicate, claim.object)
    return claim.until is not None and any(
        slot_of(fact.subject, fact.predicate, fact.object) == slot
        and fact.valid_at < claim.until
        and (fact.invalid_at is None or claim.valid_at < fact.invalid_at)
        for fact in known.current(claim.subject, claim.predicate)
    )


VERSION = 6
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
_PRONOUN = re.compile(r"it|them|him|her|this|that|these|those|there|one|both|some|any|each other", re.IGNORECASE)
"""A value that only another sentence explains."""
_END_OF = re.compile(r"\bend of (?:the|this) (?P<unit>year|month)\b")
_STARTING = re.compile(
    r"\b(?:starting|to start|(?:and |I |I'll |and I )start) ?(?=on\b|in\b|from\b|next\b|tomorrow\b|\d)"
)
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
        found = _until_the_last_day(found, episode)
        seen = dict.fromkeys((claim.kind, claim.subject, claim.predicate, normalised(claim.object)) for claim in found)
        return [
            next(
                claim
                for claim in found
                if (claim.kind, claim.subject, claim.predicate, normalised(claim.object)) == key
            )
            for key in seen
        ]


def _until_the_last_day(claims: list[Claim], episode: Episode) -> list[Claim]:
    """Let a job that a message ends go on until the last day that it names: "I gave notice. I'm there until June"."""
    named = last_day(episode.text)
    mention = resolved(named["day"], episode.text, episode.event_at) if named else None
    last = _ahead(mention, episode.event_at) if mention else _end_of(named.get("day", ""), episode.event_at)
    if not last:
        return claims
    over, own = _after(last), "own" in named
    return [
        msgspec.structs.replace(claim, valid_at=over, latest=None)
        if claim.kind == "end"
        and claim.predicate in ("employer", "occupation")
        and (claim.subject == owner(episode)) is own
        else claim
        for claim in claims
    ]


def _read(episode: Episode, known: Ledger) -> Iterator[Voiced]:
    """Yield the statements of a message, in each form in which they are read."""
    speaker = owner(episode)
    names = known_names(episode.text, speaker, known)
    about = rf"{_FIRST_PERSON.pattern}|{other_cues()}" + (rf"|\b(?:{'|'.join(names)})\b" if names else "")
    for sentence in statements(with_antecedents(prepared(episode.text), speaker, known), re.compile(about)):
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
    if definition(predicate).functional and written.date == "begins":
        starting = _STARTING.search(sentence, match.end() - 1)
        mention = _nearest(sentence, starting.end(), episode.event_at) if starting else None
        if mention and starting:  # "a job at Crane, starting on 5 June"
            when = Dated(_after(_ahead(mention, episode.event_at)) - timedelta(1), named=True)
        elif when.until:  # "tomorrow I start at Orbis": from that day
            when = Dated(when.until - timedelta(1), named=True)
    whole = written.object.format_map(groups)
    if written.planned and not _is_planned(known, subject, predicate, whole):
        return
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
        if (value or not written.object) and not _PRONOUN.fullmatch(value):
            claim = claim_of(written.kind, subject, predicate, value, when, episode, force)
            if written.date != "stretch" or not overlaps(claim, known):
                yield claim


def _with_comma(sentence: str, episode: Episode) -> str:
    """Put a comma after a date at the start, so that a clause begins there: "Last week, I went"."""
    for mention in mentioned_dates(sentence, episode.event_at)[:1]:
        end = sentence.find(mention.phrase) + len(mention.phrase)
        if end <= len(mention.phrase) + 9 and re.match(r" (?:I|my|we|I'\w+|we'\w+)\b", sentence[end:]):
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


def _is_planned(known: Ledger, subject: str, predicate: str, value: str) -> bool:
    """Return whether a move to a place was announced before, or told already: "we arrived in Porto" is a move then."""
    plans = (normalised(fact.object) for fact in known.current(subject, "plan"))
    told = any(normalised(value) in plan and re.search(r"\b(?:mov|emigrat|relocat)", plan) for plan in plans)
    return told or _is_known(known, subject, predicate, value)


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
