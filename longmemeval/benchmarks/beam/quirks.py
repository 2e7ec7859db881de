"""What in a data set of BEAM's shape breaks no rule but can mislead, counted."""

from collections.abc import Iterator
from itertools import pairwise

from msgspec import Struct

from longmemeval.benchmarks.beam.format import MARKER, Batch, Message, flat, read_messages
from longmemeval.benchmarks.beam.loader import BeamDataset, Conversation
from longmemeval.files import sha256_text

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
    quirks.user_messages_that_end_in_a_marker += marked and message.role == "user"
    quirks.assistant_messages_with_a_marker += "->->" in message.content and message.role == "assistant"
    names = "time anchor" in message.content.lower() or "bullet point" in message.content.lower()
    quirks.messages_that_name_the_generator += names and message.role == "user"
    quirks.messages_above_32000_characters += len(message.content) > _LONG


def _count_evidence(quirks: BeamQuirks, conversation: Conversation) -> None:
    for probe in conversation.probes:
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
