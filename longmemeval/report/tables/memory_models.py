"""What memory systems from outside asked of models, counted on the wire: for ingestion and for searches."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from longmemeval.embedding.registry import is_remote
from longmemeval.report.tables.cells import UNKNOWN, cost_text
from longmemeval.report.tables.table import Table
from longmemeval.results.graded.graded_run import RunSummary

_COLUMNS = [
    "run",
    "ingestion:\ncalls per\nhaystack",
    "tokens per\nhaystack",
    "tokens per\n1,000\nmessages",
    "cost per\nhaystack",
    "cost per\n1,000\nmessages",
    "texts\nembedded per\nhaystack",
    "search:\ncalls per\nquestion",
    "tokens per\nquestion",
    "model ms per\nquestion",
]
_TITLE = "What memories asked of models, counted on the wire"


def memory_model_table(summaries: Sequence[RunSummary], names: Sequence[str]) -> Table:
    """Return a row per run whose memory is from outside; without rows where there is none, or none asks a model.

    Args:
        summaries: of the runs.
        names: what they are called, in the same order.
    """
    found = [(name, one, service(one.parts_told)) for name, one in zip(names, summaries, strict=True)]
    outside = [(name, summary, told) for name, summary, told in found if told]
    rows = [[name, *_cells(summary, told)] for name, summary, told in outside]
    asked = any(told.get("model_calls", 1) + told.get("embedding_calls", 0) for _, _, told in outside)
    return Table(_TITLE, _COLUMNS, rows if asked else [], drop=(6, 9, 5, 1, 7))


def service(parts: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return what is said about the part that a memory from outside made; empty where a run reads none."""
    return next((told for told in parts.values() if "service" in told), {})


def memory_model_notes(memory: str, told: Mapping[str, Any]) -> Iterator[str]:
    """Return the notes on the models that a memory asked.

    Args:
        memory: how tables call it.
        told: of its part, added up over the haystacks.
    """
    if "model_calls" not in told:
        return
    asked = {f"{kind} by {model}": None for one in told["models"] for kind, model in one.items()}
    if asked:
        yield f"{memory}: models asked at ingestion: {', '.join(asked)}."
    if failed := told["failed_model_calls"]:
        yield f"{memory}: {failed:,} model calls failed at ingestion; what they would have given is missing."
    if "reported_calls" in told:
        said = [told[f"reported_{kind}"] for kind in ("calls", "prompt_tokens", "completion_tokens")]
        counted = [told[kind] for kind in ("model_calls", "prompt_tokens", "completion_tokens")]
        if said != counted:
            yield f"{memory} says of itself {_told(said)}; shown is what was counted on the wire: {_told(counted)}."


def _told(figures: Sequence[int]) -> str:
    calls, prompt, completion = figures
    return f"{calls:,} calls, {prompt:,} prompt and {completion:,} reply tokens"


def _cells(summary: RunSummary, told: Mapping[str, Any]) -> list[str]:
    haystacks = told["haystacks"] - told["failed_haystacks"]
    thousands = told.get("messages", 0) / 1000
    if "model_calls" not in told or not haystacks or not thousands:
        return [UNKNOWN] * (len(_COLUMNS) - 1)
    tokens, cost = told["prompt_tokens"] + told["completion_tokens"], summary.costs.prepare
    questions, searched = summary.metrics.overall.n or 1, summary.memory_calls
    asked = searched.prompt_tokens + searched.completion_tokens
    if any(is_remote(one.get("embeddings", "")) for one in told["models"]):
        # As in the cost beside them, and in what `prepare` says: texts that a server embeds are paid for too.
        tokens += told["embedding_tokens"]
        asked += searched.embedding_tokens
    return [
        f"{told['model_calls'] / haystacks:,.1f}",
        f"{tokens / haystacks:,.0f}",
        f"{tokens / thousands:,.0f}",
        cost_text(cost, 1 / haystacks),
        cost_text(cost, 1 / thousands),
        f"{told['embedding_texts'] / haystacks:,.0f}",
        f"{searched.calls / questions:,.1f}",
        f"{asked / questions:,.0f}",
        f"{searched.milliseconds / questions:,.0f}",
    ]
