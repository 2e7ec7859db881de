"""Memory systems from outside as memory configurations: prepared once, searched on a scratch copy."""

import inspect
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

from msgspec import structs
from pydantic import ConfigDict, Field

from longmemeval.core.event_loop import in_thread, not_its_own_time
from longmemeval.embedding.registry import DEFAULT_EMBEDDER
from longmemeval.llm.access import ModelAccess
from longmemeval.memory.definition import MemoryDefinition
from longmemeval.memory.external.ingestion.filling import Ingested, OfferedModels
from longmemeval.memory.external.opened import OpenedHistory
from longmemeval.memory.external.part import MODEL_KINDS, ServicePart, shared_service
from longmemeval.memory.external.recalled import provenance_of
from longmemeval.memory.external.specs import label_of, source_of
from longmemeval.memory.parameters import Parameters
from longmemeval.memory.products.adapter import Adapter
from longmemeval.memory.products.installed import place_of
from longmemeval.memory.protocol import MemoryTools
from longmemeval.plugins import source_sha256
from longmemeval.records import UNDATED, Question, Recall, RecalledItem
from longmemeval.storage.fixture import Fixture
from longmemeval.storage.messages_part import MESSAGES


class ServiceParameters(Parameters):
    """What can be set on every memory from outside; everything else goes to the memory itself."""

    model_config = ConfigDict(extra="allow")

    limit: int = Field(10, ge=1)
    """Most items to recall."""
    budget: int | None = Field(None, ge=1)
    """Most tokens to recall, filled in rank order; without it, no bound. What is left out is noted."""

    @property
    def configuration(self) -> dict[str, Any]:
        """What is set on the memory itself."""
        return dict(self.model_extra or {})


def service_definition(
    spec: str,
    label: str,
    summary: str,
    source: dict[str, str] | None = None,
    remark: str = "",
    asks: Collection[str] = MODEL_KINDS,
) -> MemoryDefinition[ServiceParameters]:
    """The definition of a memory from outside.

    Args:
        spec: see `connect`.
        label: how tables call it.
        summary: of it, for help texts.
        source: of a class, where its code is from and the hash of it.
        remark: what has to stand under tables.
        asks: which models it asks at the addresses it is given; see `ServicePart`.
    """

    def part(parameters: ServiceParameters) -> ServicePart:
        return ServicePart(label, spec, parameters.configuration, source, remark, asks)

    return MemoryDefinition(
        summary,
        ServiceParameters,
        lambda parameters: (MESSAGES, part(parameters)),
        lambda parameters, tools: ServiceMemory(part(parameters), parameters, tools),
        label=label,
    )


def class_definition(loaded: type) -> MemoryDefinition[ServiceParameters]:
    """The definition of a class with `add` and `search`."""
    summary = (loaded.__doc__ or loaded.__name__).strip().splitlines()[0]
    source = {"source_sha256": source_sha256(loaded.__module__)}
    spec = f"{loaded.__module__}:{loaded.__qualname__}"
    # The hash of what was loaded, for records too: the file may change while this process goes on.
    definition = service_definition(spec, loaded.__name__, summary, source, asks=_models_of(_parameters(loaded)))
    return replace(definition, origin=source)


def _parameters(loaded: type) -> Collection[str]:
    try:
        return inspect.signature(loaded).parameters
    except (TypeError, ValueError):
        return ()


def _models_of(names: Collection[str]) -> Collection[str]:
    """Return the kinds of models whose addresses an `__init__` names: no other reaches the class."""
    addresses = {"chat": "chat_base_url", "embeddings": "embedding_base_url"}
    return [kind for kind in MODEL_KINDS if addresses[kind] in names]


def address_definition(spec: str) -> MemoryDefinition[ServiceParameters]:
    """The definition of `process:COMMAND` or an address.

    Raises:
        HarnessError: it is neither, or says more than a manifest may hold.
    """
    label, source = label_of(spec), source_of(spec)
    return replace(service_definition(spec, label, f"a memory service: {label}", source), origin=source)


def adapter_definition(adapter: Adapter) -> MemoryDefinition[ServiceParameters]:
    """The definition of somebody else's product. It need not be installed to be known."""
    origin, described = dict(adapter.origin), adapter.description
    definition = service_definition(
        adapter.spec, adapter.label, described.summary, origin, described.remark, _models_of(adapter.accepts)
    )
    return replace(definition, origin=origin, require=lambda: place_of(adapter).required())


class ServiceMemory:
    """Searches the histories of one memory service.

    Args:
        part: where they are.
        parameters: how much is recalled.
        tools: count tokens.
    """

    def __init__(self, part: ServicePart, parameters: ServiceParameters, tools: MemoryTools) -> None:
        self._part, self._parameters, self._tools = part, parameters, tools

    async def recall(self, question: Question, fixture: Fixture) -> Recall:
        """What the service finds, best first in rank, in time order where everything has a date.

        Raises:
            RecallError: the history could not be ingested, or the service failed.
        """
        with not_its_own_time():  # Beginning what it needs, processes and models, is no part of a search.
            history = await in_thread(self._history, fixture)
        limit, budget = self._parameters.limit, self._parameters.budget
        failed_before = len(history.failed_calls)
        found = await history.search(question, limit, budget)
        kept = await in_thread(self._fitting, found)
        notes = [f"budget: {len(found) - len(kept)} items left out, {budget} tokens allowed"] if kept != found else []
        if undated := sum(item.date is None for item in kept):
            notes.append(f"{UNDATED}{undated} of {len(kept)} items")
        notes += [f"a model call of the memory failed: {why}" for why in history.failed_calls[failed_before:]]
        left_out = (one for item in found[len(kept) :] for one in item.message_ids)
        return Recall(
            items=_in_time(kept),
            notes=tuple(notes),
            left_out_ids=tuple(dict.fromkeys(left_out)),
            provenance=provenance_of(found),
        )

    def _history(self, fixture: Fixture) -> OpenedHistory:
        return fixture.cached(("service", self._part.name), partial(self._opened, fixture))

    def _opened(self, fixture: Fixture) -> OpenedHistory:
        ingested = fixture.part(self._part)
        folder = fixture.part_folder(self._part.name)
        messages = list(fixture.part(MESSAGES).messages)
        haystack_id = fixture.meta.haystack_id
        with ExitStack() as stack:
            access = self._access(ingested)
            name = self._part.scope_name(haystack_id, messages)
            offer = self._part.offered(name, "search", access, access.calls_file, haystack_id)
            scope = self._part.scope(haystack_id, messages, folder, stack.enter_context(offer))
            service = shared_service(self._part.spec, keys=access.chat_model is None)
            return OpenedHistory(service, scope, ingested, stack.pop_all())

    def _access(self, ingested: Ingested) -> ModelAccess:
        """The models that a search may call: those by which the history was ingested, where they are served now."""
        given, made_by = self._tools.models, ingested.models or OfferedModels(None, DEFAULT_EMBEDDER)
        if given is None:  # Nobody would pay.
            return ModelAccess(embedder=made_by.embedder)
        # A run's own address is that of its answering model; only one that is not the provider's own can have moved.
        base = (given.options.api_base or made_by.api_base) if made_by.api_base else None
        return structs.replace(
            given,
            chat_model=made_by.chat_model,
            embedder=given.embedder or made_by.embedder,
            options=structs.replace(given.options, api_base=base),
        )

    def _fitting(self, found: Sequence[RecalledItem]) -> Sequence[RecalledItem]:
        """The first items that fit the budget."""
        left = self._parameters.budget
        if left is None:
            return found
        for number, item in enumerate(found):
            left -= self._tools.count_tokens(item.text)
            if left < 0:
                return found[:number]
        return found


def _in_time(items: Sequence[RecalledItem]) -> tuple[RecalledItem, ...]:
    """As the presets show messages: oldest first. Undated items cannot be put among them."""
    dated = [(item.date, place) for place, item in enumerate(items) if item.date]
    return tuple(items[place] for _, place in sorted(dated)) if len(dated) == len(items) else tuple(items)
