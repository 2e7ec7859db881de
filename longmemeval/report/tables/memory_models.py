"""Show the model calls of external memory systems, counted on the wire: for ingestion and for searches."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from longmemeval.core.tables.table import Column, Table, tabulate
from longmemeval.embedding.registry import is_remote
from longmemeval.results.graded.graded_run import Cost, RunSummary, cost_text

_TITLE = "What memories asked of models, counted on the wire"


def memory_model_table(summaries: Sequence[RunSummary], names: Sequence[str]) -> Table:
    """Return a row per run with an external memory; no rows if there is none, or none of them calls a model.

    Args:
        summaries: summaries of the runs.
        names: names of the runs, in the same order.
    """
    rows = [(name, summary, service(summary.parts_told)) for name, summary in zip(names, summaries, strict=True)]
    outside = [(name, summary, stats) for name, summary, stats in rows if stats]
    has_calls = any(stats.get("model_calls", 1) + stats.get("embedding_calls", 0) for _, _, stats in outside)
    return tabulate(_TITLE, _COLUMNS, [_model_use(*row) for row in outside] if has_calls else [])


def service(parts: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the recorded facts on the part that an external memory made; empty if the run reads none."""
    return next((stats for stats in parts.values() if "service" in stats), {})


def memory_model_notes(memory: str, stats: Mapping[str, Any]) -> Iterator[str]:
    """Yield the notes on the models that a memory called.

    Args:
        memory: name of the memory in tables.
        stats: the facts on its part, added up over the haystacks.
    """
    if "model_calls" not in stats:
        return
    by_kind = {f"{kind} by {model}": None for models in stats["models"] for kind, model in models.items()}
    if by_kind:
        yield f"{memory}: models asked at ingestion: {', '.join(by_kind)}."
    if failed := stats["failed_model_calls"]:
        yield f"{memory}: {failed:,} model calls failed at ingestion; what they would have given is missing."
    if "reported_calls" in stats:
        reported = [stats[f"reported_{kind}"] for kind in ("calls", "prompt_tokens", "completion_tokens")]
        counted = [stats[kind] for kind in ("model_calls", "prompt_tokens", "completion_tokens")]
        if reported != counted:
            wire = f"shown is what was counted on the wire: {_figures(counted)}"
            yield f"{memory} says of itself {_figures(reported)}; {wire}."


def _figures(figures: Sequence[int]) -> str:
    calls, prompt, completion = figures
    return f"{calls:,} calls, {prompt:,} prompt and {completion:,} reply tokens"


class _ModelUse(Struct, frozen=True):
    """The model calls of one memory; None: unknown."""

    name: str
    ingestion: Cost
    haystacks: int | None = None
    """Number of haystacks that were ingested."""
    thousands: float | None = None
    """Number of ingested messages, in thousands."""
    calls: int | None = None
    tokens: int | None = None
    texts: int | None = None
    questions: int | None = None
    search_calls: int = 0
    search_tokens: int = 0
    search_ms: float = 0


def _model_use(name: str, summary: RunSummary, stats: Mapping[str, Any]) -> _ModelUse:
    haystacks = stats["haystacks"] - stats["failed_haystacks"]
    thousands = stats.get("messages", 0) / 1000
    if "model_calls" not in stats or not haystacks or not thousands:
        return _ModelUse(name, summary.costs.prepare)
    searched = summary.memory_calls
    # As in the cost and in the output of `prepare`, texts that a server embeds count: they are paid for too.
    paid = any(is_remote(models.get("embeddings", "")) for models in stats["models"])
    return _ModelUse(
        name,
        summary.costs.prepare,
        haystacks,
        thousands,
        stats["model_calls"],
        stats["prompt_tokens"] + stats["completion_tokens"] + (stats["embedding_tokens"] if paid else 0),
        stats["embedding_texts"],
        summary.metrics.overall.n or 1,
        searched.calls,
        searched.prompt_tokens + searched.completion_tokens + (searched.embedding_tokens if paid else 0),
        searched.milliseconds,
    )


def _per(amount: float | None, number: float | None, form: str = ",.0f") -> str | None:
    return None if amount is None or not number else format(amount / number, form)


def _cost_per(cost: Cost, number: float | None) -> str | None:
    return cost_text(cost, 1 / number) if number else None


_COLUMNS: list[Column[_ModelUse]] = [
    Column("run", lambda use: use.name, "text"),
    Column("ingestion:\ncalls per\nhaystack", lambda use: _per(use.calls, use.haystacks, ",.1f"), drop=2),
    Column("tokens per\nhaystack", lambda use: _per(use.tokens, use.haystacks)),
    Column("tokens per\n1,000\nmessages", lambda use: _per(use.tokens, use.thousands)),
    Column("cost per\nhaystack", lambda use: _cost_per(use.ingestion, use.haystacks)),
    Column("cost per\n1,000\nmessages", lambda use: _cost_per(use.ingestion, use.thousands), drop=3),
    Column("texts\nembedded per\nhaystack", lambda use: _per(use.texts, use.haystacks), drop=5),
    Column("search:\ncalls per\nquestion", lambda use: _per(use.search_calls, use.questions, ",.1f"), drop=1),
    Column("tokens per\nquestion", lambda use: _per(use.search_tokens, use.questions)),
    Column("model ms per\nquestion", lambda use: _per(use.search_ms, use.questions), drop=4),
]
