"""What `verify` checks of a preparation: parts have their hashes and say what `meta.json` says; all are of one make."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from longmemeval.errors import HarnessError
from longmemeval.files import leads_nowhere, list_folders, safe_name
from longmemeval.llm.tokens import TOKENS_PART
from longmemeval.pipeline.fixtures.recipes import Recipes, check_unmixed
from longmemeval.pipeline.fixtures.token_part import tokens_of
from longmemeval.records import FixtureMeta
from longmemeval.retrieval.word_counts import has_words, words_of
from longmemeval.storage.fixture import Fixture
from longmemeval.storage.messages import resource_id


def check_preparation(folder: Path) -> Iterator[str | None]:
    """One outcome per check of every fixture: None, or what does not hold."""
    metas = []
    for path in sorted(filter(leads_nowhere, folder.iterdir())):
        yield f"{folder.parent.name}/{folder.name}/{path.name}: is a link that leads nowhere"
    for path in list_folders(folder):
        place = f"{folder.parent.name}/{folder.name}/{path.name}"
        try:
            fixture = Fixture.open(path)
        except HarnessError as error:
            yield f"{place}: {error}"
            continue
        metas.append(fixture.meta)
        for part in fixture.meta.parts:
            yield _holds(f"{place}, part {part}", partial(fixture.read_part, part))
        if "vector" in fixture.meta.parts:
            yield _holds(place, partial(getattr, fixture, "vectors"))
        if has_words(fixture.meta):
            yield _holds(place, partial(words_of, fixture))
        if TOKENS_PART in fixture.meta.parts:
            yield _holds(place, partial(tokens_of, fixture))
        for problem in _contradictions(fixture):
            yield f"{place}/meta.json: {problem}" if problem else None
    if metas:
        place = f"{folder.parent.name}/{folder.name}"
        yield _holds(place, partial(check_unmixed, folder, metas[0].dataset, _fullest(metas)))


def _holds(place: str, check: Callable[[], object]) -> str | None:
    """None if `check` raises nothing, else what it says."""
    try:
        check()
    except HarnessError as error:
        return f"{place}: {error}"
    return None


def _contradictions(fixture: Fixture) -> Iterator[str | None]:
    """Where `meta.json` says something else than its place and its parts."""
    meta, path = fixture.meta, fixture.path
    names = (safe_name(meta.dataset.name), safe_name(meta.haystack_id))
    yield None if names == (path.parent.parent.name, path.name) else "is another data set's or haystack's"
    yield None if meta.resource_id == resource_id(meta.haystack_id) else f"names the resource '{meta.resource_id}'"
    try:
        if "db" in meta.parts:
            threads = tuple(thread.id for thread in fixture.memory.threads)
            yield None if threads == meta.thread_ids else "names other threads than db.json has"
            has_document = fixture.memory.working_memory is not None
            recipe = meta.parts["db"].recipe.get("working_memory")
            yield None if has_document == bool(recipe) else "tells of another working memory than db.json has"
        if "vector" in meta.parts:
            made_by, told = fixture.embedder.fingerprint, meta.parts["vector"].recipe.get("embedder")
            yield None if made_by == told else f"names the embedder '{told}', vector.json says '{made_by}'"
    except HarnessError as error:
        yield str(error)


def _fullest(metas: Sequence[FixtureMeta]) -> Recipes:
    """The recipes that all fixtures must share; of `db`, one with a working memory if any has one."""
    parts: dict[str, dict[str, Any]] = {}
    for meta in metas:
        for part, info in meta.parts.items():
            adds = part == "db" and info.recipe.get("working_memory") and not parts.get(part, {}).get("working_memory")
            if part not in parts or adds:
                parts[part] = info.recipe
    return Recipes(parts)
