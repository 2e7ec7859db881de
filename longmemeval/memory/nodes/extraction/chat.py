"""The extractor that asks a chat model: one call per node and session, one more if the reply is unreadable."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from string import Template
from typing import Any

from msgspec import structs

from longmemeval.core.text.dates_in_text.mentions import MentionedDate, resolved
from longmemeval.core.text.quantities import weekday_of
from longmemeval.llm.json_reply import mark_of, one_line, prompt_texts
from longmemeval.llm.protocol import ChatModel, LimitedChatModel
from longmemeval.memory.asking import MOST_CALLS, Asker, Drop, Evidence, Extracted, gather_limited
from longmemeval.memory.nodes.library import NodeSet
from longmemeval.memory.nodes.schema import Entry, NodeType, Value, checked_values
from longmemeval.records import Message, Session

VERSION = 1
MAX_ENTRIES = 60
"""Maximum entries of one node in one session; further ones are dropped and counted."""

_SHAPES = {"list": '["…"]', "number": "0", "flag": "false"}


class NodeExtractor:
    """Asks `model` for the entries of every node.

    The model sees what was said and the date, never an id or a question. An entry that does not fit the node's schema,
    or whose evidence nobody said, is dropped.

    Args:
        model: answers the calls; its errors pass through.
        nodes: the nodes to extract entries of.
    """

    def __init__(self, model: ChatModel, nodes: NodeSet) -> None:
        self._nodes = nodes
        prompts = prompt_texts(__package__, "system", "user", "repair")
        self._asker = Asker(LimitedChatModel(model, MOST_CALLS), prompts, "entries", MAX_ENTRIES)

    @property
    def recipe(self) -> dict[str, Any]:
        """The recipe of the entries, without the nodes."""
        return {"extractor": "chat", "version": VERSION, **self._asker.recipe}

    async def extract(self, session: Session, messages: Sequence[Message]) -> Extracted[Entry]:
        """Return the entries of one session, node after node.

        Args:
            session: gives the date.
            messages: its stored messages, which include captions of pictures.
        """
        if not any(message.content.strip() for message in messages):
            return Extracted()
        evidence = Evidence((message.message_id, message.content) for message in messages)
        works = [partial(self._entries_of, node, session, messages, evidence) for node in self._nodes.nodes]
        found = await gather_limited(works)
        return Extracted(
            tuple(entry for result in found for entry in result.items),
            dict(sum((Counter(result.dropped) for result in found), Counter[str]())),
            tuple(note for result in found for note in result.notes),
        )

    async def _entries_of(
        self, node: NodeType, session: Session, messages: Sequence[Message], evidence: Evidence
    ) -> Extracted[Entry]:
        found = await self._asker.ask(
            *self._question(node, session, messages),
            lambda raw: _checked(raw, node, messages, evidence),
            f"{session.date:%Y-%m-%d} {node.name}",
        )
        return structs.replace(found, items=_each_once(found.items))

    def _question(self, node: NodeType, session: Session, messages: Sequence[Message]) -> tuple[str, str]:
        text = "\n\n".join(f"{message.speaker or message.role}: {message.content}" for message in messages)
        fields = "\n".join(_described(name, node) for name in node.fields)
        shape = ", ".join(
            [f'"{name}": {_SHAPES.get(field.type, chr(34) + "…" + chr(34))}' for name, field in node.fields.items()]
            + ['"evidence": "…"']
        )
        system = Template(self._asker.prompts["system"]).substitute(
            summary=node.summary, task=node.prompt.strip(), fields=fields, shape=f"{{{shape}}}", most=MAX_ENTRIES
        )
        user = Template(self._asker.prompts["user"]).substitute(
            date=f"{session.date:%Y-%m-%d} ({weekday_of(session.date)})",
            text=text,
            mark=mark_of(text),
        )
        return system, user


def _described(name: str, node: NodeType) -> str:
    field = node.fields[name]
    kind = (
        f"one of {', '.join(field.choices)}" if field.choices else {"flag": "true or false"}.get(field.type, field.type)
    )
    must = "required" if field.required else "may be empty"
    return f'- "{name}" ({kind}, {must}): {" ".join(field.about.split()) or name}'


def _checked(raw: object, node: NodeType, messages: Sequence[Message], evidence: Evidence) -> Entry | Drop:
    """Return the entry that an item of a reply describes, or why it is dropped."""
    if not isinstance(raw, dict):
        return Drop("type", "an entry that is no object")
    quotation = raw.get("evidence")
    if not isinstance(quotation, str) or not (ids := evidence.message_ids(quotation)):
        return Drop("evidence", f"nobody said {str(quotation)[:60]!r}")
    values = checked_values(raw, node)
    if isinstance(values, Drop):
        return values
    first = next(message for message in messages if message.message_id == ids[0])
    return Entry(
        node=node.name,
        values=values,
        evidence=one_line(quotation),
        message_ids=ids,
        thread_id=first.thread_id,
        said_at=first.created_at,
        dates=_dates(values, node, quotation, first),
    )


def _dates(values: dict[str, Value], node: NodeType, quotation: str, message: Message) -> dict[str, MentionedDate]:
    """Resolve the fields of type date, in the context of the evidence, or of its turn if it lacks the words."""
    found: dict[str, MentionedDate] = {}
    for name, value in values.items():
        if node.fields[name].type == "date":
            phrase = str(value)
            context = quotation if phrase.casefold() in quotation.casefold() else message.content
            day = resolved(phrase, context, message.created_at)
            if day:
                found[name] = day
    return found


def _each_once(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    seen: dict[str, Entry] = {}
    for entry in entries:
        seen.setdefault(repr((entry.values, entry.message_ids)), entry)
    return tuple(seen.values())


# Retell what people say about themselves so that it can be understood alone: "I miss my sister" as said of Anna.

_AUXILIARIES = {
    "'m": "is",
    " am": "is",
    "'ve": "has",
    " have": "has",
    "'ll": "will",
    " do": "does",
    " don't": "doesn't",
    " haven't": "hasn't",
}
_I = re.compile(r"\bI(?P<rest>'m|'ve|'ll|'d| am| haven't| have| don't| do)?\b(?!['-])")
_WE = re.compile(r"\b[Ww]e(?P<rest>'re|'ve|'ll|'d)?\b(?!['-])")
_HAD = re.compile(
    r"\s+(?:(?:just|never|already|always|\w+ly)\s+)?(?:been|had|gone|done|seen|taken|given|eaten|written|made|met|lost"
    r"|won|left|kept|come|become|begun|known|thought|found|told|heard|got|gotten|bought|forgotten|better|\w+ed)\b"
)
_OWN = {
    "mine": "theirs",
    "myself": "themself",
    "ourselves": "themselves",
    "our": "their",
    "ours": "theirs",
    "us": "them",
}
_WORDS = re.compile(r"\b(?:mine|myself|ourselves|ours?|us)\b", re.IGNORECASE)
_MY = re.compile(r"\b[Mm]y\b")
_ME = re.compile(r"\b[Mm]e\b(?!')")
_YOU = re.compile(r"\b[Yy]ou(?P<rest>r|rs|'re|'ve|'ll|'d|rself)?\b(?!['-])")
_PRESENT = re.compile(
    r"(?P<adverbs>(?:\s+(?:\w+ly|just|also|always|often|still|now|never|usually))*)\s+"
    r"(?P<verb>love|like|enjoy|hate|prefer|want|need|hope|plan|work|live|play|run|go|make|have|own|think|feel|teach"
    r"|study|volunteer|write|paint|read|watch|collect|speak|use|keep|miss|dislike|adore|practice|train|dream|dance"
    r"|sing|cook|bake|do|walk|swim|garden|eat|drink|know|mean|find|try|get|take|spend|visit|meet|believe|value"
    r"|appreciate|remember|share|see|come|call|ride|hike|drive|grow|raise|struggle|suffer)\b(?!')"
)
_THING = re.compile(r"\b(?:they|them|theirs?|it|its)\b", re.I)
_PERSON = re.compile(r"\b(?:he|him|his|she|hers?)\b", re.I)
_POINTING = re.compile(
    r"\b(?:this|that|these|those)(?=$|[.,;!?]|\s+(?:is|was|were|are|one|has|had|would|will|really|made)\b)"
    r"|^(?:(?:on|in|at|for|with)\s+)?(?:this|that|these|those|such)\s+"
    r"(?!(?:day|week|weekend|month|year|morning|evening|afternoon|spring|summer|fall|autumn|winter)\b)"
    r"|\bthere(?=$|[.,;!?]| (?:last|this|yesterday|today|with|for)\b)",
    re.I,
)
_SOMEBODY = re.compile(
    r"\b(?:sister|brother|mom|mum|mother|dad|father|wife|husband|partner|fianc\w+|girlfriend|boyfriend|son|daughter|grandma"
    r"|grandpa|grandmother|grandfather|aunt|uncle|cousin|niece|nephew|friend|roommate|boss|manager|colleague|coworker|baby"
    r"|neighbou?r|therapist|mentor|coach|teacher|professor|doctor|man|woman|guy|girl|boy|kid|dog|cat|puppy|kitten)\b"
    r"|(?<!^)\b[A-Z][a-z]+\b",
)
_ANTECEDENT = re.compile(
    r"\b(?:an?|the|my|our|their|some|two|three|four|five|several|many|\d+|new|\w+'s|both|of|to|in|with|for|from)\s+"
    r"(?!(?:it|them|him|her|this|that|you|me|us)\b)[\w-]+|(?<!^)\b[A-Z][a-z]+",
)


def retold(text: str, speaker: str, other: str) -> str:
    """Return `text` with the first and second person replaced by names.

    Args:
        text: a sentence or clause, with single spaces and straight apostrophes.
        speaker: the person who says it: a name, or "the user".
        other: the person addressed.
    """
    # "John, I had a tough time": the statement is not about the person addressed.
    text = re.sub(rf"^{re.escape(other)}[,!] (?=I\b|[Mm]y\b|[Ww]e\b)", "", text)
    retelling = _I.sub(lambda found: _subject(found, speaker, text), text)
    retelling = _conjugated(retelling, speaker)
    retelling = _WE.sub(lambda found: _ours(found, speaker), retelling)
    retelling = _WORDS.sub(lambda found: _OWN[found[0].lower()], retelling)
    named = [False]

    def own(found: re.Match[str]) -> str:
        # The first "my" of a clause that does not mention the speaker before it becomes the name.
        before = retelling[: found.start()]
        if speaker in before or named[0]:
            return "their"
        named[0] = True
        return f"{speaker}'s"

    retelling = _MY.sub(own, retelling)
    retelling = _ME.sub(speaker, retelling)
    retelling = _YOU.sub(lambda found: _addressed(found, other), retelling)
    return _capital(retelling)


def _subject(found: re.Match[str], speaker: str, text: str) -> str:
    rest = found["rest"] or ""
    if rest == "'d":
        return f"{speaker} {'had' if _HAD.match(text, found.end()) else 'would'}"
    after = _AUXILIARIES.get(rest)
    return f"{speaker} {after}" if after else speaker


def _conjugated(text: str, speaker: str) -> str:
    pattern = re.compile(rf"\b{re.escape(speaker)}(?={_PRESENT.pattern})")
    for found in reversed(list(pattern.finditer(text))):
        verb = _PRESENT.match(text, found.end())
        if verb:
            text = f"{text[: verb.start('verb')]}{_third(verb['verb'])}{text[verb.end('verb') :]}"
    return text


def _third(verb: str) -> str:
    if verb == "have":
        return "has"
    if verb.endswith(("ch", "sh", "ss", "o")):
        return f"{verb}es"
    return f"{verb[:-1]}ies" if re.search(r"[^aeiou]y$", verb) else f"{verb}s"


def _ours(found: re.Match[str], speaker: str) -> str:
    after: Mapping[str, str] = {"'re": " are", "'ve": " have", "'ll": " will", "'d": " would"}
    rest = after.get(found["rest"] or "", "")
    if rest == " would" and _HAD.match(found.string, found.end()):
        rest = " had"
    return f"{speaker} and others{rest}"


def _addressed(found: re.Match[str], other: str) -> str:
    rest = found["rest"] or ""
    if rest in ("r", "rs"):
        return f"{other}'s"
    after: Mapping[str, str] = {"'re": " is", "'ve": " has", "'ll": " will", "'d": " would", "rself": ""}
    return f"{other}{after.get(rest, '')}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def is_self_sufficient(text: str, speaker: str) -> bool:
    """Return whether every "it", "she" or "that" of `text` has something before it that it may refer to.

    Args:
        text: a text from `retold`.
        speaker: its speaker, to whom no other pronoun refers.
    """
    if _POINTING.search(text):
        return False
    marked = re.sub(rf"\b{re.escape(speaker)}\b", "x", text, flags=re.IGNORECASE)
    person, thing = _PERSON.search(marked), _THING.search(marked)
    if person and not _SOMEBODY.search(marked[: person.start()]):
        return False
    if thing and re.match(r"theirs?\b", thing[0], re.I):
        # "their" refers to the speaker once the speaker is named.
        thing = None if "x" in marked[: thing.start()].split() else thing
    return thing is None or _ANTECEDENT.search(marked[: thing.start()]) is not None
