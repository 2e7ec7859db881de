"""The stage, from the data to the answer, at which a wrongly answered question lost its evidence."""

from collections.abc import Callable, Iterable
from typing import Literal

from msgspec import structs

from longmemeval.records import Answer, Gold

Stage = Literal[
    "not stored",
    "not retrieved",
    "retrieved but cut",
    "lost at reflection",
    "in the prompt",
    "disputed",
    "no evidence label",
    "not answered",
    "no provenance",
]


_CAUSES: dict[str, str] = {
    "not stored": "evidence not stored",
    "not retrieved": "evidence not retrieved",
    "retrieved but cut": "evidence truncated",
    "lost at reflection": "evidence lost at reflection",
    "in the prompt": "evidence in prompt",
    "disputed": "judges disagree",
    "not answered": "no answer",
    "no evidence label": "no evidence labelled",
    "no provenance": "sources unknown",
}


def cause_of(stage: str) -> str:
    """Return the wording shown to people for a stage; files and `--json` use the stage's own name."""
    return _CAUSES.get(stage, stage)


def stage_of(gold: Gold, answer: Answer | None, *, stored: Callable[[str], bool], disputed: bool) -> Stage:
    """Name the first stage at which evidence of a wrongly answered question is missing.

    Evidence is the labelled turns; for a question without any, its evidence sessions, each of which counts as found
    if one of its messages is.

    Args:
        answer: None, or an answer of status `error`, gives "not answered".
        stored: returns whether the store has a message id, or a thread id if the evidence is sessions.
        disputed: True if judges disagree on the answer; gives "disputed" in place of "in the prompt".
    """
    if answer is None or answer.status == "error":
        return "not answered"
    if answer.provenance == "none":
        return "no provenance"
    evidence = _evidence(gold, answer)
    if not evidence:
        return "no evidence label"
    if not all(stored(evidence_id) for evidence_id in evidence):
        return "not stored"
    missing = evidence.difference(_reached(gold, answer))
    if not missing:
        return "disputed" if disputed else "in the prompt"
    if missing.issubset(_found(gold, answer.cut_ids)):
        return "retrieved but cut"
    return "not retrieved" if missing.isdisjoint(_found(gold, answer.forgotten_ids or ())) else "lost at reflection"


def evidence_recall(gold: Gold, answer: Answer | None) -> float | None:
    """Return the fraction of the evidence, as in `stage_of`, that reached the prompt.

    Returns:
        None if the question has no labelled evidence, or the memory gives no provenance; 0 if there is no answer.
    """
    evidence = _evidence(gold, answer)
    if not evidence or (answer and answer.provenance == "none"):
        return None
    return len(evidence.intersection(_reached(gold, answer))) / len(evidence) if answer else 0.0


def by_session(answer: Answer) -> Answer:
    """Return the answer as a memory that names only the sessions of its items would have given it."""
    sessions = (*answer.recall_sessions, *(message_id.rpartition(":")[0] for message_id in answer.recall_ids))
    return structs.replace(answer, provenance="session", recall_sessions=tuple(dict.fromkeys(sessions)))


def _evidence(gold: Gold, answer: Answer | None) -> set[str]:
    """Return the ids of the evidence: sessions also if the memory does not say which of their messages it found."""
    sessions = answer is not None and answer.provenance == "session"
    return set(gold.evidence_sessions if sessions else gold.evidence_turns or gold.evidence_sessions)


def _reached(gold: Gold, answer: Answer) -> Iterable[str]:
    return answer.recall_sessions if answer.provenance == "session" else _found(gold, answer.recall_ids)


def _found(gold: Gold, message_ids: Iterable[str]) -> Iterable[str]:
    """Return `message_ids` in the unit of the question's evidence: messages, or the threads they belong to."""
    if gold.evidence_turns:
        return message_ids
    return (message_id.rpartition(":")[0] for message_id in message_ids)
