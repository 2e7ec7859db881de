"""Where a wrongly answered question was lost on the way from the data to the answer."""

from collections.abc import Callable, Iterable
from typing import Literal

from msgspec import structs

from longmemeval.records import Answer, Gold

Stage = Literal[
    "not stored",
    "not retrieved",
    "retrieved but cut",
    "in the prompt",
    "disputed",
    "no evidence label",
    "not answered",
    "no provenance",
]


def stage_of(gold: Gold, answer: Answer | None, *, stored: Callable[[str], bool], disputed: bool) -> Stage:
    """Name the first stage at which evidence of a wrongly answered question is missing.

    Evidence is the labelled turns; for a question without any, its evidence sessions, each of which counts as found
    where one of its messages is.

    Args:
        gold: of the question.
        answer: None, or one of status `error`, is "not answered".
        stored: whether the store has a message id; a thread id, where the evidence is sessions.
        disputed: whether judges disagree on the answer; says "disputed" in place of "in the prompt".
    """
    if answer is None or answer.status == "error":
        return "not answered"
    if answer.provenance == "none":
        return "no provenance"
    evidence = _evidence(gold, answer)
    if not evidence:
        return "no evidence label"
    if not all(stored(one) for one in evidence):
        return "not stored"
    missing = evidence - _reached(gold, answer)
    if not missing:
        return "disputed" if disputed else "in the prompt"
    return "retrieved but cut" if missing <= _found(gold, answer.cut_ids) else "not retrieved"


def evidence_recall(gold: Gold, answer: Answer | None) -> float | None:
    """Fraction of the evidence, as in `stage_of`, that reached the prompt.

    Returns:
        None where the question has no labelled evidence, or the memory does not say where anything is from; 0 where
        there is no answer.
    """
    evidence = _evidence(gold, answer)
    if not evidence or (answer and answer.provenance == "none"):
        return None
    return len(evidence & _reached(gold, answer)) / len(evidence) if answer else 0.0


def by_session(answer: Answer) -> Answer:
    """The same answer as that of a memory which says no more than from which sessions something is."""
    sessions = (*answer.recall_sessions, *(message_id.rpartition(":")[0] for message_id in answer.recall_ids))
    return structs.replace(answer, provenance="session", recall_sessions=tuple(dict.fromkeys(sessions)))


def _evidence(gold: Gold, answer: Answer | None) -> set[str]:
    """Sessions also where the memory does not say which of their messages it found."""
    sessions = answer is not None and answer.provenance == "session"
    return set(gold.evidence_sessions if sessions else gold.evidence_turns or gold.evidence_sessions)


def _reached(gold: Gold, answer: Answer) -> set[str]:
    return set(answer.recall_sessions) if answer.provenance == "session" else _found(gold, answer.recall_ids)


def _found(gold: Gold, message_ids: Iterable[str]) -> set[str]:
    """What `message_ids` hold, in the unit of the question's evidence: messages, or the threads they stand in."""
    if gold.evidence_turns:
        return set(message_ids)
    return {message_id.rpartition(":")[0] for message_id in message_ids}
