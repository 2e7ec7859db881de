"""The fixture part of a memory service: its closed directory, or the service's reference to the history it keeps."""

import asyncio
import os
import platform
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from weakref import finalize

import msgspec

from longmemeval.core.event_loop import paused
from longmemeval.core.files import safe_name, sha256_text
from longmemeval.core.part_options import PartOptions
from longmemeval.core.secrets.parameters import comparable, comparable_command, public, public_command, resolved
from longmemeval.embedding.registry import DEFAULT_EMBEDDER, load_embedder
from longmemeval.errors import HarnessError
from longmemeval.llm.model_calls import CALLS, Stage, all_written, read_calls
from longmemeval.llm.options import named, split_options
from longmemeval.llm.registry import ModelAccess, load_forwarded
from longmemeval.memory.definition import HTTP, is_on_this_machine
from longmemeval.memory.external import ingestion as under_way
from longmemeval.memory.external.background import complete_in_background, in_background
from longmemeval.memory.external.connect import LIVE, code_of, connect
from longmemeval.memory.external.ingestion import (
    PLACES,
    Ingested,
    Outcome,
    Scope,
    ingest,
    part_output,
    place,
    recorded,
    replay,
)
from longmemeval.memory.external.messages import Search
from longmemeval.memory.external.proxy.server import ProxiedScope, model_proxy
from longmemeval.memory.external.recalled import OpaqueIds, recalled_items, scope_id
from longmemeval.memory.external.transports.service import MemoryService
from longmemeval.memory.external.transports.transport import ServiceError
from longmemeval.memory.products.known import adapter_of
from longmemeval.records import FixtureMeta, Message, PartInfo, Question, RecalledItem
from longmemeval.storage.parts import Part, PartInput, PartOutput, PartTools, Stored

_ADAPTER = 1
"""Version of the way in which histories are handed over; parts of another version are not reused."""

MODEL_KINDS = ("chat", "embeddings")
_CODE = "source_sha256"
"""The field of an origin that identifies code of the user."""
_ADDRESSES = frozenset(("chat_base_url", "embedding_base_url"))
"""Parameters of a class that `open` fills, unless the user sets them."""


def _uncoded(service: str) -> str:
    """Return the name of a service without the hash that a class passed as an object has in it."""
    return service.partition("@")[0] if service.startswith(LIVE) else service


@cache
def shared_service(spec: str, *, keys: bool = True) -> MemoryService:
    """Return the service of that name, shared by all users in this process; see `connect`."""
    return connect(spec, keys=keys)


class ServicePart(Part[Ingested]):
    """The histories of one memory service under one configuration.

    Args:
        label: the name of the service.
        spec: see `connect`.
        configuration: the user's parameters of the memory.
        source: `source_sha256` of the code, and an adapter's requirements; None if unknown.
        remark: a caveat to show under tables.
        model_kinds: kinds of models that it calls at the addresses provided, `chat` and `embeddings`; no others are
            recorded.
        search: names of parameters that only a search reads, on which histories and their names do not depend.
        edited: True for code of the user, which changes: each version of it has a part of its own.
    """

    directory = True
    resumable = True
    reproducible = False
    """False, since another attempt may give other bytes: services use random ids, and call models."""
    calls_models = True
    exposes_models = True

    def __init__(
        self,
        label: str,
        spec: str,
        configuration: Mapping[str, Any],
        source: Mapping[str, str] | None = None,
        remark: str = "",
        model_kinds: Collection[str] = MODEL_KINDS,
        search: Collection[str] = (),
        *,
        edited: bool = False,
    ) -> None:
        self._remark, self._kinds, self._search = remark, model_kinds, frozenset(search)
        self.label, self.spec, self._given, self._source = label, spec, dict(configuration), source
        self.searched = comparable(configuration)
        self.configuration = self._ingested_by(self.searched)
        self._shown, self._compared = public_command(spec), comparable_command(spec)
        self._code = {key: (source or {})[key] for key in (_CODE,) if edited and key in (source or {})}
        # One name for each configuration, because several may be prepared side by side.
        self.name = self._named(self._code)

    def _ingested_by(self, configuration: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in configuration.items() if key not in self._search}

    def _named(self, code: Mapping[str, str]) -> str:
        identity = [self._compared, self.configuration, *code.values()]
        digest = sha256_text(msgspec.json.encode(identity, order="deterministic").decode())
        return f"{safe_name(self.label)}-{digest[:8]}"

    def names_by(self, source: Mapping[str, str]) -> tuple[str, ...]:
        """Return the names under which a run may have recorded it; until 0.2.0 they did not depend on code."""
        code = {key: source[key] for key in self._code if key in source}
        return tuple(dict.fromkeys((self._named(code), self._named({}), self.name)))

    def stored_name(self, meta: FixtureMeta) -> str:
        """Return its name in a fixture.

        Until 0.2.0 it also depended on secrets and on parameters of searches, and not on the user's code.
        """
        if self.name not in meta.parts:
            for name, recipe in self._of_same_settings(meta):
                if recipe.get("service") == self._compared and self._code.items() <= recipe.items():
                    return name
        return self.name

    def earlier_recipe(self, meta: FixtureMeta) -> Mapping[str, Any] | None:
        """Return the recipe of the part that earlier code of the user made; None if there is none."""
        found = [recipe for _, recipe in self._of_same_settings(meta) if not self._code.items() <= recipe.items()]
        return found[-1] if found and self.info(meta) is None else None

    def _of_same_settings(self, meta: FixtureMeta) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield name and recipe of the parts that this service, or earlier code of it, made by these settings."""
        for name, info in meta.parts.items():
            recipe = self.comparable_recipe(info.recipe)
            service = str(recipe.get("service", ""))
            if _uncoded(service) == _uncoded(self._compared) and recipe.get("configuration") == self.configuration:
                yield name, recipe

    def is_kept_elsewhere(self, info: PartInfo) -> bool:
        """Return whether the service keeps the history itself."""
        return bool(info.stats.get("capabilities", {}).get("persistence") == "service")

    def at_once(self, options: PartOptions) -> int | None:
        """Return how many histories a product or a service at an address takes at once; None for all other memories."""
        if not self.spec.startswith(HTTP) and adapter_of(self.spec) is None:
            return None
        return complete_in_background(_most_at_once(shared_service(self.spec, keys=options.memory_model is None)))

    def settings(self) -> dict[str, Any]:
        """Return the spec, the configuration and the known source: a run refuses a part made by different code."""
        configuration = public(self._ingested_by(self._given))
        own = {"version": _ADAPTER, "service": self._shown, "configuration": configuration}
        return own | dict(self._source or {})

    def recipe(self, tools: PartTools) -> dict[str, Any]:
        """Return the settings, and the models if they are not the defaults.

        Raises:
            HarnessError: a model cannot be called, or the environment lacks a secret.
        """
        self.given()
        recipe, models = self.settings(), tools.models
        if models.chat_model and "chat" in self._kinds:
            load_forwarded(*named(models.chat_model, models.options), account=models.account)
            recipe["memory_model"] = models.chat_model
        if models.embedder != DEFAULT_EMBEDDER and "embeddings" in self._kinds:
            embedder = load_embedder(models.embedder, models.options, account=models.account)
            recipe["embedder"] = {"spec": embedder.spec, "fingerprint": embedder.fingerprint}
        return recipe

    def models(self, options: PartOptions) -> tuple[str, ...]:
        """Return the chat model that the memory may call."""
        return split_options(options.memory_model)[:1] if options.memory_model and "chat" in self._kinds else ()

    def comparable_recipe(self, recipe: Mapping[str, Any]) -> dict[str, Any]:
        """Return the part of a recipe that decides readability: without models it never calls, which 0.2 recorded."""
        uncalled = {
            key for key, kind in (("memory_model", "chat"), ("embedder", "embeddings")) if kind not in self._kinds
        }
        called = {key: value for key, value in super().comparable_recipe(recipe).items() if key not in uncalled}
        service, own = called.get("service"), called.get("configuration")
        called |= {"service": comparable_command(service)} if service else {}
        return called | ({"configuration": comparable(self._ingested_by(own))} if own else {})

    def flags(self, stored: Stored | None) -> dict[str, str]:
        """Return the models it was made with as options."""
        recipe = stored.info.recipe if stored and stored.info else {}
        flags = {"memory_model": recipe["memory_model"]} if "memory_model" in recipe else {}
        return flags | ({"embedder": recipe["embedder"]["spec"]} if "embedder" in recipe else {})

    def given(self) -> dict[str, Any]:
        """Return all parameters of the memory, with their secrets; raise an error if the environment lacks one."""
        plain: dict[str, Any] = resolved(self._given)
        return plain

    def scope(
        self,
        name: str,
        haystack_id: str,
        messages: list[Message],
        folder: Path,
        models: ProxiedScope | None = None,
        *,
        searched: bool = False,
    ) -> Scope:
        """Return the scope of a history.

        Args:
            name: the service's name for it, see `scope_name`.
            haystack_id: the history's id.
            messages: all messages, oldest first.
            folder: the folder of the part.
            models: the models it is offered.
            searched: True: include the parameters of searches.
        """
        configuration = self.given() if searched else self._ingested_by(self.given())
        return Scope(name, folder, configuration, OpaqueIds(haystack_id, messages), messages, self.name, models)

    def searched_name(self, name: str, ingested: Ingested) -> str:
        """Return the name under which a copy of a history is searched.

        Each setting of searches has its own name, since several may run at the same time.

        Args:
            name: the service's name for the history.
            ingested: the record of its ingestion; a history that the service keeps itself is searched by its own name.
        """
        if self.searched == self.configuration or ingested.hello.capabilities.persist == "service":
            return name
        return scope_id(name, msgspec.json.encode(self.searched, order="deterministic").decode())

    def scope_name(
        self, haystack_id: str, messages: Sequence[Message], ingested: Ingested | None, shared_by: Path | None = None
    ) -> str:
        """Return the service's name for a history.

        Args:
            haystack_id: the history's id.
            messages: all messages, oldest first.
            ingested: the record of its ingestion, which contains the name even if the fixtures are moved; None: none
                yet.
            shared_by: the preparation, if the service keeps histories itself: it may serve several preparations.
        """
        if ingested and ingested.scope:
            return ingested.scope
        content = sha256_text("\0".join(message.content for message in messages))
        # 0.2.0 never named the preparation.
        place = [str(shared_by.absolute())] if shared_by and not ingested else []
        return scope_id(self.name, haystack_id, content, *place)

    def offered(
        self, name: str, stage: Stage, access: ModelAccess, calls: Path | None, haystack_id: str = ""
    ) -> AbstractContextManager[ProxiedScope | None]:
        """Offer models to a scope within the context; None for a service that cannot reach this machine's loopback.

        Args:
            name: the name of the scope.
            stage: filling or searching.
            access: the models to offer.
            calls: the file in which every call is recorded.
            haystack_id: recorded in that file, which no memory system reads.
        """
        if not is_on_this_machine(self.spec):
            return nullcontext()
        return model_proxy().offered(name, stage, access, calls, haystack_id)

    def under_way(self, preparation: Path, since: float) -> str:
        """Return the progress of all histories that are being filled: batches added, and their total."""
        return under_way.shown(preparation / PLACES, self.name, self.label, since)

    async def make(self, source: PartInput, tools: PartTools) -> PartOutput:
        """Hand the history over to the service. A failure concerns this haystack alone.

        Raises:
            SpendingLimitError, EndpointDownError, FatalModelError: the offered models can no longer be called.
        """
        self._check_code()
        haystack_id, calls = source.haystack.haystack_id, source.folder / CALLS
        service = await asyncio.to_thread(shared_service, self.spec, keys=tools.models.chat_model is None)
        shared_by = source.folder.parent.parent if await _keeps_histories(service) else None
        before, ingested, why = recorded(source.folder), None, ""
        name = self.scope_name(haystack_id, source.messages, before, shared_by)
        with self.offered(name, "prepare", tools.models, calls) as models:
            scope = self.scope(name, haystack_id, source.messages, source.folder, models)
            try:
                most = (await service.hello()).capabilities.max_parallel
                async with place(source.folder.parent.parent, self.name, most):
                    ingested = await ingest(service, scope)
            except ServiceError as error:
                why = str(error).rstrip(".")
            except HarnessError:
                await all_written(calls)
                raise
            await all_written(calls)
            if why and models:
                models.check()
        elsewhere = not _ADDRESSES.isdisjoint(self.configuration)
        outcome = Outcome(
            before, ingested, why, models, read_calls(calls), len(source.messages), elsewhere, self._remark
        )
        return part_output(outcome)

    def _check_code(self) -> None:
        """Refuse to make a part by code that differs from its recipe: a worker may have loaded it before an edit.

        Raises:
            HarnessError: this process has different code.
        """
        named = dict(self._source or {})
        loaded = code_of(self.spec) if named else {}
        if named != {key: loaded.get(key) for key in named}:
            raise HarnessError(
                f"A worker has different code for '{self._shown}' than the command",
                where=f"{platform.node()}, process {os.getpid()}",
                fix="Make sure it finds the same files, restart it and rerun the command; finished work is kept",
            )

    def open(self, stored: Stored) -> Ingested:
        """Return the record of the ingestion."""
        return msgspec.json.decode((stored.folder() / "ingested.json").read_bytes(), type=Ingested)


async def _most_at_once(service: MemoryService) -> int | None:
    """Return how many histories a service takes at once; if it fails, the error is reported when it is used."""
    with suppress(ServiceError):
        return (await service.hello()).capabilities.max_parallel
    return None


async def _keeps_histories(service: MemoryService) -> bool:
    """Return whether the service keeps histories itself; if it fails, the error is reported when it is used."""
    with suppress(ServiceError):
        return (await service.hello()).capabilities.persist == "service"
    return False


# An ingested history, open at its service as a scratch copy, so that reading it changes nothing.


class ServiceSession:
    """One history; opened at the first search, and again after the service was restarted.

    Args:
        service: the service that holds the history.
        scope: the scope of the history; its folder is only read.
        ingested: the record of its ingestion.
        closing: closed together with this object.
        warms_up: True: search the service once after each start before a search is timed, since products load what they
            need at the first search.
    """

    def __init__(
        self, service: MemoryService, scope: Scope, ingested: Ingested, closing: ExitStack, *, warms_up: bool = False
    ) -> None:
        finalize(self, closing.close)
        self._warms_up = warms_up
        self._service, self._scope, self._ingested = service, scope, ingested
        self._opening: asyncio.Lock | None = None
        self._opened_in = 0
        self._scratch: TemporaryDirectory[str] | None = None

    async def search(self, question: Question, limit: int, budget: int | None) -> Sequence[RecalledItem]:
        """Return what the service finds, best first, with our ids.

        Raises:
            ServiceError: the service failed, or returned an id that it was never given.
            SpendingLimitError, EndpointDownError, FatalModelError: no model can be called any more.
        """
        models = self._scope.models
        try:
            with paused():
                await in_background(self._open())
                if self._warms_up:
                    await in_background(self._service.warm_up(self._scope.scope, question.date))
            request = Search(self._scope.scope, question.text, question.date, limit, budget)
            found = await self._service.search(request)
        finally:
            if models:
                models.check()
        return recalled_items(found.items, self._scope.ids, self._ingested.refs)

    @property
    def failed_calls(self) -> Sequence[str]:
        """The errors of model calls so far."""
        return self._scope.models.failures if self._scope.models else ()

    async def _open(self) -> None:
        self._opening = self._opening or asyncio.Lock()
        async with self._opening:
            await self._service.hello()
            if self._opened_in == self._service.beginnings:
                return
            self._scratch = TemporaryDirectory(prefix="longmemeval-", ignore_cleanup_errors=True)
            copy = Path(self._scratch.name) / "state"
            await asyncio.to_thread(shutil.copytree, self._scope.state, copy)
            scope, persist = self._scope, self._ingested.hello.capabilities.persist
            request = await asyncio.to_thread(scope.opened, copy, "read", self._ingested.reference)
            await self._service.open(request)
            if persist == "none":
                await replay(self._service, scope)
            self._opened_in = self._service.beginnings
