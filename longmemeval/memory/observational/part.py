"""The parts of observational memory: the log (`observations.json`), kept message by message, and its vectors."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from string import Template
from typing import Any, Literal

from msgspec import Struct

from longmemeval.core.files import sha256_text
from longmemeval.core.part_options import PartOptions
from longmemeval.llm.json_reply import mark_of, prompt_texts
from longmemeval.llm.protocol import ChatMessage, ChatModel, ChatReply, ChatRequest
from longmemeval.llm.tokens import CharacterCounter
from longmemeval.memory.asking import gather_limited
from longmemeval.memory.observational.log import (
    Observation,
    ObservationLog,
    ReadLine,
    UnusableReply,
    decode_log,
    encode_log,
    read_observations,
    shown_log,
    union,
)
from longmemeval.memory.working_memory.statements import statements
from longmemeval.records import Message
from longmemeval.storage.messages_part import MESSAGES
from longmemeval.storage.parts import Expected, ModelPart, PartInput, PartOutput, PartTools, Stored
from longmemeval.storage.vector_index import VectorItem
from longmemeval.storage.vectors_part import VectorsPart

VERSION = 1
OBSERVER_TEMPERATURE, REFLECTOR_TEMPERATURE = 0.3, 0.0
"""Those of the published system."""
BATCH_TOKENS = 10_000
"""Tokens of the messages of one call of the observer, as published."""
MOST_TOKENS = 16_000
"""Limit of one reply: the longest that common models allow."""
DEMANDS = (
    "",
    " Your last version was too long. Shorten a little more.",
    " Your last version was still too long. Shorten much more: keep six tenths of the detail.",
    " Your last version was still too long. Keep only what matters most: four tenths of the detail.",
)
"""What the attempts of a reflection ask for, each more than the one before."""
_PROMPTS = ("observe", "batch", "again", "reflect", "condense")
_TOKENS = CharacterCounter()
Scope = Literal["thread", "resource"]


class LogSettings(Struct, frozen=True):
    """When the log is written and condensed; all figures are tokens, estimated as a quarter of the characters."""

    message_tokens: int = 30_000
    """Unobserved messages that are observed together."""
    reflect_tokens: int = 40_000
    """Length of the log from which it is condensed."""
    previous_tokens: int = 2_000
    """The end of the log that the observer sees."""
    scope: Scope = "resource"
    """Whether all threads share a log."""

    @property
    def recorded(self) -> dict[str, Any]:
        """The settings as recipes have them."""
        return {name: getattr(self, name) for name in self.__struct_fields__}


def batches(messages: Sequence[Message]) -> list[list[Message]]:
    """Return messages in groups of at most `BATCH_TOKENS`, by thread: a thread is divided only if it is longer."""
    found, size = list[list[Message]](), 0
    for _, group in groupby(messages, key=lambda message: message.thread_id):
        thread = list(group)
        whole = sum(_size(message) for message in thread)
        if not found or size + whole > BATCH_TOKENS:
            found.append([])
            size = 0
        for message in thread:
            if found[-1] and size + _size(message) > BATCH_TOKENS:
                found.append([])
                size = 0
            found[-1].append(message)
            size += _size(message)
    return found


def waiting_groups(messages: Sequence[Message], settings: LogSettings) -> tuple[list[list[Message]], list[Message]]:
    """Return the groups of messages that are observed at once, in order, and those that stay unobserved."""
    groups, waiting, sizes = list[list[Message]](), dict[str, list[Message]](), dict[str, int]()
    for message in messages:
        key = message.thread_id if settings.scope == "thread" else ""
        waiting.setdefault(key, []).append(message)
        sizes[key] = sizes.get(key, 0) + _size(message)
        if sizes[key] > settings.message_tokens:
            groups.append(waiting.pop(key))
            sizes[key] = 0
    left = {message.message_id for rest in waiting.values() for message in rest}
    return groups, [message for message in messages if message.message_id in left]


def _size(message: Message) -> int:
    return _TOKENS.count(message.content)


class LogKeeper:
    """Keeps the log of one haystack with a chat model.

    The model sees messages and its own log, never an id or a question.

    Args:
        model: observes and condenses.
        settings: thresholds.
    """

    def __init__(self, model: ChatModel, settings: LogSettings) -> None:
        self._model, self._settings = model, settings
        self._prompts = prompt_texts(__package__, *_PROMPTS)
        self._log: list[Observation] = []
        self._forgotten: tuple[str, ...] = ()
        self._raw: list[Message] = []
        self.notes: list[str] = []
        """What failed, and why."""
        self.reflections = 0
        """How often the log was condensed."""

    @property
    def recipe(self) -> dict[str, Any]:
        """The recipe of the log."""
        return {
            "observer": "chat",
            "version": VERSION,
            "prompts_sha256": {name: sha256_text(text) for name, text in self._prompts.items()},
            "demands_sha256": sha256_text("\n".join(DEMANDS)),
            "model": self._model.spec,
            "temperatures": [OBSERVER_TEMPERATURE, REFLECTOR_TEMPERATURE],
            "max_tokens": MOST_TOKENS,
        }

    async def keep(self, messages: Sequence[Message]) -> ObservationLog:
        """Observe all messages in order, and condense the log whenever it is too long."""
        groups, left = waiting_groups(messages, self._settings)
        for group in groups:
            previous = self._end_of_log(group)
            works = [partial(self._observe, batch, previous) for batch in batches(group)]
            for found in await gather_limited(works):
                self._log += found
            if self._length() > self._settings.reflect_tokens:
                await self._condense()
        places = {message.message_id: place for place, message in enumerate(messages)}
        raw = sorted({message.message_id for message in (*self._raw, *left)}, key=places.__getitem__)
        known = {one for observation in self._log for one in observation.message_ids}
        forgotten = tuple(one for one in dict.fromkeys(self._forgotten) if one not in known)
        return ObservationLog(tuple(self._log), tuple(raw), forgotten)

    def _length(self) -> int:
        return _TOKENS.count(shown_log(self._log))

    def _end_of_log(self, group: Sequence[Message]) -> str:
        """Return the newest observations within the limit, of the same thread if each has its own log."""
        own = {message.thread_id for message in group}
        seen = [one for one in self._log if self._settings.scope == "resource" or own & set(one.thread_ids)]
        first = len(seen)
        while first and _TOKENS.count(shown_log(seen[first - 1 :])) <= self._settings.previous_tokens:
            first -= 1
        return shown_log(seen[first:]) or "(empty)"

    async def _observe(self, batch: Sequence[Message], previous: str) -> list[Observation]:
        """Return the observations on a batch; messages about which there is no usable reply stay unobserved."""
        text, labels = shown_messages(batch)
        filled = Template(self._prompts["batch"]).substitute(
            log=previous, messages=text, mark=mark_of(f"{previous}\n{text}")
        )
        try:
            lines = await self._ask("observe", filled, OBSERVER_TEMPERATURE, MOST_TOKENS)
        except UnusableReply as problem:
            day = f"{batch[0].created_at:%Y-%m-%d}"
            self.notes.append(f"{day}: {len(batch)} messages not observed, two replies unusable: {problem}")
            self._raw += batch
            return []
        return [_observation(line, batch, labels) for line in lines]

    async def _ask(self, system: str, user: str, temperature: float, most_tokens: int) -> list[ReadLine]:
        """Ask for observations, a second time if the reply is unusable.

        Raises:
            UnusableReply: the second reply is unusable too.
        """
        asked = (ChatMessage("system", self._prompts[system]), ChatMessage("user", user))
        reply = await self._reply(asked, temperature, most_tokens)
        try:
            return read_observations(reply.text, is_cut=reply.finish_reason == "length")
        except UnusableReply as problem:
            again = ChatMessage("user", Template(self._prompts["again"]).substitute(problem=problem))
        reply = await self._reply((*asked, again), temperature, most_tokens)
        return read_observations(reply.text, is_cut=reply.finish_reason == "length")

    async def _reply(self, messages: tuple[ChatMessage, ...], temperature: float, most_tokens: int) -> ChatReply:
        return await self._model.complete(ChatRequest(messages, max_tokens=most_tokens, temperature=temperature))

    async def _condense(self) -> None:
        """Replace the log by a shorter one; what stays too long after four attempts is kept, with a note."""
        log = shown_log(self._log, lambda place: str(place + 1))
        limit, best = self._settings.reflect_tokens, list[Observation]()
        for demand in DEMANDS:
            filled = Template(self._prompts["condense"]).substitute(log=log, demand=demand, mark=mark_of(log))
            try:
                lines = await self._ask("reflect", filled, REFLECTOR_TEMPERATURE, min(limit, MOST_TOKENS))
            except UnusableReply:
                continue
            found = [self._condensed(line) for line in lines]
            if found and (not best or _TOKENS.count(shown_log(found)) < _TOKENS.count(shown_log(best))):
                best = found
            if best and _TOKENS.count(shown_log(best)) < limit:
                break
        if not best or _TOKENS.count(shown_log(best)) >= self._length():
            self.notes.append(f"the log was not condensed: {len(DEMANDS)} replies were unusable or no shorter")
            return
        if (length := _TOKENS.count(shown_log(best))) >= limit:
            self.notes.append(f"the condensed log has {length:,} tokens, {limit:,} were asked for")
        kept = {one for observation in best for one in observation.message_ids}
        self._forgotten += tuple(one for old in self._log for one in old.message_ids if one not in kept)
        self._log, self.reflections = best, self.reflections + 1

    def _condensed(self, line: ReadLine) -> Observation:
        """Return a line of a reflection with the messages of all that it names; of the whole log if it names none."""
        named = [int(one) - 1 for one in line.sources if one.isdigit() and 0 < int(one) <= len(self._log)]
        made_from = [self._log[place] for place in named] or self._log
        return Observation(
            line.day or made_from[-1].day,
            line.text,
            union(one.message_ids for one in made_from),
            union(one.thread_ids for one in made_from),
            condensed=True,
        )


def shown_messages(batch: Sequence[Message]) -> tuple[str, dict[str, Message]]:
    """Return messages as the observer sees them, and each by its label: A1 is the first of the first thread."""
    labels, threads = dict[str, Message](), list[str]()
    for number, (_, group) in enumerate(groupby(batch, key=lambda message: message.thread_id)):
        name, lines, day = _letters(number), list[str](), ""
        for place, message in enumerate(group, start=1):
            labels[f"{name}{place}"] = message
            today = f"{message.created_at:%Y-%m-%d}"
            lines += [f"# {today}"] if today != day else []
            lines.append(
                f"[{name}{place}] {message.created_at:%H:%M} {message.speaker or message.role}: {message.content}"
            )
            day = today
        threads.append("\n".join([f"<thread {name}>", *lines, "</thread>"]))
    return "\n".join(threads), labels


def _letters(number: int) -> str:
    return (_letters(number // 26 - 1) if number >= 26 else "") + chr(ord("A") + number % 26)


def _observation(line: ReadLine, batch: Sequence[Message], labels: Mapping[str, Message]) -> Observation:
    """Return an observation with the messages that it names; with the whole batch if it names none."""
    named = [labels[label] for label in line.sources if label in labels]
    threads = {re.sub(r"\d+", "", label) for label in line.sources}
    of_threads = [message for label, message in labels.items() if re.sub(r"\d+", "", label) in threads]
    sources = named or of_threads or batch
    return Observation(
        line.day or sources[0].created_at.date(),
        line.text,
        union([[message.message_id for message in sources]]),
        union([[message.thread_id for message in sources]]),
    )


def log_by_rules(messages: Sequence[Message], settings: LogSettings) -> ObservationLog:
    """Return the log that needs no model: each statement that a message makes is an observation; nothing is condensed.

    Of a chat with an assistant only the user's messages are read.
    """
    groups, left = waiting_groups(messages, settings)
    found = []
    for message in (one for group in groups for one in group):
        if message.role == "user" or message.speaker:
            who = message.speaker or "The user"
            for text in statements(message.content):
                line = f"🔴 {message.created_at:%H:%M} {who}: {text}"
                found.append(Observation(message.created_at.date(), line, (message.message_id,), (message.thread_id,)))
    return ObservationLog(tuple(found), tuple(message.message_id for message in left))


class ObservationsPart(ModelPart[ObservationLog]):
    """The log of a haystack.

    Args:
        settings: thresholds. The part of the usual ones is called `observations`; for others the start of a hash is
            appended.
    """

    option = "observer_model"
    title = "observations"
    figure_names = ("calls of the observer", "tokens of the messages observed")
    prompt_tokens, reply_tokens, most_reply_tokens = 900, 2000, MOST_TOKENS
    share, empty_bytes = 0.5, 200

    def __init__(self, settings: LogSettings) -> None:
        self._settings = settings
        key = sha256_text(repr(settings.recorded))[:8]
        self.name = "observations" if settings == LogSettings() else f"observations-{key}"

    def settings(self) -> dict[str, Any]:
        """Return the thresholds."""
        return self._settings.recorded

    def recipe(self, tools: PartTools) -> dict[str, Any]:
        """Return observer, prompts and thresholds."""
        model = tools.options.observer_model
        if model == "rules":
            return {"observer": "rules", "version": VERSION, **self.settings()}
        return {**LogKeeper(tools.chat_model(model), self._settings).recipe, **self.settings()}

    async def make(self, source: PartInput, tools: PartTools) -> PartOutput:
        """Keep the log through the whole haystack, oldest message first."""
        model = tools.options.observer_model
        if model == "rules":
            log = log_by_rules(source.messages, self._settings)
            return PartOutput(encode_log(log), stats={"observations": len(log.observations)})
        keeper = LogKeeper(tools.chat_model(model), self._settings)
        log = await keeper.keep(source.messages)
        stats = {"observations": len(log.observations), "reflections": keeper.reflections}
        return PartOutput(encode_log(log), notes=tuple(keeper.notes), stats=stats)

    def expected(self, source: PartInput, options: PartOptions) -> Expected | None:
        """Estimate the calls: those of the observer are known, the length of its log is a fifth of the messages."""
        if not (models := self.models(options)):
            return None
        settings, groups = self._settings, waiting_groups(source.messages, self._settings)[0]
        calls = sum(len(batches(group)) for group in groups)
        tokens = sum(_size(message) for group in groups for message in group)
        log = tokens // 5
        reflections = max(0, (log - settings.reflect_tokens // 2) // max(1, settings.reflect_tokens // 2))
        return Expected(
            self.title,
            models[0],
            calls=calls + reflections,
            prompt_tokens=tokens
            + calls * (self.prompt_tokens + settings.previous_tokens)
            + reflections * (self.prompt_tokens + settings.reflect_tokens),
            completion_tokens=log + reflections * settings.reflect_tokens // 2,
            most_completion_tokens=(calls + reflections) * MOST_TOKENS,
            figures=dict(zip(self.figure_names, (calls, tokens), strict=True)),
        )

    def open(self, stored: Stored) -> ObservationLog:
        """Return the log.

        Raises:
            FixtureError: the part is damaged.
        """
        return decode_log(stored.data(), stored.where)

    def shown(self, stored: Stored) -> str:
        """Return the log, and how many messages it does not cover."""
        log = stored.part(self)
        return f"{shown_log(log.observations)}\n\n{len(log.unobserved)} messages not observed yet".strip()

    def contradictions(self, stored: Stored) -> Iterator[str]:
        """Yield a complaint for each observation on a message that is not stored."""
        log, positions = stored.part(self), stored.part(MESSAGES).positions
        for number, observation in enumerate(log.observations):
            if unknown := [one for one in observation.message_ids if one not in positions]:
                yield f"contains observation {number}, on a message that is not in db.json: {unknown[0]}"
        if unknown := [one for one in (*log.unobserved, *log.forgotten) if one not in positions]:
            yield f"names a message that is not in db.json: {unknown[0]}"


class ObservationVectors(VectorsPart):
    """The vectors of the observations."""

    index_name = "observations"

    def __init__(self, log: ObservationsPart) -> None:
        self.needs, self._log = (log,), log
        self.name = f"{log.name}-vectors"

    def entries(self, source: PartInput, options: PartOptions) -> tuple[list[VectorItem], list[str]]:
        """Return each observation by its number, and its text."""
        found = source.part(self._log).observations
        items = [VectorItem(f"entry:{number}", one.thread_ids[0], number) for number, one in enumerate(found)]
        return items, [one.text for one in found]
