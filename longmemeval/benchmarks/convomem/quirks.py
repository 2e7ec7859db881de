"""Counts of gaps in the labels of a data set of ConvoMem's format: they break no rule but can mislead."""

from msgspec import Struct

from longmemeval.benchmarks.convomem.evidence import find_evidence
from longmemeval.benchmarks.convomem.format import Case
from longmemeval.benchmarks.convomem.loader import ConvoMemDataset


class ConvoMemQuirks(Struct):
    """Counts of each oddity in a data set of ConvoMem's format."""

    files: int = 0
    json_files_in_no_category: int = 0
    """Files of the folder that are not read."""
    haystacks_of_evidence_alone: int = 0
    """Items of evidence files, whose haystack has no other conversations."""
    haystacks_of_another_size: int = 0
    """Test cases with more or fewer conversations than their context size says."""
    conversations_without_id_of_their_own: int = 0
    """Conversations without an id, or with the id of another one of the same haystack; they are numbered."""
    evidence_texts: int = 0
    evidence_texts_found_after_normalising: int = 0
    """Texts that match a turn except for white space, Unicode forms, quotation marks and dashes."""
    unmatched_evidence_texts: int = 0
    """Texts that no turn of the item's conversations contains: `evidence_turns` lacks them."""
    questions_without_evidence_turn: int = 0
    repeated_questions: int = 0
    """Questions with the text and the answer of an earlier one of the same haystack."""


def convomem_quirks(dataset: ConvoMemDataset) -> ConvoMemQuirks:
    """Count the oddities, a haystack at a time; raises `DataError` at the first invalid one."""
    quirks = ConvoMemQuirks(files=len(dataset.files), json_files_in_no_category=len(dataset.passed_over))
    for case in dataset.cases():
        _count_haystack(quirks, case)
        for number in range(len(case.items)):
            _count_evidence(quirks, case, number)
    return quirks


def _count_haystack(quirks: ConvoMemQuirks, case: Case) -> None:
    quirks.haystacks_of_evidence_alone += not case.shared
    quirks.haystacks_of_another_size += case.context_size != len(case.conversations)
    named = zip(case.session_ids, case.conversation_ids, strict=True)
    quirks.conversations_without_id_of_their_own += sum(session_id != own for session_id, own in named)
    questions = [(item.question, item.answer) for _, item in case.items]
    quirks.repeated_questions += len(questions) - len(set(questions))


def _count_evidence(quirks: ConvoMemQuirks, case: Case, number: int) -> None:
    evidence = find_evidence(case, number)
    texts = len(case.items[number][1].message_evidences)
    quirks.evidence_texts += texts
    quirks.evidence_texts_found_after_normalising += evidence.normalised
    quirks.unmatched_evidence_texts += texts - evidence.exact - evidence.normalised
    quirks.questions_without_evidence_turn += not evidence.turns
