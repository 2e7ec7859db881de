"""Check a preparation, for `verify`: hashes hold, parts agree with `meta.json`, all fixtures have the same recipes."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from longmemeval.core.files import leads_nowhere, safe_name
from longmemeval.errors import FixtureError, HarnessError
from longmemeval.pipeline.prepare.recipes import PlannedPart, check_unmixed, has_stale_inputs
from longmemeval.pipeline.verify.sources import stale_parts
from longmemeval.records import FixtureMeta
from longmemeval.storage.fixture import Fixture, StoredPart, fixture_folders
from longmemeval.storage.messages import resource_id
from longmemeval.storage.parts import Part, PartInput, PartOutput, PartTools, Stored


class PreparationCheck:
    """The checks of one preparation.

    Args:
        folder: folder of the preparation.
        known: the parts whose content can be checked, by name; for all others only hashes are checked.
    """

    def __init__(self, folder: Path, known: Mapping[str, Part[Any]]) -> None:
        self._folder = folder
        self._place = f"{folder.parent.name}/{folder.name}"
        self._known = known
        self._metas: dict[Path, FixtureMeta] = {}
        self.unknown: set[str] = set()
        """Names of the parts of which only the hashes were checked."""

    def outcomes(self) -> Iterator[str | None]:
        """Yield one outcome per check of every fixture: None, or the problem."""
        here = self._folder.iterdir() if self._folder.is_dir() else ()
        for path in sorted(filter(leads_nowhere, here)):
            yield f"{self._place}/{path.name}: is a broken link"
        for path in fixture_folders(self._folder):
            try:
                fixture = Fixture.open(path)
            except HarnessError as error:
                yield f"{self._place}/{path.name}: {error}"
                continue
            self._metas[path] = fixture.meta
            yield from self._check_fixture(fixture, f"{self._place}/{path.name}")
        if self._metas:
            first, *_ = self._metas.values()
            shared = _fullest(self._metas.values(), self._known)
            yield _holds(self._place, partial(check_unmixed, self._metas, first.dataset, shared))
            for stale in stale_parts(self._metas.values()):
                yield f"{self._place}: {stale}" if stale else None

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
    yield None if names == (path.parent.parent.name, path.name) else "is another data set's or haystack's"
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
