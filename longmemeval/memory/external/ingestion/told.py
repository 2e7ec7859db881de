"""What is told of an ingested history: by which versions and models, what it took, and what was lost."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from longmemeval.llm.model_calls import CallSums, ModelCall, sums
from longmemeval.memory.external.ingestion.filling import Ingested
from longmemeval.memory.external.proxy.scope import ProxiedScope
from longmemeval.records import Usage
from longmemeval.storage.parts import PartOutput


@dataclass(frozen=True)
class Outcome:
    """How an attempt to ingest a history ended.

    Args:
        before: what an earlier attempt had come to, that had lost batches.
        ingested: what became of the history; None: it failed.
        why: it failed.
        models: what was offered.
        calls: the model calls of all attempts.
        messages: of the history.
        elsewhere: whether the user has named addresses of models: nobody counts what is asked there.
        remark: what has to stand under tables.
    """

    before: Ingested | None
    ingested: Ingested | None
    why: str
    models: ProxiedScope | None
    calls: Sequence[ModelCall]
    messages: int
    elsewhere: bool = False
    remark: str = ""


def made(outcome: Outcome) -> PartOutput:
    """What is recorded of it."""
    before, ingested, models, counted = outcome.before, outcome.ingested, outcome.models, sums(outcome.calls)
    paid = models.usage if models else Usage()
    wrong = models.failures if models else []
    notes = [f"{len(wrong)} model calls of the memory failed: {wrong[0]}"] if wrong else []
    kept = ingested or before
    if kept is None:
        return PartOutput(usage=paid, notes=tuple(notes), failed=outcome.why)
    missing = _missing(kept)
    if ingested is None:
        # What an earlier attempt kept is as good as it was.
        notes.insert(0, f"the failed batches were tried again, but {outcome.why[:1].lower()}{outcome.why[1:]}")
    elif missing:
        notes.insert(0, f"{missing}. The next prepare tries again")
    all_counted = models is not None and not outcome.elsewhere and _is_counted(kept, counted)
    if ingested and not all_counted:
        paid += _reported(ingested) - (_reported(before) if before else Usage())
    told = _service(kept) | {"messages": outcome.messages}
    told |= {"remark": outcome.remark} if outcome.remark else {}
    told |= _calls(kept, models, counted) if models and all_counted else {}
    return PartOutput(usage=paid, notes=tuple(notes), stats=told, incomplete=missing)


def _missing(ingested: Ingested) -> str:
    """What of the history cannot be found, and why; empty where all can."""
    if not ingested.missing:
        return ""
    why = ingested.failed[0].error if ingested.failed else "the memory took them and does not count them as ready"
    return f"{ingested.missing} of {ingested.batches} batches failed: {why}"


def _service(ingested: Ingested) -> dict[str, Any]:
    """What stands under tables."""
    hello = ingested.told
    can = hello.capabilities
    return {
        "service": hello.name,
        "packages": dict(sorted(hello.packages.items())),
        "capabilities": {
            "usual provenance": can.provenance,
            "dates": can.dates,
            "signals": " + ".join(can.signals) or "not told",
            "telemetry": can.telemetry,
            "persistence": can.persist,
        },
        "batches": ingested.batches,
        "failed_batches": ingested.missing,
    }


def _calls(ingested: Ingested, models: ProxiedScope, counted: CallSums) -> dict[str, Any]:
    """What ingesting took, as it was counted on the wire; and what the service says."""
    asked = {"chat": models.access.chat_model} if counted.calls else {}
    asked |= {"embeddings": models.access.embedder} if counted.embedding_calls else {}
    told: dict[str, Any] = {
        "models": asked,
        "model_calls": counted.calls,
        "cached_model_calls": counted.cached_calls,
        "failed_model_calls": counted.failed_calls,
        "prompt_tokens": counted.prompt_tokens,
        "completion_tokens": counted.completion_tokens,
        "embedding_calls": counted.embedding_calls,
        "embedding_texts": counted.embedding_texts,
        "embedding_tokens": counted.embedding_tokens,
    }
    if said := ingested.usage:
        told |= {
            "reported_calls": said.calls,
            "reported_prompt_tokens": said.prompt_tokens,
            "reported_completion_tokens": said.completion_tokens,
        }
    return told


def _is_counted(ingested: Ingested, counted: CallSums) -> bool:
    """Whether all model calls of the service are known to have been counted."""
    models = ingested.told.capabilities.models
    return models in ("none", "offered") or (models == "unknown" and counted.calls + counted.embedding_calls > 0)


def _reported(ingested: Ingested) -> Usage:
    """What the service says of itself. What it cost nobody knows."""
    told = ingested.usage
    if told is None:
        return Usage(unpriced_calls=1)
    return Usage(
        calls=told.calls,
        prompt_tokens=told.prompt_tokens,
        completion_tokens=told.completion_tokens,
        unpriced_calls=told.calls,
    )
