"""Deals a haystack for each question and writes it as a LongMemEval record."""

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from random import Random
from typing import Any

from sample.chats import Chat, read_fillers, read_personas
from sample.question import Question
from sample.questions import QUESTIONS

SEED = "longmemeval sample 1"
SESSIONS = (20, 24)
"""The least and the most sessions of a haystack."""
OWN_CHATS = 12
"""How many of the persona's other chats lie in a haystack, if there are that many before the question."""
QUIRKS = frozenset({"assistant-first", "odd-length", "blank-turn"})
"""Fillers that are never dealt, only placed."""

Dated = tuple[datetime, Chat]


def sample_text() -> str:
    """Returns the whole file: a JSON array with one record per line."""
    personas, fillers = read_personas(), read_fillers()
    records = [
        _record(question, persona, personas[persona], fillers)
        for persona, questions in QUESTIONS.items()
        for question in questions
    ]
    lines = [json.dumps(record, ensure_ascii=False, separators=(",", ":")) for record in records]
    return "[\n" + ",\n".join(lines) + "\n]\n"


def _record(question: Question, persona: str, chats: Mapping[str, Chat], fillers: Mapping[str, Chat]) -> dict[str, Any]:
    asked = _parse(question.asked)
    evidence = [_dated(chats[key]) for key in question.evidence]
    haystack = _deal(question, asked, evidence, chats, fillers)
    evidence_ids = _evidence_ids(question)
    ids = [evidence_ids.get(chat.key) or _digest(persona, chat.key) for _, chat in haystack]
    answer = question.answer
    if callable(answer):
        answer = answer(asked.date(), [date.date() for date, _ in evidence])
    return {
        "question_id": f"smp_{_digest(question.key)[:4]}" + "_abs" * question.abstention,
        "question_type": question.type,
        "question": question.text,
        "question_date": _date_text(asked),
        "answer": answer,
        "answer_session_ids": list(evidence_ids.values()),
        "haystack_dates": [_date_text(date) for date, _ in haystack],
        "haystack_session_ids": ids,
        "haystack_sessions": [
            _turns(chat, labelled=chat.key in evidence_ids, answerable=not question.abstention) for _, chat in haystack
        ],
    }


def _deal(
    question: Question,
    asked: datetime,
    evidence: list[Dated],
    chats: Mapping[str, Chat],
    fillers: Mapping[str, Chat],
) -> list[Dated]:
    """Returns evidence, other chats of the persona and fillers, by time."""
    random = Random(f"{SEED}/{question.key}")
    near = [_dated(chats[key]) for key in question.near]
    if late := [chat.key for date, chat in near if date >= asked]:
        raise ValueError(f"question {question.key!r} is asked before its near chats {late}")
    others = [
        (date, chat)
        for date, chat in map(_dated, chats.values())
        if date < asked and chat.key not in question.evidence + question.near
    ]
    own = near + random.sample(others, min(OWN_CHATS - len(near), len(others)))
    placed = [(_parse(date), fillers[key]) for key, date in question.placed.items()]
    missing = random.randint(*SESSIONS) - len(evidence) - len(own) - len(placed)
    pool = [chat for key, chat in fillers.items() if key not in QUIRKS | question.placed.keys()]
    start = min(date for date, _ in evidence + own) - timedelta(days=random.randint(2, 9))
    dealt = list(zip(_dates(random, start, asked, missing), random.sample(pool, missing), strict=True))
    haystack = evidence + own + placed + dealt
    if question.times_in_order:
        return sorted(haystack, key=lambda dated: dated[0])
    return sorted(haystack, key=lambda dated: dated[0].date())


def _dates(random: Random, start: datetime, end: datetime, count: int) -> list[datetime]:
    """Draws `count` moments of waking hours on days from that of `start` to the one before `end`."""
    days = random.choices(range((end.date() - start.date()).days), k=count)
    midnight = start.replace(hour=0, minute=0)
    return [midnight + timedelta(days=day, minutes=random.randrange(7 * 60, 23 * 60)) for day in days]


def _evidence_ids(question: Question) -> dict[str, str]:
    stem = f"answer_{_digest('evidence', question.key)}"
    if len(question.evidence) == 1:
        return {question.evidence[0]: stem}
    return {key: f"{stem}_{number}" for number, key in enumerate(question.evidence, start=1)}


def _turns(chat: Chat, *, labelled: bool, answerable: bool) -> list[dict[str, Any]]:
    """Every turn of an evidence session carries the label, no other turn does."""
    if not labelled:
        return [{"role": turn.role, "content": turn.content} for turn in chat.turns]
    return [
        {"role": turn.role, "content": turn.content, "has_answer": turn.evidence and answerable} for turn in chat.turns
    ]


def _dated(chat: Chat) -> Dated:
    if chat.date is None:
        raise ValueError(f"chat {chat.key!r} of a persona has no date")
    return chat.date, chat


def _parse(text: str) -> datetime:
    return datetime.strptime(text, "%Y/%m/%d %H:%M")


def _date_text(date: datetime) -> str:
    weekday = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")[date.weekday()]
    return f"{date:%Y/%m/%d} ({weekday}) {date:%H:%M}"


def _digest(*parts: str) -> str:
    return hashlib.sha256("/".join(parts).encode()).hexdigest()[:8]
