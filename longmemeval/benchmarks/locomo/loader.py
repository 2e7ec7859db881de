"""LoCoMo: ten long conversations of two people, each with many questions about it."""

import hashlib
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from longmemeval.benchmarks.data_files import json_in, unknown_id
from longmemeval.benchmarks.locomo.format import (
    ADVERSARIAL,
    CATEGORIES,
    Conversation,
    QuestionRecord,
    SessionRecord,
    dia_id_of,
    read_conversations,
)
from longmemeval.core.files import sha256_bytes
from longmemeval.errors import DataError
from longmemeval.records import Gold, Haystack, Question, Session, Turn

_COPIES = {
    "79fa87e90f04081343b8c8debecb80a9a6842b76a7aa537dc9fdf651ea698ff4": "official",
    "dd5bce19": "EverMemOS: one image address differs, harmless",
    "216f944b": "MemOS: written differently, says the same",
    "589a37f5": "MemInsight: conv-26 moved and altered",
    "8f941d1c": "dial481: labels corrected by a third party",
    "8e2e93e1": "hindsight: a caption holds a gold answer",
}
"""Copies in circulation, by the sha256 of their bytes or its beginning."""
_LEAK = "Nothing is Impossible"


class LocomoDataset:
    """A `Dataset` over one file of LoCoMo's shape: a haystack per conversation, many questions per haystack.

    The id of a haystack is the conversation's `sample_id`, that of a question `<sample_id>/q<index>`, counted from 0 in
    `qa`. `speaker_a` becomes the user, `speaker_b` the assistant. Questions have no date in the data; they get the date
    of the conversation's last session, after which they are asked. The file (2.8 MB) is decoded and validated as a
    whole.

    Args:
        path: the file.
        name: the catalogue name; empty: the stem of the file.
        captions: False removes the captions of shared pictures. The name then ends in `-without-captions`, so that
            fixtures of both kinds stay separate.
        allow_tainted: True to accept the copy in which a caption was edited to contain a gold answer.

    Raises:
        DataError: the file cannot be read, is invalid, or is the tainted copy.
    """

    benchmark = "locomo"

    def __init__(self, path: Path, name: str = "", captions: bool = True, *, allow_tainted: bool = False) -> None:
        self.path = path
        self.name = (name or path.stem) + ("" if captions else "-without-captions")
        self._data = _read(path)
        conversations = read_conversations(path, json_in(path, self._data))
        if not allow_tainted and any(map(_is_tainted, conversations)):
            raise DataError(
                "This copy of LoCoMo is tainted: a picture's caption was edited to contain the answer to a question",
                where=f"{path}, conversation 'conv-26', field conversation.session_7[7].blip_caption",
                fix="Run `longmemeval datasets download locomo10` to get the official file, "
                "or load this one from Python with allow_tainted=True",
            )
        used = conversations if captions else map(_without_captions, conversations)
        self._conversations = {conversation.sample_id: conversation for conversation in used}
        self._questions = {
            f"{conversation.sample_id}/q{index}": (conversation, question)
            for conversation in self._conversations.values()
            for index, question in enumerate(conversation.qa)
        }

    @cached_property
    def sha256(self) -> str:
        """Hash of the file's bytes, 64 hexadecimal digits."""
        return sha256_bytes(self._data)

    @cached_property
    def content_sha256(self) -> str:
        """Hash of every known field as canonical JSON, one conversation a line; captions only if they are used."""
        digest = hashlib.sha256()
        for conversation in self._conversations.values():
            digest.update(msgspec.json.encode(conversation) + b"\n")
        return digest.hexdigest()

    @property
    def copy(self) -> str:
        """Name of the copy in circulation that the file is: `official`, another with its difference, or unknown."""
        return next((copy for start, copy in _COPIES.items() if self.sha256.startswith(start)), "unknown copy")

    @property
    def files(self) -> tuple[Path, ...]:
        """The file as the only element."""
        return (self.path,)

    def __len__(self) -> int:
        return len(self._questions)

    def questions(self) -> Iterator[Question]:
        """Yield all questions in file order."""
        for question_id, (conversation, question) in self._questions.items():
            last = conversation.sessions[-1]
            yield Question(question_id, question.question, last.date, last.date_text, conversation.sample_id)

    def haystacks(self) -> Iterator[Haystack]:
        """Yield all conversations in file order."""
        for haystack_id in self._conversations:
            yield self.haystack(haystack_id)

    def haystack(self, haystack_id: str) -> Haystack:
        """Return the conversation `haystack_id`, with sessions in order of date and ties in order of number."""
        conversation = self._conversations.get(haystack_id)
        if conversation is None:
            raise unknown_id(self.path, "haystack", haystack_id, self._conversations)
        return Haystack(haystack_id, tuple(_session(conversation, session) for session in conversation.sessions))

    def question_type(self, question_id: str) -> str:
        """Return one of the names in `CATEGORIES`."""
        return CATEGORIES[self._find(question_id)[1].category]

    def gold(self, question_id: str) -> Gold:
        """Return the right answer to `question_id` and its evidence, both as in the data and repaired."""
        conversation, question = self._find(question_id)
        turns = [message_id for text in question.evidence for message_id in conversation.references(text)]
        adversarial = question.category == ADVERSARIAL
        return Gold(
            question_id=question_id,
            question_type=CATEGORIES[question.category],
            answer=question.gold_answer,
            evidence_sessions=tuple(dict.fromkeys(message_id.partition(":")[0] for message_id in turns)),
            evidence_turns=tuple(dict.fromkeys(turns)),
            abstention=adversarial,
            trap=question.adversarial_answer if adversarial else None,
            evidence_raw=question.evidence,
        )

    def _find(self, question_id: str) -> tuple[Conversation, QuestionRecord]:
        if question_id not in self._questions:
            raise unknown_id(self.path, "question", question_id, self._questions)
        return self._questions[question_id]

    def conversations(self) -> Iterator[Conversation]:
        """Yield all records, including answers, with the fields in use."""
        yield from self._conversations.values()

    def plain_records(self) -> list[dict[str, Any]]:
        """Return all records as plain dictionaries, every key of the file included."""
        return msgspec.json.decode(json_in(self.path, self._data), type=list[dict[str, Any]])


def _session(conversation: Conversation, session: SessionRecord) -> Session:
    turns = tuple(
        Turn(
            role="user" if turn.speaker == conversation.speaker_a else "assistant",
            content=turn.text,
            speaker=turn.speaker,
            caption=turn.blip_caption,
        )
        for turn in session.turns
    )
    return Session(session.session_id, session.date, session.date_text, turns)


def _without_captions(conversation: Conversation) -> Conversation:
    sessions = (
        replace(session, turns=tuple(replace(turn, blip_caption=None) for turn in session.turns))
        for session in conversation.sessions
    )
    return replace(conversation, sessions=tuple(sessions))


def _read(path: Path) -> bytes:
    """Return the file's bytes; raise `DataError` if there are none."""
    try:
        data = path.read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DataError(f"The dataset file cannot be read: {reason}", where=str(path)) from error
    if not data:
        raise DataError("The dataset file is empty", where=str(path), fix="Download or write it again")
    return data


def _is_tainted(conversation: Conversation) -> bool:
    """Return whether a caption was edited to contain an answer, judged by its text since bytes may differ."""
    turns = [turn for session in conversation.sessions if session.number == 7 for turn in session.turns[7:8]]
    return conversation.sample_id == "conv-26" and any(_LEAK in (turn.blip_caption or "") for turn in turns)


_RECORD_KEYS = {"sample_id", "conversation", "qa", "observation", "session_summary", "event_summary"}
_QUESTION_KEYS = {"question", "answer", "evidence", "category", "adversarial_answer"}
_TURN_KEYS = {"speaker", "dia_id", "text", "img_url", "blip_caption", "query", "re-download"}


class LocomoQuirks(Struct):
    """Counts of each oddity in a file of LoCoMo's format."""

    evidence_strings: int = 0
    evidence_references: int = 0
    """Number of existing turns that the evidence strings name after repair, with repeats."""
    malformed_evidence_strings: int = 0
    """Strings that are not the dialogue id of an existing turn."""
    lost_evidence_strings: int = 0
    """Strings that name no existing turn even after repair."""
    repeated_references: int = 0
    """References to a turn that the same question has already named."""
    questions_without_evidence: int = 0
    repeated_questions: int = 0
    """Questions with the text and the gold of an earlier one of the same conversation."""
    contradicted_questions: int = 0
    """Questions with the text, but not the gold, of an earlier one of the same conversation."""
    adversarial_questions_with_answer: int = 0
    """Adversarial questions that also have an `answer`, which is meaningless."""
    dates_without_session: int = 0
    haystacks_out_of_order: int = 0
    """Conversations whose sessions are not numbered in the order of their dates."""
    sessions_begun_by_speaker_b: int = 0
    odd_length_sessions: int = 0
    unknown_keys: dict[str, int] = field(default_factory=dict)
    """Keys the format does not know (`record.KEY`, `qa.KEY` or `turn.KEY`) and how often they occur."""


def locomo_quirks(dataset: LocomoDataset) -> LocomoQuirks:
    """Count the oddities of a file."""
    quirks = LocomoQuirks()
    unknown: Counter[str] = Counter()
    for conversation, plain in zip(dataset.conversations(), dataset.plain_records(), strict=True):
        _count_evidence(quirks, conversation)
        _count_questions(quirks, conversation)
        _count_sessions(quirks, conversation)
        quirks.dates_without_session += sum(_dates_without_session(plain["conversation"]))
        unknown.update(_unknown_keys(plain, conversation))
    quirks.unknown_keys = dict(unknown)
    return quirks


def _count_evidence(quirks: LocomoQuirks, conversation: Conversation) -> None:
    for question in conversation.qa:
        references = [conversation.references(text) for text in question.evidence]
        named = [message_id for ids in references for message_id in ids]
        plain = zip(question.evidence, references, strict=True)
        quirks.malformed_evidence_strings += sum([text] != list(map(dia_id_of, ids)) for text, ids in plain)
        quirks.lost_evidence_strings += references.count([])
        quirks.evidence_strings += len(question.evidence)
        quirks.evidence_references += len(named)
        quirks.repeated_references += len(named) - len(set(named))
        quirks.questions_without_evidence += not question.evidence


def _count_questions(quirks: LocomoQuirks, conversation: Conversation) -> None:
    seen: dict[str, set[tuple[int, str]]] = {}
    for question in conversation.qa:
        answer = (question.category, repr(question.gold_answer))
        earlier = seen.setdefault(question.question, set())
        quirks.repeated_questions += answer in earlier
        quirks.contradicted_questions += bool(earlier) and answer not in earlier
        earlier.add(answer)
        quirks.adversarial_questions_with_answer += question.category == ADVERSARIAL and question.answer is not None


def _count_sessions(quirks: LocomoQuirks, conversation: Conversation) -> None:
    numbers = [session.number for session in conversation.sessions]
    quirks.haystacks_out_of_order += numbers != sorted(numbers)
    for session in conversation.sessions:
        quirks.sessions_begun_by_speaker_b += [turn.speaker for turn in session.turns[:1]] == [conversation.speaker_b]
        quirks.odd_length_sessions += len(session.turns) % 2


def _dates_without_session(parts: dict[str, Any]) -> Iterator[bool]:
    """Yield, for each date, whether its session is missing."""
    dates = (key for key in parts if key.startswith("session_") and key.endswith("_date_time"))
    return (key.removesuffix("_date_time") not in parts for key in dates)


def _unknown_keys(plain: dict[str, Any], conversation: Conversation) -> Iterator[str]:
    """Yield every occurrence of a key of a record, question or turn that the format does not know."""
    yield from (f"record.{key}" for key in plain if key not in _RECORD_KEYS)
    for question in plain["qa"]:
        yield from (f"qa.{key}" for key in question if key not in _QUESTION_KEYS)
    for session in conversation.sessions:
        for turn in plain["conversation"][session.session_id]:
            yield from (f"turn.{key}" for key in turn if key not in _TURN_KEYS)
