"""What memory systems from outside asked of models, counted on the wire: for ingestion and for searches."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from longmemeval.core.tables.table import Column, Table, tabulate
from longmemeval.embedding.registry import is_remote
from longmemeval.report.tables.cells import cost_text
from longmemeval.results.graded.costs import Cost
from longmemeval.results.graded.graded_run import RunSummary

_TITLE = "What memories asked of models, counted on the wire"


def memory_model_table(summaries: Sequence[RunSummary], names: Sequence[str]) -> Table:
    """Return a row per run whose memory is from outside; without rows where there is none, or none asks a model.

    Args:
        summaries: of the runs.
        names: what they are called, in the same order.
    """
    found = [(name, one, service(one.parts_told)) for name, one in zip(names, summaries, strict=True)]
    outside = [(name, summary, stats) for name, summary, stats in found if stats]
    asked = any(stats.get("model_calls", 1) + stats.get("embedding_calls", 0) for _, _, stats in outside)
    return tabulate(_TITLE, _COLUMNS, [_asked_by(*one) for one in outside] if asked else [])


def service(parts: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return what is said about the part that a memory from outside made; empty where a run reads none."""
    return next((stats for stats in parts.values() if "service" in stats), {})


def memory_model_notes(memory: str, stats: Mapping[str, Any]) -> Iterator[str]:
    """Return the notes on the models that a memory asked.

    Args:
        memory: how tables call it.
        stats: of its part, added up over the haystacks.
    """
    if "model_calls" not in stats:
        return
    asked = {f"{kind} by {model}": None for one in stats["models"] for kind, model in one.items()}
    if asked:
        yield f"{memory}: models asked at ingestion: {', '.join(asked)}."
    if failed := stats["failed_model_calls"]:
        yield f"{memory}: {failed:,} model calls failed at ingestion; what they would have given is missing."
    if "reported_calls" in stats:
        said = [stats[f"reported_{kind}"] for kind in ("calls", "prompt_tokens", "completion_tokens")]
        counted = [stats[kind] for kind in ("model_calls", "prompt_tokens", "completion_tokens")]
        if said != counted:
            wire = f"shown is what was counted on the wire: {_figures(counted)}"
            yield f"{memory} says of itself {_figures(said)}; {wire}."


def _figures(figures: Sequence[int]) -> str:
    calls, prompt, completion = figures
    return f"{calls:,} calls, {prompt:,} prompt and {completion:,} reply tokens"


class _Asked(Struct, frozen=True):
    """What one memory asked; None: not known."""

    name: str
    ingestion: Cost
    haystacks: int | None = None
    """Those that were ingested."""
    thousands: float | None = None
    """Of messages."""
    calls: int | None = None
    tokens: int | None = None
    texts: int | None = None
    questions: int | None = None
    search_calls: int = 0
    search_tokens: int = 0
    search_ms: float = 0


def _asked_by(name: str, summary: RunSummary, stats: Mapping[str, Any]) -> _Asked:
    haystacks = stats["haystacks"] - stats["failed_haystacks"]
    thousands = stats.get("messages", 0) / 1000
    if "model_calls" not in stats or not haystacks or not thousands:
        return _Asked(name, summary.costs.prepare)
    searched = summary.memory_calls
    # As in the cost beside them, and in what `prepare` says: texts that a server embeds are paid for too.
    paid = any(is_remote(one.get("embeddings", "")) for one in stats["models"])
    return _Asked(
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


_COLUMNS: list[Column[_Asked]] = [
    Column("run", lambda one: one.name, "text"),
    Column("ingestion:\ncalls per\nhaystack", lambda one: _per(one.calls, one.haystacks, ",.1f"), drop=2),
    Column("tokens per\nhaystack", lambda one: _per(one.tokens, one.haystacks)),
    Column("tokens per\n1,000\nmessages", lambda one: _per(one.tokens, one.thousands)),
    Column("cost per\nhaystack", lambda one: _cost_per(one.ingestion, one.haystacks)),
    Column("cost per\n1,000\nmessages", lambda one: _cost_per(one.ingestion, one.thousands), drop=3),
    Column("texts\nembedded per\nhaystack", lambda one: _per(one.texts, one.haystacks), drop=5),
    Column("search:\ncalls per\nquestion", lambda one: _per(one.search_calls, one.questions, ",.1f"), drop=1),
    Column("tokens per\nquestion", lambda one: _per(one.search_tokens, one.questions)),
    Column("model ms per\nquestion", lambda one: _per(one.search_ms, one.questions), drop=4),
]
