"""BEAM: 100 conversations of 100K to 10M tokens, 20 questions each; and what in them can mislead."""

import hashlib
import os
import re
from collections.abc import Iterator
from datetime import datetime
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from longmemeval.benchmarks.beam.format import (
    GOLD_TEXTS,
    MARKER,
    SIZES,
    Batch,
    Files,
    Message,
    Probe,
    Text,
    date_of,
    flat,
    list_conversations,
    read_bare,
    read_messages,
    read_probes,
)
from longmemeval.benchmarks.data_files import problem_of_id, unknown_id
from longmemeval.core.files import sha256_file, sha256_text
from longmemeval.errors import DataError
from longmemeval.records import Gold, Haystack, Question, Session, Turn

FULL = "-full"
"""Suffix of datasets with whole conversations, which the official run reads cut."""
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
                what = f"The conversation {files.haystack_id!r} is downloaded only as cut text"
                raise DataError(what, where=str(files.cut), fix="Download it again, or load it without `-full`")
            self._files[files.haystack_id] = files
            self._probes[files.haystack_id] = read_probes(files.questions)
        if not len(self):
            raise DataError("The dataset has no question", where=str(path))

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
            elsewhere = [f"{name}/{rest}" for name in self._files if name != haystack_id]
            known = elsewhere + [f"{haystack_id}/{probe}" for probe in probes]
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


_WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_REGULAR_MARKER = re.compile(r"->-> \d+,\d+\s*$")
_LONG = 32_000
"""Number of characters of about 8,000 tokens, the window of many embedding models."""


class BeamQuirks(Struct):
    """Counts of each oddity."""

    conversations_with_a_cut_text: int = 0
    """Conversations that the official run reads cut; the copy at Hugging Face has only whole ones."""
    messages_cut_away: int = 0
    """Messages missing from the cut files, whichever of the two texts is read."""
    messages_edited_in_the_cut_text: int = 0
    message_ids_that_come_twice: int = 0
    """Ids repeated within a conversation. Evidence means the first."""
    conversations_of_several_plans: int = 0
    """Conversations of several plans, whose evidence ids count the messages of all plans."""
    sessions_without_a_date: int = 0
    sessions_dated_before_the_one_before: int = 0
    """Sessions dated before the previous one in the file."""
    sessions_with_the_date_of_the_one_before: int = 0
    session_dates_repaired: int = 0
    """Dates replaced by the next session's."""
    user_messages_that_end_in_a_marker: int = 0
    """Messages with the generator's suffix ` ->-> 1,5`."""
    markers_of_another_form: int = 0
    """Markers in users' messages such as ` ->-> 2,N/A`."""
    assistant_messages_with_a_marker: int = 0
    messages_that_name_the_generator: int = 0
    """Users' messages with "time anchor" or "bullet point"."""
    messages_above_32000_characters: int = 0
    messages_said_before: int = 0
    """Messages with the text of an earlier one of the conversation."""
    questions_with_evidence_elsewhere: int = 0
    """Questions without `source_chat_ids`; a list in `conversation_sessions` is used."""
    questions_without_evidence: int = 0
    """Questions without any evidence id, abstention excluded; they have no recall."""
    questions_with_half_the_evidence: int = 0
    """Questions in which one of two statements, events or states has no id."""
    evidence_labels_that_are_no_id: int = 0
    evidence_ids_repeated: int = 0
    evidence_ids_beyond_the_text: int = 0
    """Evidence ids of messages that are missing from the text in use."""
    questions_of_order_with_another_number: int = 0
    """Questions whose `total_mentions` is not the number of nuggets."""
    questions_of_order_with_other_ids_than_nuggets: int = 0
    """Questions that name more or fewer evidence messages than nuggets."""
    multi_session_questions_within_one_session: int = 0
    questions_of_time_whose_answer_lacks_the_number: int = 0
    """Questions whose gold text, which is not graded, lacks the first number of the rubric, which is."""
    nuggets_that_speak_of_the_response: int = 0
    """Nuggets that begin with "LLM response should"; the others are bare."""
    questions_with_blanks_around: int = 0


def beam_quirks(dataset: BeamDataset) -> BeamQuirks:
    """Count the oddities, a conversation at a time; raises `DataError` at the first invalid one."""
    quirks = BeamQuirks()
    for conversation in dataset.conversations():
        _count_cut(quirks, conversation)
        _count_dates(quirks, conversation)
        _count_messages(quirks, dataset, conversation)
        _count_evidence(quirks, conversation)
    return quirks


def _count_cut(quirks: BeamQuirks, conversation: Conversation) -> None:
    files = conversation.files
    quirks.conversations_of_several_plans += len(files.full) > 1
    quirks.conversations_with_a_cut_text += files.cut is not None
    if files.cut is None or not files.full:
        return
    cut = _by_id(read_messages(files.chats("official")))
    for batch in read_messages(files.full):
        for index, message in enumerate(batch.messages):
            remaining = cut.get((batch.name, index))
            quirks.messages_cut_away += remaining is None
            quirks.messages_edited_in_the_cut_text += remaining is not None and remaining != sha256_text(
                message.content
            )


def _by_id(batches: Iterator[Batch[Message]]) -> dict[tuple[str, int], str]:
    """Return the hash of the text by session and index."""
    return {
        (batch.name, index): sha256_text(message.content)
        for batch in batches
        for index, message in enumerate(batch.messages)
    }


def _count_dates(quirks: BeamQuirks, conversation: Conversation) -> None:
    own = conversation.anchors
    quirks.sessions_without_a_date += own.count(None)
    for before, after in pairwise(own):
        if before and after:
            quirks.sessions_dated_before_the_one_before += after < before
            quirks.sessions_with_the_date_of_the_one_before += after == before
    quirks.session_dates_repaired += sum(dated.repaired for dated in conversation.dates)


def _count_messages(quirks: BeamQuirks, dataset: BeamDataset, conversation: Conversation) -> None:
    texts: set[str] = set()
    ids: set[int] = set()
    for batch in read_messages(conversation.files.chats(dataset.text)):
        for message in batch.messages:
            identifier, digest = batch.offset + message.id, sha256_text(message.content)
            quirks.message_ids_that_come_twice += identifier in ids
            quirks.messages_said_before += digest in texts
            ids.add(identifier)
            texts.add(digest)
            _count_text(quirks, message)


def _count_text(quirks: BeamQuirks, message: Message) -> None:
    marked = MARKER.search(message.content) is not None
    regular = _REGULAR_MARKER.search(message.content) is not None
    quirks.markers_of_another_form += marked and not regular and message.role == "user"
    quirks.user_messages_that_end_in_a_marker += marked and message.role == "user"
    quirks.assistant_messages_with_a_marker += "->->" in message.content and message.role == "assistant"
    names = "time anchor" in message.content.lower() or "bullet point" in message.content.lower()
    quirks.messages_that_name_the_generator += names and message.role == "user"
    quirks.messages_above_32000_characters += len(message.content) > _LONG


def _count_evidence(quirks: BeamQuirks, conversation: Conversation) -> None:
    for probe in conversation.probes:
        _count_wording(quirks, probe)
        if probe.ability == "abstention":
            continue
        labelled = [label for label in flat(probe.labels) if isinstance(label, int)]
        quirks.questions_with_evidence_elsewhere += "source_chat_ids" not in probe.fields and bool(labelled)
        quirks.questions_without_evidence += not labelled
        halves = list(probe.labels.values()) if isinstance(probe.labels, dict) else []
        quirks.questions_with_half_the_evidence += bool(labelled) and any(not half for half in halves)
        quirks.evidence_labels_that_are_no_id += len(list(flat(probe.labels))) - len(labelled)
        quirks.evidence_ids_repeated += len(labelled) - len(set(labelled))
        quirks.evidence_ids_beyond_the_text += len(set(labelled) - conversation.message_ids.keys())
        mentions = probe.fields.get("total_mentions")
        quirks.questions_of_order_with_another_number += mentions is not None and mentions != len(probe.rubric)
        other_ids = probe.ability == "event_ordering" and len(set(labelled)) != len(probe.rubric)
        quirks.questions_of_order_with_other_ids_than_nuggets += other_ids
        known = conversation.message_ids
        sessions = {known[source_id].rpartition(":")[0] for source_id in labelled if source_id in known}
        within_one = probe.ability == "multi_session_reasoning" and len(sessions) == 1
        quirks.multi_session_questions_within_one_session += within_one


def _count_wording(quirks: BeamQuirks, probe: Probe) -> None:
    quirks.nuggets_that_speak_of_the_response += sum(
        nugget.startswith("LLM response should") for nugget in probe.rubric
    )
    quirks.questions_with_blanks_around += probe.fields["question"] != probe.fields["question"].strip()
    if probe.ability == "temporal_reasoning":
        graded, shown = _numbers(probe.rubric[0]), _numbers(probe.fields[GOLD_TEXTS[probe.ability]])
        quirks.questions_of_time_whose_answer_lacks_the_number += bool(graded) and graded[0] not in shown


def _numbers(text: str) -> list[str]:
    """Return the numbers of a text in digits, including words up to ten."""
    numbers = re.findall(rf"\d+|\b(?:{'|'.join(_WORDS)})\b", text.lower())
    return [str(_WORDS.index(number) + 1) if number in _WORDS else number for number in numbers]
