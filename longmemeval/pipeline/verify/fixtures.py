"""Check the fixtures that a run read: their recorded hashes, and what the data give when they are made again."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
from msgspec import structs

from longmemeval.core.files import sha256_bytes
from longmemeval.core.part_options import PartOptions
from longmemeval.core.text.figures import listed
from longmemeval.dataset import Dataset
from longmemeval.embedding.protocol import Embedder, EmbedderSettings
from longmemeval.embedding.registry import EMBEDDERS
from longmemeval.errors import HarnessError
from longmemeval.llm.protocol import ChatModel
from longmemeval.llm.registry import ModelAccess
from longmemeval.memory.configuration import MEMORIES, known_parts
from longmemeval.pipeline.prepare.build import FixtureInMaking, Tools, ToolSettings, output_of
from longmemeval.pipeline.prepare.recipes import differing_recipes
from longmemeval.records import DatasetIdentity, FixtureMeta, Haystack, PartInfo
from longmemeval.results.lines import recorded_bytes
from longmemeval.results.manifest import FORMAT, RunManifest
from longmemeval.results.preparation import parts_read
from longmemeval.results.settings import ImportedSettings
from longmemeval.storage.fixture import Fixture, StoredPart, fixture_folder, meta_of, size_of_part
from longmemeval.storage.messages import resource_id, thread_ids
from longmemeval.storage.opaque import RECIPE, is_foreign
from longmemeval.storage.part_files import META_FORMAT
from longmemeval.storage.parts import FixtureEmbedder, ModelPart, Part, PartInput, PartOutput, recipe_of, with_needs
from longmemeval.storage.vectors_part import VectorsPart

# Make parts of fixtures again from the data they were made of; no chat model and no server is called.

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
        if part.outdated(info):
            return Again(reason="an earlier version made it")
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
        if digest == info.sha256 and info.stats != _stats(output):
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


class Findings:
    """Findings on many haystacks, each text once with the first place and the number of others."""

    def __init__(self) -> None:
        self._places: dict[str, list[str]] = defaultdict(list)

    def add(self, text: str, place: str) -> None:
        """Note a finding at one place."""
        self._places[text].append(place)

    def problems(self) -> Iterator[str]:
        """Yield each as a problem that begins with its place."""
        for text, places in self._places.items():
            yield f"{listed(places, 1)}: {text}"

    def gaps(self, total: int) -> Iterator[str]:
        """Yield each with the number of its haystacks out of `total`."""
        for text, places in self._places.items():
            what, _, why = text.partition(": ")
            yield f"{what} of {len(places):,} of {total:,} haystacks: {why}"


class KnownParts(NamedTuple):
    """What the user knows besides the registered memories."""

    parts: Mapping[str, Part[Any]]
    presets: Collection[str]
    """The memories that the user named; code that only a run names is not loaded."""


class ReadFixtures:
    """The checks of the fixtures that one run read.

    Args:
        data: the data that the run answered.
        prepared_dir: the folder of preparations.
        given: memories that are not registered.
        remaker: makes their parts again.
    """

    def __init__(
        self, manifest: RunManifest, data: Dataset, prepared_dir: Path, given: KnownParts, remaker: Remaker
    ) -> None:
        self._manifest, self._data, self._prepared, self._remaker = manifest, data, prepared_dir, remaker
        memory, known = manifest.settings.memory, dict(given.parts)
        self._read: dict[str, Part[Any]] | None = None
        if memory and (memory.preset in MEMORIES or memory.preset in given.presets):
            self._read = parts_read(manifest)
            with suppress(HarnessError):
                known = MEMORIES.get(memory.preset).all_parts() | known
        elif memory:
            known = known_parts() | known
        self._known = known | (self._read or {})
        self._problems, self._gaps, self._left = Findings(), Findings(), dict[str, None]()

    def outcomes(self) -> Iterator[str | None]:
        """Yield one outcome per check: None, or the problem."""
        recorded = self._manifest.fixtures
        if isinstance(self._manifest.settings, ImportedSettings):
            return
        asked = set(self._manifest.question_ids)
        haystacks = {question.haystack_id for question in self._data.questions() if question.question_id in asked}
        from_data = self._manifest.kind == "retrieval" and self._manifest.settings.protocol == "official"
        required = set() if from_data else {name for name, part in (self._read or {}).items() if not part.derived}
        lacking = sorted({part for name in haystacks for part in required - recorded.get(name, {}).keys()})
        yield (
            f"run.json: has no hashes of all fixtures that the memory read ({', '.join(lacking)})" if lacking else None
        )
        drawn = self._remaker.drawn(recorded)
        for haystack_id in recorded:
            yield from self._check(haystack_id, drawn)
        yield from self._problems.problems()

    @property
    def not_checked(self) -> Iterator[str]:
        """What `outcomes` left unchecked, and why."""
        total = len(self._manifest.fixtures)
        if self._read is None and not isinstance(self._manifest.settings, ImportedSettings):
            name = self._manifest.settings.memory_name
            yield f"whether run.json has the hashes of all parts: '{name}' is not known here; name it with --memory"
        yield from self._gaps.gaps(total)
        if self._left:
            drawn = len(self._remaker.drawn(self._manifest.fixtures))
            parts = f"part{'s' if len(self._left) > 1 else ''} {', '.join(self._left)}"
            yield (
                f"{parts} of {total - drawn:,} of {total:,} haystacks: not in the sample of {drawn} "
                f"(--seed {self._remaker.seed}). `longmemeval verify {self._preparation}` checks all"
            )

    @property
    def _preparation(self) -> str:
        return f"{self._manifest.dataset['name']}/{self._manifest.settings.preparation}"

    def _check(self, haystack_id: str, drawn: set[str]) -> Iterator[None]:
        """Check the parts of one haystack; yield None for each that is as recorded and as the data give."""
        recorded = self._manifest.fixtures[haystack_id]
        folder = fixture_folder(
            self._prepared, self._manifest.dataset["name"], self._manifest.settings.preparation, haystack_id
        )
        place = f"{self._preparation}/{haystack_id}"
        meta = None
        with suppress(HarnessError):
            meta = meta_of(folder, haystack_id)
        as_read = meta is not None
        for name, sha256 in recorded.items():
            part = self._known.get(name)
            if part is None:
                self._gaps.add(f"part {name}: no installed memory makes it", place)
                continue
            info = part.info(meta) if meta else None
            changed = info is not None and info.sha256 != sha256
            as_read = as_read and info is not None and not changed
            if not part.optionless and haystack_id not in drawn and not changed:
                self._left[name] = None
                continue
            if not self._same(haystack_id, part, sha256, place, Fixture(folder, meta) if meta and info else None):
                continue
            yield None
        if meta and as_read and not self._has_size(folder, meta, haystack_id):
            self._problems.add("run.json: gives another size on disk", place)

    def _same(self, haystack_id: str, part: Part[Any], sha256: str, place: str, fixture: Fixture | None) -> bool:
        """Note what is wrong or unknown about one part; return whether nothing is."""
        remaker, name = self._remaker, f"part {part.name}"
        info = part.info(fixture.meta) if fixture else None
        if fixture is None or info is None:
            made = remaker.from_data(self._data, haystack_id, part, self._manifest.settings.embedder)
            if made.sha256 == sha256:
                return True
            if part.optionless and made.sha256 and self._manifest.format == FORMAT:
                self._problems.add(f"{name}, whose hash run.json has, is not what the data give", place)
            else:
                why = made.reason or "with its default options this version makes other bytes"
                self._gaps.add(f"{name}: its fixture is missing; {why}", place)
            return False
        again = remaker.stored(self._data, fixture, part)
        if again.problem:
            self._problems.add(f"{name} {again.problem}", place)
        elif again.reason:
            self._gaps.add(f"{name}: {again.reason}", place)
        if info.sha256 != sha256:
            text = f"{name}, as the run read it by run.json, is not the one on disk"
            if part.derived or info.replaces == sha256:
                self._gaps.add(f"{name}: the run read other bytes than are on disk now", place)
            else:
                self._problems.add(text, place)
            return False
        return not again.problem and not again.reason

    def _has_size(self, folder: Path, meta: FixtureMeta, haystack_id: str) -> bool:
        """Return whether the recorded bytes of the parts are those on disk, as far as both are known."""
        recorded = recorded_bytes(self._manifest.totals).get(haystack_id)
        read = [self._known[name] for name in self._manifest.fixtures[haystack_id] if name in self._known]
        infos = {part: info for part in read if (info := part.info(meta))}
        sizes = [size_of_part(folder, part.stored_name(meta), info) for part, info in infos.items()]
        elsewhere = any(part.is_kept_elsewhere(info) for part, info in infos.items())
        known = [size for size in sizes if size is not None]
        return (
            recorded is None
            or elsewhere
            or len(known) < len(self._manifest.fixtures[haystack_id])
            or recorded == sum(known)
        )


def cannot_prove(manifest: RunManifest, judges: Iterable[str]) -> tuple[str, ...]:
    """Return what no file of a run can prove.

    Args:
        judges: the chat models that graded it.
    """
    settings, found = manifest.settings, list[str]()
    if isinstance(settings, ImportedSettings):
        found.append("how the answers of another system came about")
    elif manifest.fixtures:
        found.append("that what was recalled, and the prompts, came from these fixtures")
    if settings.model_name:
        found.append(f"that the answers are replies of {settings.model_name}")
    found += [f"that the labels are replies of {judge}" for judge in dict.fromkeys(judges)]
    found.append("reported times, load, memory use, tokens and dollars")
    if manifest.fixtures:
        found.append("cost and times of preparing (prepare.jsonl)")
    return tuple(found)
