"""Make parts of fixtures again from the data they were made of; no chat model and no server is called."""

from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
from msgspec import structs

from longmemeval.core.files import sha256_bytes
from longmemeval.core.part_options import PartOptions
from longmemeval.dataset import Dataset
from longmemeval.embedding.protocol import Embedder, EmbedderSettings
from longmemeval.embedding.registry import EMBEDDERS
from longmemeval.errors import HarnessError
from longmemeval.llm.protocol import ChatModel
from longmemeval.llm.registry import ModelAccess
from longmemeval.pipeline.prepare.build import FixtureInMaking, output_of
from longmemeval.pipeline.prepare.recipes import differing_recipes
from longmemeval.pipeline.prepare.tools import Tools, ToolSettings
from longmemeval.records import DatasetIdentity, FixtureMeta, Haystack, PartInfo
from longmemeval.storage.fixture import Fixture, StoredPart
from longmemeval.storage.messages import resource_id, thread_ids
from longmemeval.storage.opaque import RECIPE, is_foreign
from longmemeval.storage.part_files import META_FORMAT
from longmemeval.storage.parts import FixtureEmbedder, ModelPart, Part, PartInput, PartOutput, recipe_of, with_needs
from longmemeval.storage.vectors_part import VectorsPart

SAMPLE = 20
"""Haystacks of a run of which all parts are made again; of the others only the messages are."""
VECTORS = 8
"""Texts of a haystack that a local model embeds again."""


class Again(NamedTuple):
    """The outcome of making one part again."""

    sha256: str = ""
    """Hash of the part as made now; empty if it was not made."""
    problem: str = ""
    """How the stored part contradicts the data; empty if it does not."""
    reason: str = ""
    """Why nothing was compared; empty if it was."""


class Remaker:
    """Parts made again, each once for all subjects that are checked with it.

    Args:
        seed: draws haystacks and vectors; only one that nobody knew in advance proves anything.
        sample: number of haystacks of a run that are drawn; None: all.
    """

    def __init__(self, seed: int, sample: int | None = SAMPLE) -> None:
        self.seed, self.sample = seed, sample
        self._done: dict[tuple[Any, ...], Again] = {}
        self._embedders: dict[str, Embedder] = {}
        self._last: tuple[tuple[str, str], Haystack] | None = None

    def drawn(self, haystack_ids: Iterable[str]) -> set[str]:
        """Return the haystacks of which all parts are made again."""
        ids = sorted(haystack_ids)
        return set(
            ids if self.sample is None or len(ids) <= self.sample else Random(self.seed).sample(ids, self.sample)
        )

    def haystack(self, data: Dataset, haystack_id: str) -> Haystack:
        """Return a haystack, decoded once for all its parts.

        Raises:
            HarnessError: the data have none of that id.
        """
        key = (data.content_sha256, haystack_id)
        if self._last is None or self._last[0] != key:
            self._last = (key, data.haystack(haystack_id))
        return self._last[1]

    def stored(self, data: Dataset, fixture: Fixture, part: Part[Any]) -> Again:
        """Make a part of a fixture again, by its recorded recipe, and compare."""
        info = part.info(fixture.meta)
        if info is None:
            return Again(reason="other rules than this version's made it")
        key = (data.content_sha256, fixture.path, part.name, info.sha256)
        if key not in self._done:
            try:
                self._done[key] = self._compared(data, fixture, part, info)
            except HarnessError as error:
                self._done[key] = Again(reason=error.what)
        return self._done[key]

    def from_data(self, data: Dataset, haystack_id: str, part: Part[Any], embedder: FixtureEmbedder | None) -> Again:
        """Make a part without its fixture: as this version does by default, with the embedder of a run."""
        key = (data.content_sha256, haystack_id, part.name, embedder)
        if key not in self._done:
            try:
                self._done[key] = self._made(data, haystack_id, part, embedder)
            except HarnessError as error:
                self._done[key] = Again(reason=error.what)
        return self._done[key]

    def _compared(self, data: Dataset, fixture: Fixture, part: Part[Any], info: PartInfo) -> Again:
        if info.failed or info.incomplete:
            return Again(reason="it is not complete")
        try:
            flags = part.flags(StoredPart(fixture, part))
        except HarnessError as error:
            return Again(problem=f"cannot be read ({error.what})")
        options = _options(flags)
        if reason := self._refused(part, options):
            return Again(reason=reason)
        tools = self._tools(part, options)
        now, have = part.comparable_recipe(recipe_of(part, tools)), part.comparable_recipe(info.recipe)
        if now != have:
            return Again(reason=f"another recipe made it ({differing_recipes(have, now)})")
        if is_foreign(part) and not RECIPE.items() <= info.recipe.items():
            return Again(reason="an earlier version made it from other ids")
        source = PartInput(self.haystack(data, fixture.meta.haystack_id), fixture)
        if isinstance(part, VectorsPart) and not self._lend_stored(part, source, fixture, tools):
            return Again(problem="has vectors of other texts than the data")
        output = output_of(part, source, tools)
        digest = sha256_bytes(output.data)
        try:
            same = digest == info.sha256 or part.agrees(fixture.read_part(part.stored_name(fixture.meta)), output.data)
        except HarnessError as error:
            return Again(digest, problem=f"cannot be read ({error.what})")
        if same and info.stats != _stats(output):
            return Again(digest, problem="has other figures in meta.json than the data give")
        return Again(digest, "" if same else "is not what the data give")

    def _made(self, data: Dataset, haystack_id: str, part: Part[Any], embedder: FixtureEmbedder | None) -> Again:
        options = PartOptions()
        if embedder:
            options = options.model_copy(update={"embedder": embedder.spec, "query_prefix": embedder.query_prefix})
        haystack = self.haystack(data, haystack_id)
        own = DatasetIdentity(data.name, data.sha256)
        names = resource_id(haystack_id), tuple(thread_ids(haystack))
        meta, contents = FixtureMeta(META_FORMAT, own, haystack_id, (), *names, {}), dict[str, bytes | Path]()
        for needed in with_needs([part]):
            if reason := self._refused(needed, options, whole=True):
                return Again(reason=reason)
            tools = self._tools(needed, options)
            source = PartInput(haystack, FixtureInMaking(Path(haystack_id), meta, contents))
            if isinstance(needed, VectorsPart):
                texts = needed.texts(source.seen_by(needed), options)
                tools.lend(texts, self._embedder(options.embedder).embed(texts))
            output = output_of(needed, source, tools)
            recipe = recipe_of(needed, tools) | needed.hashes_of_needs(meta)
            contents[needed.name] = output.data
            info = PartInfo(sha256_bytes(output.data), recipe)
            meta = structs.replace(meta, parts=meta.parts | {needed.name: info})
        return Again(meta.parts[part.name].sha256)

    def _refused(self, part: Part[Any], options: PartOptions, *, whole: bool = False) -> str:
        """Return why a part is not made; empty if it is.

        Args:
            whole: True if all its vectors would have to be embedded.
        """
        if models := part.models(options):
            return f"{models[0]} made it"
        if not part.reproducible or part.directory or (part.calls_models and not isinstance(part, ModelPart)):
            return "another program made it"
        if not part.embeds:
            return ""
        name = options.embedder.partition(":")[0]
        if not isinstance(part, VectorsPart) or name not in EMBEDDERS.built_in or EMBEDDERS.get(name).is_remote:
            return f"{options.embedder} made its vectors"
        heavy = whole and not getattr(self._embedder(options.embedder), "is_light", False)
        return f"{options.embedder} would have to embed all texts" if heavy else ""

    def _tools(self, part: Part[Any], options: PartOptions) -> "_OwnTools":
        embedder = self._embedder(options.embedder) if part.embeds else None
        made_by = FixtureEmbedder(embedder.spec, embedder.fingerprint) if embedder else None
        return _OwnTools(ToolSettings(options, made_by))

    def _embedder(self, spec: str) -> Embedder:
        """Return a local embedder, loaded once; a model that is not on this machine is not downloaded."""
        if spec not in self._embedders:
            name, _, argument = spec.partition(":")
            self._embedders[spec] = EMBEDDERS.get(name).make(argument, EmbedderSettings(downloads=False))
        return self._embedders[spec]

    def _lend_stored(self, part: VectorsPart, source: PartInput, fixture: Fixture, tools: Tools) -> bool:
        """Lend the stored vectors, those drawn embedded again; return False if they are of other texts."""
        texts, stored = part.texts(source.seen_by(part), tools.options), fixture.part(part).vectors
        embedder = self._embedder(tools.options.embedder)
        if stored.shape != (len(texts), embedder.dimension):
            return False
        rows = list(range(len(texts)))
        if not getattr(embedder, "is_light", False) and len(texts) > VECTORS:
            rows = Random(f"{self.seed} {fixture.meta.haystack_id}").sample(rows, VECTORS)
        vectors = np.array(stored)
        vectors[rows] = embedder.embed([texts[row] for row in rows])
        tools.lend(texts, vectors)
        return True


class _OwnTools(Tools):
    """Tools without models."""

    def chat_model(self, spec: str) -> ChatModel:
        """Raise: no model is called."""
        raise HarnessError(f"{spec} made it")

    @property
    def models(self) -> ModelAccess:
        """Raise: no program is given models."""
        raise HarnessError("another program made it")


def _options(flags: dict[str, str]) -> PartOptions:
    try:
        return PartOptions.model_validate(flags)
    except ValueError as error:
        raise HarnessError("its recipe cannot be read") from error


def _stats(output: PartOutput) -> dict[str, Any]:
    return output.stats | {f"dropped_{why}": number for why, number in sorted(output.dropped.items())}
