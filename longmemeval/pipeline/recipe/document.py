"""What a recipe holds, made from the manifest of a run: of the one it tells of, and of the one that is made by it."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from longmemeval.core.files import sha256_bytes
from longmemeval.results.index import settings_sha256
from longmemeval.results.manifest import RunManifest, differences
from longmemeval.results.selection import Selection

FORMAT = 1
_HASH = re.compile("[0-9a-f]{64}")
_SHOWN = 12
"""Characters of a hash that a difference shows."""


class RecipeQuestions(Struct, frozen=True, forbid_unknown_fields=True):
    """Which questions, and what tells that they are the same."""

    selection: dict[str, Any]
    """The fields of a `Selection` that are not usual; empty: every question."""
    count: int
    ids_sha256: str


class RecipePreparation(Struct, frozen=True, forbid_unknown_fields=True):
    """The fixtures that were read."""

    prepare: str
    """The command that makes them."""
    haystacks: int
    parts: dict[str, dict[str, Any]]
    """By name: one `sha256` over the hashes of the part in all haystacks, and its `recipe` where that is known."""


class Recipe(Struct, frozen=True, forbid_unknown_fields=True):
    """All that decides the answers of a run, and hashes of what it depends on."""

    format: int
    run: str
    dataset: dict[str, str]
    """Name, path, and sha256 of the bytes and of the content."""
    questions: RecipeQuestions
    settings: dict[str, Any]
    """As in the manifest: memory, model, reading, protocol and the like."""
    preparation: RecipePreparation
    environment: dict[str, Any]
    """Packages, Python and git commit."""
    settings_sha256: str
    """Of data, questions and settings together, as in the index of scores."""
    templates: dict[str, str] = {}
    """Texts of the prompts that are not shipped, by their hash."""


def recipe_of(manifest: RunManifest, prepare: str = "", recipes: Mapping[str, Any] | None = None) -> Recipe:
    """The recipe of a run.

    Args:
        manifest: of the run, or of one that is about to begin.
        prepare: the command that makes its fixtures.
        recipes: of the parts of the fixtures, by name, where they are known.
    """
    by_part: dict[str, dict[str, str]] = {}
    for haystack_id, parts in manifest.fixtures.items():
        for part, sha256 in parts.items():
            by_part.setdefault(part, {})[haystack_id] = sha256
    told = {part: {"sha256": _hash(hashes)} for part, hashes in sorted(by_part.items())}
    for part, recipe in (recipes or {}).items():
        told[part]["recipe"] = recipe
    selection = manifest.selection or Selection(question_ids=manifest.question_ids)
    usual = msgspec.to_builtins(Selection())
    return Recipe(
        format=FORMAT,
        run=manifest.run_id,
        dataset=dict(manifest.dataset),
        questions=RecipeQuestions(
            {key: value for key, value in msgspec.to_builtins(selection).items() if value != usual[key]},
            len(manifest.question_ids),
            _hash(manifest.question_ids),
        ),
        settings=manifest.settings.plain,
        preparation=RecipePreparation(prepare, len(manifest.fixtures), told),
        environment={key: manifest.environment.get(key) for key in ("packages", "python", "git")},
        settings_sha256=settings_sha256(manifest),
        templates=manifest.templates,
    )


def changes(recipe: Recipe, now: Recipe) -> list[str]:
    """What a run made by `recipe` has otherwise, one line each: `environment.python: recipe 3.11.7, here 3.12.1`."""
    before, after = _compared(recipe), _compared(now)
    found = differences(before, after, template="recipe {old}, here {new}")
    if not found and recipe.settings_sha256 != now.settings_sha256:
        told = {"settings_sha256": recipe.settings_sha256}
        said = "recipe {old}, here {new}: the recipe was edited, or another version of longmemeval wrote it"
        found = differences(told, {"settings_sha256": now.settings_sha256}, template=said)
    return found


def data_changes(recipe: Recipe, dataset: Mapping[str, str]) -> list[str]:
    """What differs in the data set alone: it is known before anything is planned."""
    hashes = [{f"dataset.{key}": one[key] for key in ("sha256", "content_sha256")} for one in (recipe.dataset, dataset)]
    return differences(_short(hashes[0]), _short(hashes[1]), template="recipe {old}, here {new}")


def _compared(recipe: Recipe) -> dict[str, Any]:
    """What has to be equal: places and the words of commands need not be."""
    plain: dict[str, Any] = msgspec.to_builtins(recipe)
    parts = {part: told["sha256"] for part, told in recipe.preparation.parts.items()}
    return _short(
        {
            "dataset": {key: recipe.dataset[key] for key in ("sha256", "content_sha256")},
            "questions": {"count": recipe.questions.count, "ids_sha256": recipe.questions.ids_sha256},
            "settings": plain["settings"],
            "preparation": parts,
            "environment": plain["environment"],
        }
    )


def _short(values: Mapping[str, Any]) -> dict[str, Any]:
    """The same with hashes shortened, which makes lines easier to read."""
    return {
        key: _short(value)
        if isinstance(value, Mapping)
        else f"{value[:_SHOWN]}…"
        if isinstance(value, str) and _HASH.fullmatch(value)
        else value
        for key, value in values.items()
    }


def _hash(value: object) -> str:
    return sha256_bytes(msgspec.json.encode(value, order="sorted"))


def selection_of(recipe: Recipe) -> Selection:
    """The selection of a recipe.

    Raises:
        msgspec.ValidationError: it is none.
    """
    return msgspec.convert(recipe.questions.selection, Selection)
