"""What in a data set of BEAM's shape breaks no rule but can mislead, counted."""

import re
from collections.abc import Iterator
from itertools import pairwise

from msgspec import Struct

from longmemeval.benchmarks.beam.format import GOLD_TEXTS, MARKER, Batch, Message, Probe, flat, read_messages
from longmemeval.benchmarks.beam.loader import BeamDataset, Conversation
from longmemeval.core.files import sha256_text

_WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_REGULAR_MARKER = re.compile(r"->-> \d+,\d+\s*$")
_LONG = 32_000
"""Characters: about 8,000 tokens, the window of many embedding models."""


class BeamQuirks(Struct):
    """How often each oddity occurs."""

    conversations_with_a_cut_text: int = 0
    """Those that the official run reads cut; the copy at Hugging Face has only the whole ones."""
    messages_cut_away: int = 0
    """By the cut files, whichever of the two texts is read."""
    messages_edited_in_the_cut_text: int = 0
    message_ids_that_come_twice: int = 0
    """Within a conversation. Evidence means the first."""
    conversations_of_several_plans: int = 0
    """Their evidence ids count the messages of all plans."""
    sessions_without_a_date: int = 0
    sessions_dated_before_the_one_before: int = 0
    """In the order of the file."""
    sessions_with_the_date_of_the_one_before: int = 0
    session_dates_repaired: int = 0
    """The next session's date stands in."""
    user_messages_that_end_in_a_marker: int = 0
    """What the generator left: ` ->-> 1,5`."""
    markers_of_another_form: int = 0
    """Of users' messages, such as ` ->-> 2,N/A`."""
    assistant_messages_with_a_marker: int = 0
    messages_that_name_the_generator: int = 0
    """Users' messages with "time anchor" or "bullet point"."""
    messages_above_32000_characters: int = 0
    messages_said_before: int = 0
    """With the text of an earlier one of the conversation."""
    questions_with_evidence_elsewhere: int = 0
    """Without `source_chat_ids`; a list in `conversation_sessions` stands in."""
    questions_without_evidence: int = 0
    """Without an id anywhere, abstention aside; they have no recall."""
    questions_with_half_the_evidence: int = 0
    """One of two statements, events or states has no id."""
    evidence_labels_that_are_no_id: int = 0
    evidence_ids_repeated: int = 0
    evidence_ids_beyond_the_text: int = 0
    """Of messages that the text which is read does not have."""
    questions_of_order_with_another_number: int = 0
    """Their `total_mentions` is not the number of nuggets."""
    questions_of_order_with_other_ids_than_nuggets: int = 0
    """They name more or fewer evidence messages than nuggets."""
    multi_session_questions_within_one_session: int = 0
    questions_of_time_whose_answer_lacks_the_number: int = 0
    """The first number of the rubric, which is graded, is not in the text of the answer, which is not."""
    nuggets_that_speak_of_the_response: int = 0
    """They begin with "LLM response should"; the others are bare."""
    questions_with_blanks_around: int = 0


def beam_quirks(dataset: BeamDataset) -> BeamQuirks:
    """Count the oddities, a conversation at a time; raises `DataError` at the first bad one."""
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
            kept = cut.get((batch.name, index))
            quirks.messages_cut_away += kept is None
            quirks.messages_edited_in_the_cut_text += kept is not None and kept != sha256_text(message.content)


def _by_id(batches: Iterator[Batch[Message]]) -> dict[tuple[str, int], str]:
    """Session and index -> hash of the text."""
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
    said: set[str] = set()
    ids: set[int] = set()
    for batch in read_messages(conversation.files.chats(dataset.text)):
        for message in batch.messages:
            identifier, digest = batch.offset + message.id, sha256_text(message.content)
            quirks.message_ids_that_come_twice += identifier in ids
            quirks.messages_said_before += digest in said
            ids.add(identifier)
            said.add(digest)
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
        found = [one for one in flat(probe.labels) if isinstance(one, int)]
        quirks.questions_with_evidence_elsewhere += "source_chat_ids" not in probe.fields and bool(found)
        quirks.questions_without_evidence += not found
        halves = list(probe.labels.values()) if isinstance(probe.labels, dict) else []
        quirks.questions_with_half_the_evidence += bool(found) and any(not half for half in halves)
        quirks.evidence_labels_that_are_no_id += len(list(flat(probe.labels))) - len(found)
        quirks.evidence_ids_repeated += len(found) - len(set(found))
        quirks.evidence_ids_beyond_the_text += len(set(found) - conversation.message_ids.keys())
        mentions = probe.fields.get("total_mentions")
        quirks.questions_of_order_with_another_number += mentions is not None and mentions != len(probe.rubric)
        other_ids = probe.ability == "event_ordering" and len(set(found)) != len(probe.rubric)
        quirks.questions_of_order_with_other_ids_than_nuggets += other_ids
        known = conversation.message_ids
        sessions = {known[one].rpartition(":")[0] for one in found if one in known}
        within_one = probe.ability == "multi_session_reasoning" and len(sessions) == 1
        quirks.multi_session_questions_within_one_session += within_one


def _count_wording(quirks: BeamQuirks, probe: Probe) -> None:
    quirks.nuggets_that_speak_of_the_response += sum(one.startswith("LLM response should") for one in probe.rubric)
    quirks.questions_with_blanks_around += probe.fields["question"] != probe.fields["question"].strip()
    if probe.ability == "temporal_reasoning":
        graded, shown = _numbers(probe.rubric[0]), _numbers(probe.fields[GOLD_TEXTS[probe.ability]])
        quirks.questions_of_time_whose_answer_lacks_the_number += bool(graded) and graded[0] not in shown


def _numbers(text: str) -> list[str]:
    """The numbers of a text in digits, those up to ten also when they are words."""
    found = re.findall(rf"\d+|\b(?:{'|'.join(_WORDS)})\b", text.lower())
    return [str(_WORDS.index(one) + 1) if one in _WORDS else one for one in found]
