"""The totals of a manifest on answers, and on the work before questions are answered or ranked."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from longmemeval.llm.model_calls import CALLS, CallSums, read_calls, sums
from longmemeval.records import Answer, Usage, usage_of
from longmemeval.results.lines import current_answers, is_cut, is_empty, is_shortened, is_undated

QUERY_MODEL = "query_model"
"""Key of the model that analyses questions in the settings of a manifest, and of its usage in the totals."""
QUERY_EMBEDDINGS = "query_embeddings"
"""Key, in the totals of a manifest, of the usage of embedding the questions."""

MEMORY_CALLS = "memory_calls"
"""Key, in the totals of a manifest, of the memory's own model calls while it was searched."""


def answer_totals(records: Sequence[Answer]) -> dict[str, Any]:
    """Return the totals of a manifest on answers.

    Args:
        records: all lines of the answers.
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
        return AnalysisTotals(
            self.questions + other.questions, self.fell_back + other.fell_back, self.usage + other.usage
        )


def analysis_totals(found: AnalysisTotals | None, before: Mapping[str, Any]) -> dict[str, Any]:
    """Return the totals of a manifest on the analyses; empty if there were none.

    Args:
        found: the analyses of this session.
        before: the manifest's totals as an earlier session of the run left them.
    """
    if found is None:
        return {}
    earlier = msgspec.convert(before.get(QUERY_MODEL, {}), AnalysisTotals)
    return {QUERY_MODEL: msgspec.to_builtins(earlier + found)}
