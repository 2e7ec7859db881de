"""Check a preparation, for `verify`: hashes hold, parts agree with `meta.json`, all fixtures have the same recipes."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from longmemeval.benchmarks.catalogue import catalogue
from longmemeval.benchmarks.registry import load_dataset
from longmemeval.core.files import is_broken_link, safe_name
from longmemeval.core.journal import read_journal
from longmemeval.dataset import Dataset
from longmemeval.errors import FixtureError, HarnessError
from longmemeval.memory.configuration import MEMORIES
from longmemeval.memory.definition import is_service
from longmemeval.memory.products.known import adapter_of
from longmemeval.pipeline.prepare.recipes import PlannedPart, check_unmixed, differing_recipes, has_stale_inputs
from longmemeval.pipeline.verify.fixtures import Again, Findings, Remaker
from longmemeval.records import DatasetIdentity, FixtureMeta, PartInfo
from longmemeval.results.manifest import RunManifest
from longmemeval.results.preparation import PREPARE_JOURNAL, PrepareRecord, journals
from longmemeval.settings import Folders
from longmemeval.storage.fixture import Fixture, StoredPart, fixture_folder, fixture_folders, read_meta
from longmemeval.storage.messages import resource_id, thread_ids
from longmemeval.storage.parts import Part, PartInput, PartOutput, PartTools, Stored

# Compare parts and runs with the current code of external memories; code that only they name is not run.

_OF_CODE = ("requirements", "source_sha256")
"""The fields of origins, and of parts' recipes, that identify code."""


def stale_parts(metas: Iterable[FixtureMeta]) -> Iterator[str | None]:
    """Check each part of a product against the installed code, in the first fixture that has it.

    Code of the user changes: parts of its earlier versions stay beside the present one's, for earlier runs.

    Yields:
        None, or how the recipe differs; nothing for a part whose code is not installed.
    """
    firsts: dict[str, PartInfo] = {}
    for meta in metas:
        firsts = {name: info for name, info in meta.parts.items() if _is_product(info)} | firsts
    for name, info in firsts.items():
        now = _code_now(info.recipe["service"])
        if recorded := _code({key: info.recipe.get(key) for key in now}):
            differs = differing_recipes(recorded, now)
            yield f"Part '{name}' was made by another recipe ({differs}): `run` refuses it" if differs else None


def read_other_code(manifest: RunManifest, folders: Folders) -> Iterator[str | None]:
    """Check that the parts a run read were made by the code of the memory that its manifest names.

    Yields:
        None, or how they differ; nothing if the parts do not exist any more.
    """
    memory = manifest.settings.memory
    named = _code(memory.source) if memory and isinstance(memory.source, Mapping) else {}
    for name, info in _parts_read(manifest, folders) if named else ():
        recorded = {key: info.recipe.get(key) for key in named}
        differs = differing_recipes(recorded, named) if "service" in info.recipe else ""
        yield (
            f"run.json: part '{name}', which the run read, was made by other code of the memory than the run names "
            f"({differs}): its numbers belong to neither"
            if differs
            else None
        )


def code_since(manifest: RunManifest) -> tuple[str, ...]:
    """Return the differences of the run's memory code from the installed code; empty if there are none to compare."""
    memory = manifest.settings.memory
    if not memory or not isinstance(memory.source, Mapping):
        return ()
    now = _code_now(memory.preset)
    differs = differing_recipes({key: memory.source.get(key) for key in now}, now)
    note = f"The code of '{memory.preset}' has changed since the run ({differs}); the numbers are those of its own code"
    return (note,) if differs else ()


def _parts_read(manifest: RunManifest, folders: Folders) -> list[tuple[str, PartInfo]]:
    """Return the parts of the first fixture that still is as the run read it."""
    for haystack_id, hashes in manifest.fixtures.items():
        preparation = manifest.settings.preparation
        folder = fixture_folder(folders.prepared_dir, manifest.dataset["name"], preparation, haystack_id)
        with suppress(HarnessError):
            meta = read_meta(folder)
            parts = meta.parts if meta else {}
            if found := [
                (name, parts[name]) for name in hashes if name in parts and parts[name].sha256 == hashes[name]
            ]:
                return found
    return []


def _is_product(info: PartInfo) -> bool:
    service = info.recipe.get("service", "")
    return service != "" and not is_service(service) and adapter_of(service) is not None


def _code_now(memory: str) -> dict[str, Any]:
    with suppress(HarnessError, OSError):
        return _code(MEMORIES.present_origin(memory) or {})
    return {}


def _code(origin: Mapping[str, Any]) -> dict[str, Any]:
    return {key: origin[key] for key in _OF_CODE if origin.get(key)}


REPORTED = "times and costs of preparing, and what models and services made (prepare.jsonl)"
"""What no file of a preparation can prove."""


class DataOf:
    """The datasets of preparations, each loaded once.

    Args:
        given: the location of the data; None: the catalogue's.
    """

    def __init__(self, given: str | None, data_dir: Path) -> None:
        self._given, self._data_dir = given, data_dir
        self._loaded: dict[str, Dataset] = {}

    def of(self, made_of: DatasetIdentity) -> Dataset:
        """Return the data that a fixture was made of.

        Raises:
            HarnessError: they are not here.
        """
        name = self._given or made_of.name
        if name not in self._loaded:
            if not self._given and name not in catalogue():
                raise HarnessError(f"the data '{name}' are not in the catalogue; give --dataset FILE")
            self._loaded[name] = load_dataset(name, self._data_dir)
        data = self._loaded[name]
        if data.sha256 != made_of.sha256:
            raise HarnessError(f"they were made of other data than {data.path.name}; give --dataset FILE")
        return data


class PreparationCheck:
    """The checks of one preparation.

    Args:
        folder: folder of the preparation.
        known: the parts whose content can be checked, by name; for all others only hashes are checked.
        data: finds the data that it was made of.
        remaker: makes its parts again.
    """

    def __init__(self, folder: Path, known: Mapping[str, Part[Any]], data: DataOf, remaker: Remaker) -> None:
        self._data, self._remaker = data, remaker
        self._problems, self._gaps = Findings(), Findings()
        self._questions: dict[str, list[str]] | None = None
        self._folder = folder
        self._place = f"{folder.parent.name}/{folder.name}"
        self._known = known
        self._metas: dict[Path, FixtureMeta] = {}
        self._turns: dict[str, int] = {}
        self.unknown: set[str] = set()
        """Names of the parts of which only the hashes were checked."""

    def outcomes(self) -> Iterator[str | None]:
        """Yield one outcome per check of every fixture: None, or the problem."""
        here = self._folder.iterdir() if self._folder.is_dir() else ()
        for path in sorted(filter(is_broken_link, here)):
            yield f"{self._place}/{path.name}: is a broken link"
        for path in fixture_folders(self._folder):
            try:
                fixture = Fixture.open(path)
            except HarnessError as error:
                yield f"{self._place}/{path.name}: {error}"
                continue
            self._metas[path] = fixture.meta
            yield from self._check_fixture(fixture, f"{self._place}/{path.name}")
            yield from self._make_again(fixture, f"{self._place}/{path.name}")
        yield from self._problems.problems()
        if self._metas:
            first, *_ = self._metas.values()
            shared = _fullest(self._metas.values(), self._known)
            yield _holds(self._place, partial(check_unmixed, self._metas, first.dataset, shared))
            for stale in stale_parts(self._metas.values()):
                yield f"{self._place}: {stale}" if stale else None
        yield from self._check_journal()

    @property
    def not_checked(self) -> Iterator[str]:
        """What `outcomes` left unchecked, and why."""
        yield from self._gaps.gaps(len(self._metas))

    def _make_again(self, fixture: Fixture, place: str) -> Iterator[None]:
        """Compare ids and parts of a fixture with its data; yield None for each that agrees."""
        meta = fixture.meta
        try:
            data = self._data.of(meta.dataset)
            haystack = self._remaker.haystack(data, meta.haystack_id)
        except HarnessError as error:
            self._gaps.add(f"all parts: {error.what}", place)
            return
        if self._questions is None:
            self._questions = defaultdict(list)
            for question in data.questions():
                self._questions[question.haystack_id].append(question.question_id)
        ids = tuple(self._questions[meta.haystack_id]), tuple(thread_ids(haystack))
        if ids == (meta.question_ids, meta.thread_ids):
            yield None
        else:
            self._problems.add("meta.json has other questions or sessions than the data", place)
        self._turns[meta.haystack_id] = sum(len(session.turns) for session in haystack.sessions)
        for name in meta.parts:
            part = next((part for part in self._known.values() if part.stored_name(meta) == name), None)
            again = self._remaker.stored(data, fixture, part) if part else Again(reason="no installed memory makes it")
            if again.problem:
                self._problems.add(f"part {name} {again.problem}", place)
            elif again.reason:
                self._gaps.add(f"part {name}: {again.reason}", place)
            else:
                yield None

    def _check_journal(self) -> Iterator[str | None]:
        """Check the lines of `prepare.jsonl` on fixtures: numbers of messages, and no cost of parts made by rules."""
        rules = {part.name for part in self._known.values() if not part.embeds and not part.calls_models}
        for journal in journals(self._folder):
            for record in read_journal(journal, PrepareRecord):
                if record.work != "fixture" or record.haystack_id not in self._turns:
                    continue
                paid = sorted(name for name in rules & record.usage_by_part.keys())
                place = f"{self._place}/{PREPARE_JOURNAL}: the line on {record.haystack_id}"
                if record.messages != self._turns[record.haystack_id]:
                    yield f"{place} counts other messages than the data have"
                else:
                    yield f"{place} has a cost of {', '.join(paid)}, which no model makes" if paid else None

    def _check_fixture(self, fixture: Fixture, place: str) -> Iterator[str | None]:
        held = [part for part in self._known.values() if part.info(fixture.meta)]
        opened = {part.name for part in held if not part.directory}
        for name, info in fixture.meta.parts.items():
            if name not in opened:
                read = fixture.part_folder if info.directory else fixture.read_part
                yield _holds(f"{place}, part {name}", partial(read, name))
        for part in held:
            yield _holds(f"{place}, part {part.name}", partial(fixture.part, part))
        for problem in _contradictions(fixture, held):
            yield f"{place}/meta.json: {problem}" if problem else None
        self.unknown |= fixture.meta.parts.keys() - self._known.keys()


def _holds(place: str, check: Callable[[], object]) -> str | None:
    """Return None if `check` raises nothing, else its error."""
    try:
        check()
    except HarnessError as error:
        return f"{place}: {error}"
    except Exception as error:  # A part of another package may raise anything.
        return f"{place}: it cannot be opened ({type(error).__name__}: {error})"
    return None


def _contradictions(fixture: Fixture, held: Iterable[Part[Any]]) -> Iterator[str | None]:
    """Yield the contradictions between `meta.json` and its path and parts."""
    meta, path = fixture.meta, fixture.path
    names = (safe_name(meta.dataset.name), safe_name(meta.haystack_id))
    yield None if names == (path.parent.parent.name, path.name) else "is another dataset's or haystack's"
    yield None if meta.resource_id == resource_id(meta.haystack_id) else f"names the resource '{meta.resource_id}'"
    for part in held:
        try:
            found: list[str | None] = [
                *part.contradictions(StoredPart(fixture, part)),
                *(
                    [f"part {part.name} is stale: the parts it was made from have changed"]
                    if has_stale_inputs(part, meta)
                    else []
                ),
            ]
        except HarnessError as error:
            found = [str(error)]
        yield from found or [None]


def _fullest(metas: Iterable[FixtureMeta], known: Mapping[str, Part[Any]]) -> list[PlannedPart]:
    """Return the recipes that all fixtures must share: of each part the first found."""
    found: dict[str, PlannedPart] = {}
    for meta in metas:
        parts = {name: known.get(name) or _Unknown(name) for name in (*known, *meta.parts)}
        for name, part in parts.items():
            if name not in found and (info := part.info(meta)):
                found[name] = PlannedPart(part, part.comparable_recipe(info.recipe))
    return list(found.values())


class _Unknown(Part[None]):
    """A part of a memory that is not installed."""

    def __init__(self, name: str) -> None:
        self.name = name

    def comparable_recipe(self, recipe: Mapping[str, Any]) -> dict[str, Any]:
        """Return the recipe without what may be hashes of needed parts."""
        return {key: value for key, value in recipe.items() if not key.endswith("_sha256")}

    def recipe(self, tools: PartTools) -> dict[str, Any]:
        """Raise: the recipe is not known."""
        raise self._absent()

    def make(self, source: PartInput, tools: PartTools) -> PartOutput:
        """Raise: the part is only compared, never made."""
        raise self._absent()

    def open(self, stored: Stored) -> None:
        """Raise: only its memory can read its content."""
        raise self._absent()

    def _absent(self) -> FixtureError:
        return FixtureError(f"The memory that keeps the part '{self.name}' is not installed")
