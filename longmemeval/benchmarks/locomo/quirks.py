"""Counts of oddities in a file of LoCoMo's format: they break no rule but can mislead those who do not expect them."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from msgspec import Struct, field

from longmemeval.benchmarks.locomo.format import ADVERSARIAL, Conversation, dia_id_of
from longmemeval.benchmarks.locomo.loader import LocomoDataset

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
    seen: dict[str, set[tuple[int, str | int]]] = {}
    for question in conversation.qa:
        answer = (question.category, question.gold_answer)
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
