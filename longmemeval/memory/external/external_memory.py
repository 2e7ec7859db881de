"""Memory systems from outside as memory configurations: prepared once, searched on a scratch copy."""

import inspect
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
from msgspec import structs
from pydantic import ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from longmemeval.core.event_loop import complete, in_thread, paused
from longmemeval.core.secrets.redaction import hide
from longmemeval.embedding.registry import DEFAULT_EMBEDDER
from longmemeval.errors import HarnessError, RecallError
from longmemeval.llm.registry import ModelAccess
from longmemeval.memory.definition import MemoryDefinition, label_of, source_of
from longmemeval.memory.external.connect import LOADED_CODE, RAISED, connect, place_of_method
from longmemeval.memory.external.ingestion import Ingested, OfferedModels
from longmemeval.memory.external.part import MODEL_KINDS, ServicePart, ServiceSession, shared_service
from longmemeval.memory.external.recalled import provenance_of
from longmemeval.memory.external.transports.service import MemoryService, Timeouts
from longmemeval.memory.external.transports.transport import ServiceError
from longmemeval.memory.parameters import Parameters
from longmemeval.memory.products.adapter import Adapter
from longmemeval.memory.products.installed import place_of
from longmemeval.memory.products.known import adapter_of
from longmemeval.memory.products.profiles import USUAL
from longmemeval.memory.protocol import MemoryTools
from longmemeval.memory.search import Budget
from longmemeval.plugins import source_sha256
from longmemeval.records import UNDATED, Question, Recall, RecalledItem
from longmemeval.storage.fixture import Fixture
from longmemeval.storage.messages_part import MESSAGES


class ServiceParameters(Parameters):
    """Parameters of every memory from outside; all others are passed to the memory itself."""

    model_config = ConfigDict(extra="allow")

    limit: int = Field(10, ge=1)
    """Maximum number of items to recall."""
    budget: int | None = Field(None, ge=1)
    """Maximum tokens to recall, filled in rank order; without it, no limit. A note says what was left out."""

    @property
    def configuration(self) -> dict[str, Any]:
        """The parameters of the memory itself."""
        return dict(self.model_extra or {})


class ProductParameters(ServiceParameters):
    """Parameters of a product: a profile, whose settings replace the defaults."""

    profile: str = USUAL
    """Settings to measure it with: ours, product (its defaults) or vendor (its maker's own harness)."""

    @model_serializer(mode="wrap")
    def _without_usual_profile(self, whole: SerializerFunctionWrapHandler) -> dict[str, Any]:
        plain: dict[str, Any] = whole(self)
        return {key: value for key, value in plain.items() if (key, value) != ("profile", USUAL)}


def service_definition(
    spec: str,
    label: str,
    summary: str,
    source: dict[str, str] | None = None,
    remark: str = "",
    model_kinds: Collection[str] = MODEL_KINDS,
    search: Collection[str] = (),
    parameters: type[ServiceParameters] = ServiceParameters,
    *,
    edited: bool = True,
) -> MemoryDefinition[ServiceParameters]:
    """Return the definition of a memory from outside.

    Args:
        spec: see `connect`.
        label: its name in tables.
        summary: one line for help texts.
        source: origin and hash of a class's code.
        remark: a caveat to show under tables.
        model_kinds: kinds of models that it calls at the addresses provided; see `ServicePart`.
        search: names of its own parameters that only a search reads.
        parameters: the class of its parameters.
        edited: True for code of the user; see `ServicePart`.
    """
    LOADED_CODE.setdefault(spec, source or {})

    def part(parameters: ServiceParameters) -> ServicePart:
        own = parameters.configuration
        return ServicePart(label, spec, own, source, remark, model_kinds, search, edited=edited)

    return MemoryDefinition(
        summary,
        parameters,
        lambda parameters: (MESSAGES, part(parameters)),
        lambda parameters, tools: ServiceMemory(part(parameters), parameters, tools),
        label=label,
    )


def class_definition(
    loaded: type, spec: str = "", source: dict[str, str] | None = None
) -> MemoryDefinition[ServiceParameters]:
    """Return the definition of a class with `add` and `search`.

    Args:
        spec: name of the class, if it is not found by module and name.
        source: the hash of its code; None: the hash of its module.
    """
    summary = (loaded.__doc__ or loaded.__name__).strip().splitlines()[0]
    source = source or {"source_sha256": source_sha256(loaded.__module__)}
    spec = spec or f"{loaded.__module__}:{loaded.__qualname__}"
    # Records also get the hash of the loaded code: the file may change while this process runs.
    definition = service_definition(spec, loaded.__name__, summary, source, model_kinds=_models_of(_parameters(loaded)))
    return replace(definition, origin=source)


def _parameters(loaded: type) -> Collection[str]:
    try:
        return inspect.signature(loaded).parameters
    except (TypeError, ValueError):
        return ()


def _models_of(names: Collection[str]) -> Collection[str]:
    """Return the kinds of models whose addresses an `__init__` accepts; only these are passed to the class."""
    addresses = {"chat": "chat_base_url", "embeddings": "embedding_base_url"}
    return [kind for kind in MODEL_KINDS if addresses[kind] in names]


def address_definition(spec: str) -> MemoryDefinition[ServiceParameters]:
    """Return the definition of `process:COMMAND` or an address.

    Raises:
        HarnessError: it is neither, or it contains something that a manifest must not store.
    """
    label, source = label_of(spec), source_of(spec)
    return replace(service_definition(spec, label, f"a memory service: {label}", source), origin=source)


_OWN_NAMES: dict[str, str] = {}
_PATIENCE = Timeouts(hello=5.0, attempts=1)
_LONGEST_NAME = 60


def own_name(spec: str) -> str:
    """Return the name that the service at an address gives itself; its label if it does not answer or names nothing."""
    if spec not in _OWN_NAMES:
        service = connect(spec, _PATIENCE)
        try:
            told = hide(complete(service.hello()).name)
        except HarnessError:
            return label_of(spec)  # What needs the service says what is wrong.
        finally:
            complete(service.close())
        name = "".join(character for character in " ".join(told.split()) if character.isprintable())
        _OWN_NAMES[spec] = name[:_LONGEST_NAME] or label_of(spec)
    return _OWN_NAMES[spec]


def adapter_definition(adapter: Adapter) -> MemoryDefinition[ServiceParameters]:
    """Return the definition of somebody else's product, which need not be installed."""
    origin, described, profiles = dict(adapter.origin), adapter.description, adapter.profiles
    definition = service_definition(
        adapter.spec,
        adapter.label,
        described.summary,
        origin,
        described.remark,
        _models_of(adapter.accepts),
        profiles.search,
        ProductParameters,
        edited=False,
    )
    return replace(
        definition,
        origin=origin,
        require=lambda: place_of(adapter).required(),
        profiled=lambda parameters: profiles.settings(parameters, adapter.name),
    )


class ServiceMemory:
    """Searches the histories of one memory service."""

    def __init__(self, part: ServicePart, parameters: ServiceParameters, tools: MemoryTools) -> None:
        self._part, self._parameters, self._tools = part, parameters, tools
        self._services = set[MemoryService]()

    def peak_resident_bytes(self) -> int | None:
        """Return the peak memory of the processes of its services; see `HasProcesses`."""
        known = [peak for service in self._services if (peak := service.peak_resident_bytes()) is not None]
        return sum(known) if known else None

    async def recall(self, question: Question, fixture: Fixture) -> Recall:
        """Return what the service finds: ranks best first, items in time order if all have a date.

        Raises:
            RecallError: the history could not be ingested, or the service failed.
        """
        with paused():  # Starting processes and models is not part of a search.
            history = await in_thread(self._history, fixture)
        limit, budget = self._parameters.limit, self._parameters.budget
        failed_before = len(history.failed_calls)
        try:
            found = await history.search(question, limit, budget)
        except ServiceError as error:
            if error.code == "garbage":
                error.where = error.where or place_of_method(self._part.spec, "search")
            raise
        fitting = await in_thread(self._fitting, found)
        left_out = found[len(fitting) :]
        notes = [f"budget: {len(left_out)} items left out, {budget} tokens allowed"] if left_out else []
        if undated := sum(item.date is None for item in fitting):
            notes.append(f"{UNDATED}{undated} of {len(fitting)} items")
        notes += [f"a model call of the memory failed: {why}" for why in history.failed_calls[failed_before:]]
        left_out_ids = dict.fromkeys(message_id for item in left_out for message_id in item.message_ids)
        return Recall(
            items=_in_time_order(fitting),
            notes=tuple(notes),
            left_out_ids=tuple(left_out_ids),
            provenance=provenance_of(found),
        )

    def _history(self, fixture: Fixture) -> ServiceSession:
        searched = msgspec.json.encode(self._part.searched, order="deterministic")
        return fixture.cached(("service", self._part.name, searched), partial(self._opened, fixture))

    def _opened(self, fixture: Fixture) -> ServiceSession:
        try:
            ingested = fixture.part(self._part)
        except RecallError as error:
            # What this process has raised; another one left only its text.
            raised = RAISED.get(self._part.spec)
            raise error from raised if raised and type(raised).__name__ in error.what else None
        folder = fixture.part_folder(self._part.stored_name(fixture.meta))
        messages = list(fixture.part(MESSAGES).messages)
        haystack_id = fixture.meta.haystack_id
        with ExitStack() as stack:
            access = self._access(ingested)
            name = self._part.searched_name(self._part.scope_name(haystack_id, messages, ingested), ingested)
            offer = self._part.offered(name, "search", access, access.calls_file, haystack_id)
            scope = self._part.scope(name, haystack_id, messages, folder, stack.enter_context(offer), searched=True)
            service = shared_service(self._part.spec, keys=access.chat_model is None)
            self._services.add(service)
            # A memory with its own models would cost money for a search that nobody needs.
            warms_up = adapter_of(self._part.spec) is not None and ingested.hello.capabilities.models != "own"
            return ServiceSession(service, scope, ingested, stack.pop_all(), warms_up=warms_up)

    def _access(self, ingested: Ingested) -> ModelAccess:
        """Return the models that a search may call: those the history was ingested with, at their current address."""
        access, made_by = self._tools.models, ingested.models or OfferedModels(None, DEFAULT_EMBEDDER)
        if access is None:  # No account pays for calls.
            return ModelAccess(embedder=made_by.embedder)
        # A run's address is that of its answering model; only models that are not at their provider can have moved.
        base = (access.options.api_base or made_by.api_base) if made_by.api_base else None
        return structs.replace(
            access,
            chat_model=made_by.chat_model,
            embedder=access.embedder or made_by.embedder,
            options=structs.replace(access.options, api_base=base),
        )

    def _fitting(self, found: Sequence[RecalledItem]) -> Sequence[RecalledItem]:
        """Return the first items that fit the budget."""
        return found[: Budget(self._parameters.budget, self._tools.count_tokens).fitting(found)]


def _in_time_order(items: Sequence[RecalledItem]) -> tuple[RecalledItem, ...]:
    """Return items oldest first, as presets show messages; in rank order if any is undated."""
    dated = [(item.date, place) for place, item in enumerate(items) if item.date]
    return tuple(items[place] for _, place in sorted(dated)) if len(dated) == len(items) else tuple(items)
