"""Counts of oddities in a data set of BEAM's format: they break no rule but can mislead."""

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
