"""The lines of a run's journals: answers, prompts, rankings and judgements, and which line counts per question."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import add
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from longmemeval.core.text.figures import count_of
from longmemeval.llm.finish_reasons import is_whole
from longmemeval.llm.model_calls import CALLS, CallSums, read_calls, sums
from longmemeval.records import TRUNCATED, UNDATED, Answer, Judgement, Usage, usage_of

ANSWERS = "answers.jsonl"
PROMPTS = "prompts.jsonl"
RANKINGS = "rankings.jsonl"


def is_empty(answer: Answer) -> bool:
    """Return whether the model was called and its reply was empty."""
    return answer.status == "error" and answer.finish_reason != ""


def is_cut(answer: Answer) -> bool:
    """Return whether an answer was cut off by --max-tokens."""
    return answer.status == "ok" and answer.finish_reason == "length"


def broke_off(answers: Iterable[Answer]) -> dict[str, int]:
    """Count the answers that broke off for another reason than --max-tokens, by finish reason."""
    reasons = (answer.finish_reason for answer in answers if answer.status == "ok" and not is_cut(answer))
    return dict(sorted(Counter(reason for reason in reasons if not is_whole(reason)).items()))


def is_shortened(answer: Answer) -> bool:
    """Return whether messages were left out of the prompt to fit the model's window."""
    return bool(answer.dropped)


def is_truncated(answer: Answer) -> bool:
    """Return whether the server seems to have truncated a prompt, without a word."""
    return any(note.startswith(TRUNCATED) for note in (answer.asked.deviations if answer.asked else ()))


def is_undated(answer: Answer) -> bool:
    """Return whether it was given from items without a date."""
    return any(note.startswith(UNDATED) for note in answer.notes)


def current_answers(answers: Iterable[Answer]) -> dict[str, Answer]:
    """Return the answer that counts for each question: its only one, or the one after failed calls and empty replies.

    A failed call may be repeated by `--resume`; an existing answer never is.
    """
    current: dict[str, Answer] = {}
    for answer in answers:
        if answer.question_id not in current or current[answer.question_id].status == "error":
            current[answer.question_id] = answer
    return current


def judgements_file(folder: Path, judge_id: str) -> Path:
    """Return the path of the judgements of one judge."""
    return folder / "judgements" / f"{judge_id}.jsonl"


def latest_judgements(judgements: Iterable[Judgement]) -> dict[str, Judgement]:
    """Return, for each question, its label, or the newest failure if there is no label."""
    current: dict[str, Judgement] = {}
    for judgement in judgements:
        if judgement.question_id not in current or current[judgement.question_id].label is None:
            current[judgement.question_id] = judgement
    return current


class Failures(Struct, frozen=True):
    """The questions of a run that failed."""

    questions: int = 0
    asked: int = 0
    """Number of questions that were to be asked."""
    commonest: str = ""
    """The commonest error; empty if no question failed."""
    alike: int = 0
    """Number of questions with that error."""

    @property
    def told(self) -> str:
        """How many questions failed, and the commonest error; empty if none failed."""
        if not self.questions:
            return ""
        alike = "" if self.alike == self.questions else f", {self.alike:,} of them in the same way"
        return f"{self.questions:,} of {count_of(self.asked, 'question')} failed{alike}: {self.commonest.rstrip('.')}."


def failures_of(answers: Iterable[Answer], asked: int) -> Failures:
    """Return the failures among the answers that count; an error that names its question has `…` instead.

    Args:
        asked: number of questions that were to be asked.
    """
    failed = [answer for answer in answers if answer.status == "error"]
    alike = Counter(answer.error.replace(answer.question_id, "…") for answer in failed)
    if not alike:
        return Failures(asked=asked)
    commonest, number = alike.most_common(1)[0]
    return Failures(len(failed), asked, commonest, number)


# The totals of a manifest on answers, and on the work before questions are answered or ranked.

QUERY_MODEL = "query_model"
"""Key of the model that analyses questions in the settings of a manifest, and of its usage in the totals."""
QUERY_EMBEDDINGS = "query_embeddings"
"""Key, in the totals of a manifest, of the usage of embedding the questions."""

MEMORY_CALLS = "memory_calls"
"""Key, in the totals of a manifest, of the memory's own model calls while it was searched."""


FOOTPRINT = "footprint"
"""Key, in the totals of a manifest, of the memory's footprint."""


def answer_totals(records: Sequence[Answer]) -> dict[str, Any]:
    """Return the totals of a manifest on answers.

    Args:
        records: all lines of the answers.
    """
    answers = current_answers(records).values()
    undated, truncated = sum(map(is_undated, answers)), sum(map(is_truncated, answers))
    return {
        "answered": sum(answer.status == "ok" for answer in answers),
        "failed": sum(answer.status == "error" for answer in answers),
        "empty": sum(map(is_empty, answers)),
        "cut": sum(map(is_cut, answers)),
        "shortened": sum(map(is_shortened, answers)),
        **({"undated": undated} if undated else {}),
        **({"truncated": truncated} if truncated else {}),
        "usage": msgspec.to_builtins(usage_of(records)),
    }


def memory_call_totals(folder: Path) -> dict[str, Any]:
    """Return the totals of a manifest on the model calls of searching; empty if none were counted.

    Args:
        folder: folder of the run.
    """
    found = sums(read_calls(folder / CALLS))
    calls = msgspec.to_builtins(found)
    return {MEMORY_CALLS: calls} if any(calls.values()) else {}


def memory_calls(totals: Mapping[str, Any]) -> CallSums:
    """Read the sums of the memory's model calls from a manifest's totals."""
    return msgspec.convert(totals.get(MEMORY_CALLS, {}), CallSums)


class AnalysisTotals(Struct, frozen=True):
    """The work of analysing questions."""

    questions: int = 0
    fell_back: int = msgspec.field(default=0, name="by_rules")
    """Number of questions for which a call failed or its reply could not be read."""
    usage: Usage = Usage()

    def __add__(self, other: "AnalysisTotals") -> "AnalysisTotals":
        return AnalysisTotals(*map(add, msgspec.structs.astuple(self), msgspec.structs.astuple(other)))


def question_totals(
    before: Mapping[str, Any], analysed: AnalysisTotals | None, embedded: Usage | None, folder: Path
) -> dict[str, Any]:
    """Return the totals of a manifest on the work for questions before they are answered or ranked.

    Args:
        before: the manifest's totals as an earlier session of the run left them.
        analysed: the analyses of this session; None: no model analyses questions.
        embedded: the usage of embedding questions in this session; None: no server embeds them.
        folder: folder of the run.
    """
    work: dict[str, Any] = {QUERY_MODEL: analysed, QUERY_EMBEDDINGS: embedded}
    done = {key: now for key, now in work.items() if now is not None}
    summed = {key: msgspec.convert(before.get(key, {}), type(now)) + now for key, now in done.items()}
    return {key: msgspec.to_builtins(total) for key, total in summed.items()} | memory_call_totals(folder)


class Footprint(Struct, frozen=True):
    """The space that a memory takes up."""

    histories: int = 0
    stored_bytes: int | None = None
    """Bytes of the parts that are read, over all `histories`; None: unknown, as for a service's own storage."""
    resident_bytes: int | None = None
    """Peak memory of its own processes, added up; None: unknown, or it has no processes."""


class _Recorded(Struct, frozen=True):
    stored_bytes: dict[str, int | None] = {}
    """Bytes by history."""
    resident_bytes: int | None = None


def _recorded(totals: Mapping[str, Any]) -> _Recorded:
    return msgspec.convert(totals.get(FOOTPRINT, {}), _Recorded)


def recorded_bytes(totals: Mapping[str, Any]) -> Mapping[str, int | None]:
    """Return the bytes on disk by history from a manifest's totals; None: unknown."""
    return _recorded(totals).stored_bytes


def footprint_of(totals: Mapping[str, Any]) -> Footprint:
    """Read the footprint from a manifest's totals; unknown in those of earlier versions."""
    found = _recorded(totals)
    known = [size for size in found.stored_bytes.values() if size is not None]
    stored = sum(known) if known and len(known) == len(found.stored_bytes) else None
    return Footprint(len(found.stored_bytes), stored, found.resident_bytes)


def footprint_totals(
    stored: Mapping[str, int | None], resident: int | None = None, before: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    """Return the totals of a manifest on the memory's footprint.

    Args:
        stored: the bytes of the parts that are read, by history; None if unknown.
        resident: the peak memory of its processes in this session; None if unknown.
        before: totals whose peaks count too: of earlier sessions, or of shards.
    """
    peaks = [resident, *(_recorded(totals).resident_bytes for totals in before)]
    most = max((peak for peak in peaks if peak is not None), default=None)
    return {FOOTPRINT: {"stored_bytes": dict(stored), "resident_bytes": most}}


def merged_footprint(shards: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the footprint totals of several runs that may share histories; empty if one has none."""
    if not all(FOOTPRINT in totals for totals in shards):
        return {}
    stored = {name: size for totals in shards for name, size in _recorded(totals).stored_bytes.items()}
    return footprint_totals(stored, before=shards)


def footprint_part(totals: Mapping[str, Any], histories: Collection[str], *, is_first: bool) -> dict[str, Any]:
    """Return the footprint totals of one shard of a run; the peak goes with the first."""
    if FOOTPRINT not in totals:
        return {}
    stored = {name: size for name, size in _recorded(totals).stored_bytes.items() if name in histories}
    return footprint_totals(stored, before=[totals] if is_first else ())
