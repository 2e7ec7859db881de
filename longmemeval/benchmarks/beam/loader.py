"""BEAM: 100 conversations of 100K to 10M tokens, 20 questions each."""

import hashlib
import os
from collections.abc import Iterator
from datetime import datetime
from functools import cached_property
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from longmemeval.benchmarks.beam.format import (
    GOLD_TEXTS,
    MARKER,
    Batch,
    Message,
    Probe,
    date_of,
    read_bare,
    read_messages,
    read_probes,
)
from longmemeval.benchmarks.beam.layout import SIZES, Files, Text, list_conversations
from longmemeval.benchmarks.faults import problem_of_id, unknown_id
from longmemeval.core.files import sha256_file
from longmemeval.errors import DataError
from longmemeval.records import Gold, Haystack, Question, Session, Turn

FULL = "-full"
"""Suffix of data sets with whole conversations, which the official run reads cut."""
UNMARKED = "-unmarked"


class BeamGold(Gold, frozen=True):
    """The right answer to a question of BEAM. `answer` is for people; answers are graded by the rubric."""

    rubric: tuple[str, ...] = ()
    """The nuggets, for event ordering in the right order."""


class Dated(Struct, frozen=True):
    """The date of a session, as in the data or repaired."""

    date: datetime
    text: str
    repaired: bool = False


class Conversation(Struct, frozen=True):
    """The part of a conversation that is held in memory: everything but its texts."""

    files: Files
    probes: tuple[Probe, ...]
    anchors: tuple[datetime | None, ...]
    """The dates of the batches in the data, in file order."""
    dates: tuple[Dated, ...]
    """The same dates, repaired."""
    order: tuple[int, ...]
    """Indexes of the batches in order of date, ties in file order."""
    message_ids: dict[int, str]
    """Message id by global id; a repeated global id means its first message."""


class BeamDataset:
    """A `Dataset` over a folder `chats/<size>`, or over one conversation of it.

    A batch is a session, dated by its first message; a question is asked on the day of the last session, since the data
    has no date for it. The date of the next batch replaces a missing date, and that of a first batch dated after the
    second; sessions are then sorted by date.

    Opening reads the questions; conversations are read on demand, those of 10M one plan at a time.

    Args:
        path: the folder.
        name: the catalogue name; empty: `beam-` and the folder's name. `…-full` selects the whole texts.
        text: `official`: the texts that the authors' run reads, cut where there is a cut file; `full`: those of
            `chat.json`, as in the copy at Hugging Face, with `-full` added to the name.
        markers: False removes the generator's ` ->-> 1,5` at the end of users' messages, which the official code shows
            to every model, and adds `-unmarked` to the name.

    Raises:
        DataError: there is no conversation, or questions are invalid.
    """

    benchmark = "beam"

    def __init__(self, path: Path, name: str = "", text: Text = "official", markers: bool = True) -> None:
        self.path, self._markers = path, markers
        self.text: Text = "full" if name.endswith(FULL) else text
        name = name or f"beam-{Path(os.path.abspath(path)).name}"
        ending = FULL if self.text == "full" and not name.endswith(FULL) else ""
        self.name = name + ending + ("" if markers else UNMARKED)
        self._files: dict[str, Files] = {}
        self._probes: dict[str, tuple[Probe, ...]] = {}
        self._conversations: dict[str, Conversation] = {}
        for files in list_conversations(path):
            if problem := problem_of_id(files.haystack_id):
                raise DataError(f"The haystack id {files.haystack_id!r} {problem}", where=str(files.questions))
            if self.text == "full" and not files.full:
                what = f"The conversation {files.haystack_id!r} is here only cut, not whole"
                raise DataError(what, where=str(files.cut), fix="Download it again, or load it without `-full`")
            self._files[files.haystack_id] = files
            self._probes[files.haystack_id] = read_probes(files.questions)
        if not len(self):
            raise DataError("The data set has no question", where=str(path))

    @property
    def files(self) -> tuple[Path, ...]:
        """The texts and the questions of all conversations."""
        return tuple(path for files in self._files.values() for path in (*files.chats(self.text), files.questions))

    @cached_property
    def sha256(self) -> str:
        """Hash of the files' relative names and hashes, and of the options that remove text; 64 hexadecimal digits."""
        base = Path(os.path.abspath(self.path))
        lines = [f"{sha256_file(file)}  {file.relative_to(base).as_posix()}\n" for file in self.files]
        return hashlib.sha256("".join([*lines, *([] if self._markers else ["without markers\n"])]).encode()).hexdigest()

    @cached_property
    def content_sha256(self) -> str:
        """Hash of every haystack, question and gold as canonical JSON, one a line; validates all files."""
        digest = hashlib.sha256()
        for haystack_id in self._files:
            for line in self._content(haystack_id):
                digest.update(line + b"\n")
        return digest.hexdigest()

    def _content(self, haystack_id: str) -> Iterator[bytes]:
        for session in self.haystack(haystack_id).sessions:
            yield msgspec.json.encode((haystack_id, session))
        for question in self._questions(haystack_id):
            yield msgspec.json.encode((question, self.gold(question.question_id)))

    def __len__(self) -> int:
        return sum(map(len, self._probes.values()))

    def questions(self) -> Iterator[Question]:
        """Yield all questions, conversations by number and abilities in the order of the files."""
        for haystack_id in self._files:
            yield from self._questions(haystack_id)

    def haystacks(self) -> Iterator[Haystack]:
        """Return all haystacks by number, one in memory at a time; raises `DataError` at the first invalid one."""
        return map(self.haystack, self._files)

    def haystack(self, haystack_id: str) -> Haystack:
        """Return one haystack, sessions in order of dates."""
        conversation = self.conversation(haystack_id)
        batches = read_messages(conversation.files.chats(self.text))
        sessions = [self._session(*pair) for pair in zip(batches, conversation.dates, strict=True)]
        return Haystack(haystack_id, tuple(sessions[index] for index in conversation.order))

    def question_type(self, question_id: str) -> str:
        """Return the ability that one question asks for."""
        return self._find(question_id)[1].ability

    def gold(self, question_id: str) -> BeamGold:
        """Return the gold of `question_id`, with its rubric and evidence."""
        haystack_id, probe = self._find(question_id)
        known = self.conversation(haystack_id).message_ids
        turns = tuple(known[source_id] for source_id in probe.source_ids if source_id in known)
        raw = () if probe.labels is None else (msgspec.json.encode(probe.labels).decode(),)
        size = SIZES.get(self._files[haystack_id].size)
        return BeamGold(
            question_id=question_id,
            question_type=probe.ability,
            answer=probe.fields[GOLD_TEXTS[probe.ability]],
            evidence_sessions=tuple(dict.fromkeys(turn.rpartition(":")[0] for turn in turns)),
            evidence_turns=turns,
            abstention=probe.ability == "abstention",
            evidence_raw=raw,
            facets=({"thousand tokens": size} if size else {}) | {"nuggets": len(probe.rubric)},
            rubric=probe.rubric,
        )

    def conversation(self, haystack_id: str) -> Conversation:
        """Return one conversation without its texts; raises `DataError` if there is none with that id."""
        if haystack_id not in self._files:
            raise unknown_id(self.path, "haystack", haystack_id, self._files)
        if haystack_id not in self._conversations:
            self._conversations[haystack_id] = self._indexed(haystack_id)
        return self._conversations[haystack_id]

    def conversations(self) -> Iterator[Conversation]:
        """Return all conversations, without their texts."""
        return map(self.conversation, self._files)

    def _indexed(self, haystack_id: str) -> Conversation:
        files = self._files[haystack_id]
        anchors, message_ids = [], dict[int, str]()
        for batch in read_bare(files.chats(self.text)):
            anchors.append(batch.anchor)
            for index, message in enumerate(batch.messages):
                message_ids.setdefault(batch.offset + message.id, f"{batch.name}:{index}")
        dates = _repaired(anchors, files)
        order = tuple(sorted(range(len(dates)), key=lambda index: dates[index].date))
        return Conversation(files, self._probes[haystack_id], tuple(map(date_of, anchors)), dates, order, message_ids)

    def _session(self, batch: Batch[Message], dated: Dated) -> Session:
        turns = tuple(Turn(message.role, self._shown(message)) for message in batch.messages)
        return Session(batch.name, dated.date, dated.text, turns)

    def _shown(self, message: Message) -> str:
        return message.content if self._markers or message.role != "user" else MARKER.sub("", message.content)

    def _questions(self, haystack_id: str) -> Iterator[Question]:
        conversation = self.conversation(haystack_id)
        last = conversation.dates[conversation.order[-1]]
        for probe in conversation.probes:
            name = f"{haystack_id}/{probe.ability}/{probe.number}"
            yield Question(name, probe.fields["question"], last.date, last.text, haystack_id)

    def _find(self, question_id: str) -> tuple[str, Probe]:
        haystack_id, _, rest = question_id.partition("/")
        probes = {f"{probe.ability}/{probe.number}": probe for probe in self._probes.get(haystack_id, ())}
        if rest not in probes:
            known = [f"{name}/{rest}" for name in self._files] + [f"{haystack_id}/{probe}" for probe in probes]
            raise unknown_id(self.path, "question", question_id, known)
        return haystack_id, probes[rest]


def _repaired(anchors: list[str | None], files: Files) -> tuple[Dated, ...]:
    """Return the dates of the batches. A missing date, and a first one after the second, become the next batch's."""
    own = [date_of(anchor) for anchor in anchors]
    if not any(own):
        what = "No batch has a date such as March-15-2024 on its first message"
        raise DataError(what, where=str(files.questions.parents[1]), fix="Download the conversation again")
    second = own[1] if len(own) > 1 else None
    if own[0] and second and own[0] > second:
        own[0] = None
    known = [Dated(date, text) if date and text else None for date, text in zip(own, anchors, strict=True)]
    dated: list[Dated] = []
    # After the last date there is no next date, so the last one replaces it.
    following = next(date for date in reversed(known) if date)
    for date in reversed(known):
        dated.append(date or replace(following, repaired=True))
        following = date or following
    return tuple(reversed(dated))
