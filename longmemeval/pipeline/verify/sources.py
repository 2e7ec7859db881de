"""Compare parts and runs with the current code of external memories; code that only they name is not run."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from longmemeval.errors import HarnessError
from longmemeval.memory.configuration import MEMORIES
from longmemeval.pipeline.prepare.recipes import differing_recipes
from longmemeval.records import FixtureMeta, PartInfo
from longmemeval.results.manifest import RunManifest
from longmemeval.settings import Folders
from longmemeval.storage.fixture import fixture_folder, read_meta

_OF_CODE = ("requirements", "source_sha256")
"""The fields of origins, and of parts' recipes, that identify code."""


def stale_parts(metas: Iterable[FixtureMeta]) -> Iterator[str | None]:
    """Check each part of an external memory against the installed code, in the first fixture that has it.

    Yields:
        None, or how the recipe differs; nothing for a part whose code is not installed.
    """
    firsts: dict[str, PartInfo] = {}
    for meta in metas:
        firsts = {name: info for name, info in meta.parts.items() if "service" in info.recipe} | firsts
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


def _code_now(memory: str) -> dict[str, Any]:
    with suppress(HarnessError, OSError):
        return _code(MEMORIES.present_origin(memory) or {})
    return {}


def _code(origin: Mapping[str, Any]) -> dict[str, Any]:
    return {key: origin[key] for key in _OF_CODE if origin.get(key)}
