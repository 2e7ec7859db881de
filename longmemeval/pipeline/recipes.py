"""What a preparation must hold, what it holds, and what is missing."""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from longmemeval.errors import FixtureError
from longmemeval.files import list_folders
from longmemeval.llm.tokens import TOKENS_PART
from longmemeval.memory.protocol import Need
from longmemeval.pipeline.manifest import differences
from longmemeval.pipeline.token_part import TOKENS_RECIPE
from longmemeval.pipeline.wording import Wording
from longmemeval.records import DatasetIdentity, FixtureMeta
from longmemeval.retrieval.dates import DATES_PART, DATES_RECIPE
from longmemeval.retrieval.expansion import is_vectors_part, keys_part
from longmemeval.retrieval.word_counts import WORDS_PART, WORDS_RECIPE
from longmemeval.storage.fixture import part_file, read_meta

IndexEngine = Literal["hnsw", "exact"]

# HNSW construction parameters; a change of any of them is another recipe.
HNSW_M = 16
HNSW_EF_CONSTRUCTION = 200
HNSW_SEED = 0

KEYS_SHA256 = "keys_sha256"
"""In the recipe of a fixture's vectors of keys: the hash of the part with the keys. It is the fixture's own."""


class Recipes(Struct, frozen=True):
    """How each needed part is to be made. A part that no configuration needs has no recipe."""

    parts: dict[str, dict[str, Any]]

    def stages(self) -> Iterator["Recipes"]:
        """The parts in the order they can be made: keys are embedded once they are in the fixture."""
        late = {name: recipe for name, recipe in self.parts.items() if is_vectors_part(name)}
        yield Recipes({name: recipe for name, recipe in self.parts.items() if name not in late})
        if late:
            yield Recipes(late)


def recipes_for(
    needs: Collection[Need],
    *,
    working_memory: Mapping[str, Any] | None,
    embedder: str | None,
    index: IndexEngine,
    wording: Wording,
    expansions: Mapping[str, dict[str, Any]],
) -> Recipes:
    """The recipes for what `needs` asks.

    Args:
        needs: what the configurations read.
        working_memory: recipe of the updater, if working memory is needed.
        embedder: fingerprint of the embedder, if vectors are needed.
        index: `hnsw` or `exact`.
        wording: what is embedded of a message.
        expansions: recipes of the key expansions that are needed, by part.
    """
    parts: dict[str, dict[str, Any]] = {}
    if needs:
        parts["db"] = {"version": 1, "working_memory": dict(working_memory) if working_memory else None}
    if "vectors" in needs:
        graph = {"m": HNSW_M, "ef_construction": HNSW_EF_CONSTRUCTION, "seed": HNSW_SEED} if index == "hnsw" else {}
        made = {"version": 1, "embedder": embedder, "index": index, "text": wording.text}
        parts["vector"] = made | graph | wording.prefixes
    if DATES_PART in needs:
        parts[DATES_PART] = DATES_RECIPE
    if WORDS_PART in needs:
        parts[WORDS_PART] = WORDS_RECIPE
    if TOKENS_PART in needs:
        parts[TOKENS_PART] = TOKENS_RECIPE
    key_vectors = {"version": 1, "embedder": embedder, "index": "exact", **wording.prefixes}
    return Recipes(parts | dict(expansions) | dict.fromkeys(sorted(filter(is_vectors_part, needs)), key_vectors))


def missing_parts(folder: Path, meta: FixtureMeta | None, recipes: Recipes) -> list[str]:
    """The parts of one fixture that have to be made.

    A `db` that lacks only the working memory counts as missing: it is made again with it. So do vectors of keys that
    were made again since.
    """
    if meta is None:
        return list(recipes.parts)
    return [
        name
        for name, recipe in recipes.parts.items()
        if name not in meta.parts
        or not _serves(name, meta.parts[name].recipe, recipe)
        or is_made_of_other_keys(name, meta)
        or not any((folder / file).exists() for file in (part_file(name), f"{part_file(name)}.new"))
    ]


def is_made_of_other_keys(part: str, meta: FixtureMeta) -> bool:
    """Whether `part`, which the fixture has, holds vectors of other keys than the fixture's."""
    if not is_vectors_part(part):
        return False
    keys = meta.parts.get(keys_part(part))
    return keys is None or meta.parts[part].recipe.get(KEYS_SHA256) != keys.sha256


def recipe_of_all(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """What a recipe has in common with those of the other fixtures."""
    return {key: value for key, value in recipe.items() if key != KEYS_SHA256}


def is_unfinished(folder: Path) -> bool:
    """Whether a process died while it wrote this fixture and left files that the next writing tidies up."""
    return any(folder.glob("*.new")) or any(folder.glob(".*.tmp"))


def _serves(part: str, have: Mapping[str, Any], want: Mapping[str, Any]) -> bool:
    """Whether a part made by recipe `have` can be read where `want` is asked for."""
    if part == "db" and want["working_memory"] is None:
        return {**have, "working_memory": None} == want
    return recipe_of_all(have) == recipe_of_all(want)


def check_unmixed(
    preparation: Path, dataset: DatasetIdentity, recipes: Recipes, made_again: Collection[str] = ()
) -> None:
    """Refuse to add to a preparation that was made from other data or by other recipes.

    Args:
        preparation: its folder.
        dataset: what is being prepared now.
        recipes: how parts are being made now.
        made_again: names of fixture folders that will be replaced and do not count.

    Raises:
        FixtureError: names the first fixture that differs, and in what.
    """
    for folder in list_folders(preparation):
        if folder.name in made_again:
            continue
        meta = read_meta(folder)
        if meta is None:
            continue
        if meta.dataset.sha256 != dataset.sha256:
            raise FixtureError(
                f"This preparation was made from other data: '{meta.dataset.name}' with sha256 "
                f"{meta.dataset.sha256[:12]}…, now '{dataset.name}' with {dataset.sha256[:12]}…",
                where=str(folder),
                fix="Give the new preparation its own --name, or --force to make this one again",
            )
        _check_recipes(folder, meta, recipes)


def check_keeps_working_memory(folder: Path, meta: FixtureMeta | None, recipes: Recipes) -> None:
    """Refuse to make `db` again without the working memory it has: it may have been paid for.

    Raises:
        FixtureError: the fixture in `folder` would lose its working memory.
    """
    if meta is None or "db" not in meta.parts or "db" not in recipes.parts:
        return
    if meta.parts["db"].recipe.get("working_memory") and not recipes.parts["db"]["working_memory"]:
        raise FixtureError(
            "Making part 'db' again for these configurations alone would drop its working memory",
            where=str(folder),
            fix="Add --memory working-memory, or choose another --name",
        )


def _check_recipes(folder: Path, meta: FixtureMeta, recipes: Recipes) -> None:
    for part, want in recipes.parts.items():
        # What is counted follows from the messages: where the rules have changed, it is made again and nothing is lost.
        if part not in meta.parts or part in (WORDS_PART, TOKENS_PART):
            continue
        have = meta.parts[part].recipe
        adds_working_memory = part == "db" and have.get("working_memory") is None
        if _serves(part, have, want) or (adds_working_memory and {**have, "working_memory": None} == _plain(want)):
            continue
        raise FixtureError(
            f"Part '{part}' of this preparation was made by another recipe ({'; '.join(differences(have, want))})",
            where=str(folder),
            fix="Give the new preparation its own --name, or --force to make this one again",
        )


def _plain(recipe: Mapping[str, Any]) -> dict[str, Any]:
    return {**recipe, "working_memory": None}
