"""Converting a haystack to stored messages: ids, dates and text."""

from longmemeval.records import Haystack, Message, Turn


def resource_id(haystack_id: str) -> str:
    """Return the id of the resource that owns a haystack's threads."""
    return "resource_" + haystack_id


def question_thread_id(question_id: str) -> str:
    """Return the id of a question's thread; it belongs to the same resource and is never stored."""
    return "question_thread_" + question_id


def thread_ids(haystack: Haystack) -> list[str]:
    """Return one thread id per session, in the haystack's order, all distinct.

    A repeated session id gets the suffix `#2`, `#3`, …; a number that would give the id of another session is
    skipped.
    """
    taken = {session.session_id for session in haystack.sessions}
    last_number: dict[str, int] = {}
    ids = []
    for session in haystack.sessions:
        name = session.session_id
        number = last_number.get(name, 0) + 1
        thread_id = name
        if number > 1:
            while (thread_id := f"{name}#{number}") in taken:
                number += 1
        last_number[name] = number
        taken.add(thread_id)
        ids.append(thread_id)
    return ids


def haystack_messages(haystack: Haystack) -> list[Message]:
    """Return all turns of a haystack as messages, oldest session first.

    Turns have no time of their own: every message carries the date of its session. The caption of a shared
    picture follows the text as ` and shared <caption>`.
    """
    return [
        Message(
            message_id=f"{thread_id}:{index}",
            thread_id=thread_id,
            role=turn.role,
            speaker=turn.speaker,
            content=_text(turn),
            created_at=session.date,
            index=index,
        )
        for thread_id, session in zip(thread_ids(haystack), haystack.sessions, strict=True)
        for index, turn in enumerate(session.turns)
    ]


def _text(turn: Turn) -> str:
    return f"{turn.content} and shared {turn.caption}" if turn.caption else turn.content
