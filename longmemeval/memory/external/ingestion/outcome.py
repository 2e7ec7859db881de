"""Summarise the ingestion of a history for its part: versions, models, usage and losses."""

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
    """The outcome of an attempt to ingest a history.

    Args:
        before: the record of an earlier attempt that lost batches.
        ingested: the record of this attempt; None: it failed.
        why: the error, if it failed.
        models: the models that were offered.
        calls: the model calls of all attempts.
        messages: number of messages of the history.
        elsewhere: True if the user has configured addresses of models, whose calls cannot be counted.
        remark: a caveat to show under tables.
    """

    before: Ingested | None
    ingested: Ingested | None
    why: str
    models: ProxiedScope | None
    calls: Sequence[ModelCall]
    messages: int
    elsewhere: bool = False
    remark: str = ""


def part_output(outcome: Outcome) -> PartOutput:
    """Return the output of the part: usage, notes, statistics and what is missing."""
    before, ingested, models, counted = outcome.before, outcome.ingested, outcome.models, sums(outcome.calls)
    paid = models.usage if models else Usage()
    wrong = models.failures if models else []
    notes = [f"{len(wrong)} model calls of the memory failed: {wrong[0]}"] if wrong else []
    result = ingested or before
    if result is None:
        return PartOutput(usage=paid, notes=tuple(notes), failed=outcome.why)
    missing = _missing(result)
    if ingested is None:
        # The result of an earlier attempt stays valid.
        notes.insert(0, f"the failed batches were tried again, but {outcome.why[:1].lower()}{outcome.why[1:]}")
    elif missing:
        notes.insert(0, f"{missing}. The next prepare tries again")
    all_counted = models is not None and not outcome.elsewhere and _is_counted(result, counted)
    if ingested and not all_counted:
        paid += _reported(ingested) - (_reported(before) if before else Usage())
    stats = _service(result) | {"messages": outcome.messages}
    stats |= {"remark": outcome.remark} if outcome.remark else {}
    stats |= _calls(result, models, counted) if models and all_counted else {}
    return PartOutput(usage=paid, notes=tuple(notes), stats=stats, incomplete=missing)


def _missing(ingested: Ingested) -> str:
    """Describe how much of the history cannot be found, and why; empty if nothing is missing."""
    if not ingested.missing:
        return ""
    why = ingested.failed[0].error if ingested.failed else "the memory took them and does not count them as ready"
    return f"{ingested.missing} of {ingested.batches} batches failed: {why}"


def _service(ingested: Ingested) -> dict[str, Any]:
    """Return the facts about the service that are shown under tables."""
    hello = ingested.hello
    capabilities = hello.capabilities
    return {
        "service": hello.name,
        "packages": dict(sorted(hello.packages.items())),
        "capabilities": {
            "usual provenance": capabilities.provenance,
            "dates": capabilities.dates,
            "signals": " + ".join(capabilities.signals) or "not told",
            "telemetry": capabilities.telemetry,
            "persistence": capabilities.persist,
        },
        "batches": ingested.batches,
        "failed_batches": ingested.missing,
    }


def _calls(ingested: Ingested, models: ProxiedScope, counted: CallSums) -> dict[str, Any]:
    """Return the calls and tokens of ingestion, as counted by the proxy and as the service reports them."""
    called = {"chat": models.access.chat_model} if counted.calls else {}
    called |= {"embeddings": models.access.embedder} if counted.embedding_calls else {}
    stats: dict[str, Any] = {
        "models": called,
        "model_calls": counted.calls,
        "cached_model_calls": counted.cached_calls,
        "failed_model_calls": counted.failed_calls,
        "prompt_tokens": counted.prompt_tokens,
        "completion_tokens": counted.completion_tokens,
        "embedding_calls": counted.embedding_calls,
        "embedding_texts": counted.embedding_texts,
        "embedding_tokens": counted.embedding_tokens,
    }
    if reported := ingested.usage:
        stats |= {
            "reported_calls": reported.calls,
            "reported_prompt_tokens": reported.prompt_tokens,
            "reported_completion_tokens": reported.completion_tokens,
        }
    return stats


def _is_counted(ingested: Ingested, counted: CallSums) -> bool:
    """Return whether all model calls of the service are known to have been counted."""
    models = ingested.hello.capabilities.models
    return models in ("none", "offered") or (models == "unknown" and counted.calls + counted.embedding_calls > 0)


def _reported(ingested: Ingested) -> Usage:
    """Return the usage that the service reports. Its price is unknown."""
    reported = ingested.usage
    if reported is None:
        return Usage(unpriced_calls=1)
    return Usage(
        calls=reported.calls,
        prompt_tokens=reported.prompt_tokens,
        completion_tokens=reported.completion_tokens,
        unpriced_calls=reported.calls,
    )
