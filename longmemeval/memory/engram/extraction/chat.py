"""The extractor that asks a chat model: one call per session, one more if the reply is unreadable."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from string import Template
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from longmemeval.core.files import sha256_bytes, sha256_text
from longmemeval.core.text.quantities import weekday_of
from longmemeval.core.text.words import content_words
from longmemeval.errors import HarnessError
from longmemeval.llm.json_reply import mark_of, one_line, prompt_texts
from longmemeval.llm.protocol import ChatModel
from longmemeval.memory.asking import Asker, Drop, Evidence, Extracted, gather_limited, number_value, plain, text_value
from longmemeval.memory.engram.extraction.clauses import DateRule
from longmemeval.memory.engram.extraction.rules import Dated, claim_of, dated_by, owner
from longmemeval.memory.engram.parameters import definition, normalised, normalised_predicate, predicates
from longmemeval.memory.engram.records import Claim, ClaimKind, Episode, Force
from longmemeval.memory.engram.timeline import Verdict

V = TypeVar("V")

VERSION = 1
MAX_FACTS = 40
"""Maximum facts of one session, since a reply has no room for more. Further ones are dropped and counted."""
UNDATED = "date"
"""The reason under which facts are counted if the words for their time could not be used."""

_LONGEST = {"subject": 80, "predicate": 60, "object": 200, "when": 120}
"""Maximum characters of each field."""
_KINDS: dict[str, ClaimKind] = {"holds": "assert", "ended": "end", "never": "retract"}
_FORCES: dict[str, Force] = {"plain": "plain", "change": "change", "correction": "correction"}
_OF_SELF = re.compile(r"(?:(?:the )?(?:user|speaker)'s|my) (?=\S)", re.IGNORECASE)
_SELF = ("user", "the user", "i", "me", "myself", "speaker", "the speaker")


class Read(Struct, frozen=True):
    """The claims read from one session."""

    claims: tuple[Claim, ...] = ()
    """Claims in the order of the episodes that complete them."""
    dropped: dict[str, int] = {}
    """Number of dropped facts by reason; `reply`: calls with unreadable replies; `date`: facts that were kept, but are
    dated by the session."""
    notes: tuple[str, ...] = ()


class _Found(Struct, frozen=True):
    claim: Claim
    undated: bool


class FactReader:
    """Asks `model` for the facts of a session.

    The model sees who said what, and the date, never an id or a question. A fact is dropped if nobody said its
    evidence, and words that say when are resolved here.

    Args:
        model: answers the calls; its errors pass through.
        task: the instruction; None: the shipped text. The form of the reply is always the harness's.
    """

    def __init__(self, model: ChatModel, task: str | None = None) -> None:
        prompts = prompt_texts(__package__, "task", "form", "user", "repair")
        if task is not None:
            prompts["task"] = task
        self._asker = Asker(model, prompts, "facts", MAX_FACTS)
        form = Template(prompts["form"]).substitute(predicates="\n  ".join(_vocabulary()), most=MAX_FACTS)
        self._system = f"{prompts['task'].strip()}\n\n{form}"

    @property
    def recipe(self) -> dict[str, Any]:
        """The recipe of the claims."""
        vocabulary = sha256_text("\n".join(_vocabulary()))
        return {"extractor": "chat", "version": VERSION, "predicates_sha256": vocabulary, **self._asker.recipe}

    async def read(self, episodes: Sequence[Episode], before: Episode | None = None) -> Read:
        """Return the claims of one session.

        Args:
            episodes: the episodes of the session to read, in order.
            before: the previous episode, if the session began earlier: they may answer it.
        """
        if not any(episode.text.strip() for episode in episodes):
            return Read()
        shown = [*([before] if before else []), *episodes]
        check = _Check(shown, {episode.episode_id for episode in episodes})
        found: Extracted[_Found] = await self._asker.ask(
            self._system, self._question(shown), check, f"{episodes[0].event_at:%Y-%m-%d}"
        )
        claims = _each_once(item.claim for item in found.items)
        places = {episode.episode_id: place for place, episode in enumerate(shown)}
        undated = sum(item.undated for item in found.items)
        return Read(
            tuple(sorted(claims, key=lambda claim: places[claim.episode_ids[-1]])),
            found.dropped | ({UNDATED: undated} if undated else {}),
            found.notes,
        )

    def _question(self, shown: Sequence[Episode]) -> str:
        text = "\n\n".join(f"{episode.speaker or episode.role}: {episode.text}" for episode in shown)
        date = shown[-1].event_at
        return Template(self._asker.prompts["user"]).substitute(
            date=f"{date:%Y-%m-%d} ({weekday_of(date)})", text=text, mark=mark_of(text)
        )


def task_in(path: Path | None) -> str | None:
    """Return the instruction in the user's file; None for the shipped one.

    Raises:
        HarnessError: the file cannot be read, or is empty.
    """
    if path is None:
        return None
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise HarnessError(f"The prompt for facts cannot be read: {error.strerror}", where=str(path)) from error
    except UnicodeDecodeError as error:
        raise HarnessError("The prompt for facts is not UTF-8", where=str(path), fix="Save it as UTF-8") from error
    if not text.strip():
        raise HarnessError("The prompt for facts is empty", where=str(path), fix="Write what to extract")
    return text.strip()


class _Check:
    """Turns an item of a reply into a claim, or says why it is dropped.

    Args:
        shown: the episodes that the model saw.
        fresh: ids of the episodes to read; facts supported only by the others are known already.
    """

    def __init__(self, shown: Sequence[Episode], fresh: set[str]) -> None:
        self._shown = {episode.episode_id: episode for episode in shown}
        self._fresh = fresh
        self._evidence = Evidence((episode.episode_id, episode.text) for episode in shown)

    def __call__(self, raw: object) -> _Found | Drop:
        if not isinstance(raw, dict):
            return Drop("type", "a fact that is no object")
        quotation = raw.get("evidence")
        proof = self._proof(quotation)
        if isinstance(proof, Drop):
            return proof
        try:
            return self._found(raw, str(quotation), proof)
        except ValueError as error:
            return Drop("type", str(error))

    def _proof(self, quotation: object) -> list[Episode] | Drop:
        """Return the episodes that contain the evidence, in their order."""
        ids = self._evidence.message_ids(quotation) if isinstance(quotation, str) else ()
        if not ids or not content_words(str(quotation)):
            return Drop("evidence", f"nobody said {str(quotation)[:60]!r}")
        proof = [episode for episode in self._shown.values() if episode.episode_id in ids]
        if all(episode.role != "user" and not episode.speaker for episode in proof):
            return Drop("assistant", f"only the assistant said {str(quotation)[:60]!r}")
        if proof[-1].episode_id not in self._fresh:
            return Drop("known", f"said earlier: {str(quotation)[:60]!r}")
        return proof

    def _found(self, raw: dict[str, object], quotation: str, proof: list[Episode]) -> _Found | Drop:
        """Return the claim of an item with evidence.

        Raises:
            ValueError: a field is invalid.
        """
        kind, force = _chosen(raw, "status", _KINDS, "holds"), _chosen(raw, "force", _FORCES, "plain")
        confidence = 1.0 if raw.get("confidence") is None else number_value(raw["confidence"])
        if not 0 <= confidence <= 1:
            raise ValueError(f"confidence: {confidence:g} is not between 0 and 1")
        raw_predicate, value = _text(raw, "predicate"), _text(raw, "object", empty=kind != "assert")
        predicate = normalised_predicate(raw_predicate)
        if predicate is None:
            return Drop("predicate", f"{raw_predicate[:40]!r} does not say of what")
        speaker = [episode for episode in proof if episode.role == "user" or episode.speaker][-1]
        subject = self._subject(_text(raw, "subject"), speaker)
        when = _text(raw, "when", empty=True)
        dated = self._dated(when, quotation, proof, _date_rule(kind, predicate), predicate.startswith("former"))
        claim = claim_of(kind, subject, predicate, value, dated or Dated(speaker.event_at), speaker, force)
        if claim.object and definition(predicate).exact and not any(character.isdigit() for character in claim.object):
            return Drop("type", f"object: {claim.object[:40]!r} is no figure")
        ids = tuple(episode.episode_id for episode in proof)
        claim = msgspec.structs.replace(claim, episode_ids=ids, confidence=confidence)
        return _Found(claim, bool(when) and dated is None)

    def _subject(self, name: str, speaker: Episode) -> str:
        if name.casefold() in _SELF:
            return owner(speaker)
        if possessive := _OF_SELF.match(name):
            return f"{owner(speaker)}'s {name[possessive.end() :]}"
        people = [owner(episode) for episode in self._shown.values() if episode.role == "user" or episode.speaker]
        return {person.casefold(): person for person in people}.get(name.casefold(), name)

    def _dated(self, when: str, quotation: str, proof: list[Episode], rule: DateRule, former: bool) -> Dated | None:
        """Date the claim by the words in `when`, if somebody said them and they name a day; else return None."""
        for episode in reversed(proof):
            if when and plain(when) in plain(episode.text):
                context = quotation if plain(when) in plain(quotation) and len(proof) == 1 else episode.text
                return dated_by(when, context, episode.event_at, rule, former)
        return None


def _date_rule(kind: ClaimKind, predicate: str) -> DateRule:
    if kind == "end":
        return "ends"
    return "event" if predicate in ("event", "plan") else "begins"


def _chosen(raw: dict[str, object], field: str, choices: dict[str, V], usual: str) -> V:
    value = raw.get(field) or usual
    if not isinstance(value, str) or value.strip().casefold() not in choices:
        raise ValueError(f"{field}: {str(value)[:40]!r} is none of {', '.join(choices)}")
    return choices[value.strip().casefold()]


def _text(raw: dict[str, object], field: str, *, empty: bool = False) -> str:
    value = raw.get(field)
    try:
        text = "" if value is None else text_value(value, _LONGEST[field])
    except ValueError as error:
        raise ValueError(f"{field}: {error}") from None
    if not text and not empty:
        raise ValueError(f"{field} is missing")
    return text


def _vocabulary() -> list[str]:
    """Return the listed predicates as the prompt shows them, each with its sentence."""
    return [
        f"{name}{':<what>' if '{about}' in predicate.said else ''} ({_example(name, predicate.said)})"
        for name, predicate in predicates().items()
    ]


def _example(name: str, sentence: str) -> str:
    return sentence.format(subject="X", predicate=name, about="<what>", object="…")


def _each_once(claims: Iterable[Claim]) -> list[Claim]:
    seen: dict[object, Claim] = {}
    for claim in claims:
        seen.setdefault((claim.kind, claim.subject, claim.predicate, normalised(claim.object), claim.valid_at), claim)
    return list(seen.values())


# The chat model's verdicts on contradictions that nothing else can settle.

_VERDICTS: dict[str, Verdict] = {"update": "update", "elaboration": "same", "both": "both", "unclear": "unclear"}


class Answered(Struct, frozen=True):
    """The result for one pair of claims."""

    verdict: Verdict
    notes: tuple[str, ...] = ()
    """The reason, if the reply was not a verdict."""


class Decisions:
    """Verdicts on pairs of claims: a `Decide` that answers "unclear" for pairs without a verdict.

    Args:
        known: verdicts by a hash of the two claims.
    """

    def __init__(self, known: Mapping[str, Verdict]) -> None:
        self.known = dict(known)
        self.used: dict[str, Verdict] = {}
        """Known verdicts that were requested since `begin`."""
        self.open: dict[str, tuple[Claim, Claim]] = {}
        """Pairs that were requested since `begin` and have no verdict."""

    def begin(self) -> None:
        """Forget which pairs were requested."""
        self.used.clear()
        self.open.clear()

    def __call__(self, older: Claim, newer: Claim) -> Verdict:
        """Return the verdict on the two claims."""
        key = sha256_bytes(msgspec.json.encode((older, newer)))[:24]
        if key in self.known:
            self.used[key] = self.known[key]
        else:
            self.open[key] = (older, newer)
        return self.known.get(key, "unclear")


class Judge:
    """Asks a chat model how two claims relate.

    Args:
        model: answers the calls; its errors pass through.
    """

    def __init__(self, model: ChatModel) -> None:
        prompts = prompt_texts(__package__, "verdict", "verdict-user")
        repair = prompt_texts(__package__, "verdict-repair")["verdict-repair"]
        self._asker = Asker(model, {**prompts, "repair": repair}, "verdicts", 1)

    @property
    def recipe(self) -> dict[str, Any]:
        """The recipe of the verdicts, without the model."""
        return {"verdict_prompts_sha256": self._asker.recipe["prompts_sha256"]}

    async def answer(self, decisions: Decisions, most: int, transcript: Callable[[Claim], str]) -> list[Answered]:
        """Have the model decide the first open pairs.

        Args:
            decisions: has the open pairs; receives the verdicts.
            most: maximum number of pairs.
            transcript: returns the messages that a claim is from, as the prompt shows them.
        """
        pairs = dict(list(decisions.open.items())[:most])
        answered = await gather_limited([partial(self._decide, *pair, transcript) for pair in pairs.values()])
        decisions.known |= {key: answer.verdict for key, answer in zip(pairs, answered, strict=True)}
        return answered

    async def _decide(self, older: Claim, newer: Claim, transcript: Callable[[Claim], str]) -> Answered:
        text = "\n\n".join(dict.fromkeys((transcript(older), transcript(newer))))
        user = Template(self._asker.prompts["verdict-user"]).substitute(
            older=one_line(older.text), newer=one_line(newer.text), text=text, mark=mark_of(text)
        )
        where = f"{newer.valid_at:%Y-%m-%d} {newer.subject}, {newer.predicate}"
        found: Extracted[Verdict] = await self._asker.ask(self._asker.prompts["verdict"], user, _word, where)
        if found.items:
            return Answered(found.items[0])
        return Answered("unclear", found.notes[:1] or (f"{where}: no verdict",))


def _word(raw: object) -> Verdict | Drop:
    verdict = _VERDICTS.get(raw.strip().casefold()) if isinstance(raw, str) else None
    return verdict or Drop("verdict", f"{str(raw)[:40]!r} is none of {', '.join(_VERDICTS)}")
