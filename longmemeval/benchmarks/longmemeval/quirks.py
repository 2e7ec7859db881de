"""Counts of oddities in a file of LongMemEval's format: they break no rule but can mislead."""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from msgspec import Struct, field

from longmemeval.benchmarks.longmemeval.loader import LabelledTurn, LongMemEvalDataset, Record, parse_date
from longmemeval.core.text.quantities import weekday_of


class LongMemEvalQuirks(Struct):
    """Counts of each oddity in a file of LongMemEval's format."""

    haystacks_out_of_order: int = 0
    """Haystacks whose sessions are not sorted by date in the file."""
    repeated_session_ids: int = 0
    """Sessions with the id of an earlier session of the same haystack."""
    questions_before_last_session: int = 0
    """Questions dated before the last session of their haystack."""
    blank_turns: int = 0
    sessions_not_starting_with_user: int = 0
    sessions_without_user_turn: int = 0
    odd_length_sessions: int = 0
    wrong_weekdays: int = 0
    """Dates, of sessions and questions, with a wrong weekday."""
    evidence_sessions_without_labelled_turn: int = 0
    questions_without_haystack: int = 0
    unknown_keys: dict[str, int] = field(default_factory=dict)
    """Keys the format does not know (`record.KEY` or `turn.KEY`) and how often they occur."""


def longmemeval_quirks(dataset: LongMemEvalDataset) -> LongMemEvalQuirks:
    """Count the oddities of a file, a record at a time; raises `DataError` at the first invalid record."""
    quirks = LongMemEvalQuirks()
    unknown: Counter[str] = Counter()
    for record, plain in zip(dataset.records(), dataset.plain_records(), strict=True):
        _count_question_quirks(quirks, record)
        _count_session_quirks(quirks, record)
        unknown.update(_unknown_keys(plain))
    quirks.unknown_keys = dict(unknown)
    return quirks


def _count_question_quirks(quirks: LongMemEvalQuirks, record: Record) -> None:
    """Count oddities of a question and of its haystack as a whole."""
    dates = [parse_date(text) for text in record.haystack_dates]
    if not dates:
        quirks.questions_without_haystack += 1
        return
    sessions = zip(record.haystack_session_ids, record.haystack_sessions, strict=True)
    labelled = {session_id for session_id, turns in sessions if any(turn.has_answer for turn in turns)}
    quirks.evidence_sessions_without_labelled_turn += sum(
        session_id not in labelled for session_id in record.answer_session_ids
    )
    quirks.haystacks_out_of_order += any(later < earlier for earlier, later in pairwise(dates))
    quirks.repeated_session_ids += len(record.haystack_session_ids) - len(set(record.haystack_session_ids))
    quirks.questions_before_last_session += parse_date(record.question_date) < max(dates)


def _count_session_quirks(quirks: LongMemEvalQuirks, record: Record) -> None:
    """Count oddities of dates, sessions and turns."""
    quirks.wrong_weekdays += sum(map(_has_wrong_weekday, [record.question_date, *record.haystack_dates]))
    for turns in record.haystack_sessions:
        roles = [turn.role for turn in turns]
        quirks.blank_turns += sum(not turn.content.strip() for turn in turns)
        quirks.sessions_not_starting_with_user += roles[:1] == ["assistant"]
        quirks.sessions_without_user_turn += "user" not in roles
        quirks.odd_length_sessions += len(turns) % 2


def _has_wrong_weekday(text: str) -> bool:
    return f"({weekday_of(parse_date(text))[:3]})" not in text


def _unknown_keys(plain: dict[str, Any]) -> Iterator[str]:
    """Yield every occurrence of a key of a record or turn that the format does not know."""
    yield from (f"record.{key}" for key in plain if key not in Record.__struct_fields__)
    for turns in plain["haystack_sessions"]:
        for turn in turns:
            yield from (f"turn.{key}" for key in turn if key not in LabelledTurn.__struct_fields__)
