"""What the totals of a manifest say about the work done on questions before they are answered or ranked."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from longmemeval.llm.model_calls import CALLS, CallSums, read_calls, sums
from longmemeval.records import Answer, Usage
from longmemeval.results.lines import current_answers, is_cut, is_empty, is_shortened, is_undated, total_usage

QUERY_MODEL = "query_model"
"""Where a manifest names the model that analyses questions: in its settings, and what it took, in its totals."""
QUERY_EMBEDDINGS = "query_embeddings"
"""Where the totals of a manifest say what embedding the questions cost."""

MEMORY_CALLS = "memory_calls"
"""Where the totals of a manifest tell what a memory's own model calls took while it was searched."""


def answer_totals(records: Sequence[Answer]) -> dict[str, Any]:
    """What the totals of a manifest tell of answers.

    Args:
        records: all lines of them.
    """
    answers = current_answers(records).values()
    undated = sum(map(is_undated, answers))
    return {
        "answered": sum(answer.status == "ok" for answer in answers),
        "failed": sum(answer.status == "error" for answer in answers),
        "empty": sum(map(is_empty, answers)),
        "cut": sum(map(is_cut, answers)),
        "shortened": sum(map(is_shortened, answers)),
        **({"undated": undated} if undated else {}),
        "usage": msgspec.to_builtins(total_usage(records)),
    }


def memory_call_totals(folder: Path) -> dict[str, Any]:
    """What the totals of a manifest tell of the model calls that searching took; nothing where none were counted.

    Args:
        folder: the run's.
    """
    found = sums(read_calls(folder / CALLS))
    told = msgspec.to_builtins(found)
    return {MEMORY_CALLS: told} if any(told.values()) else {}


def memory_calls(totals: Mapping[str, Any]) -> CallSums:
    """What they tell."""
    return msgspec.convert(totals.get(MEMORY_CALLS, {}), CallSums)


class AnalysisTotals(Struct, frozen=True):
    """What analysing took."""

    questions: int = 0
    fell_back: int = msgspec.field(default=0, name="by_rules")
    """Questions for which a call failed or its reply could not be read."""
    usage: Usage = Usage()

    def __add__(self, other: "AnalysisTotals") -> "AnalysisTotals":
        return AnalysisTotals(
            self.questions + other.questions, self.fell_back + other.fell_back, self.usage + other.usage
        )


def analysis_totals(found: AnalysisTotals | None, before: Mapping[str, Any]) -> dict[str, Any]:
    """What the totals of a manifest say about the analyses; nothing where none were made.

    Args:
        found: what those of this session took.
        before: the manifest's totals as an earlier session of the run left them.
    """
    if found is None:
        return {}
    earlier = msgspec.convert(before.get(QUERY_MODEL, {}), AnalysisTotals)
    return {QUERY_MODEL: msgspec.to_builtins(earlier + found)}
