"""What `run`, `retrieval` and `inspect` read: prepared fixtures, and the vectors of the questions."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from longmemeval.arrays import Vector
from longmemeval.datasets.base import Dataset
from longmemeval.datasets.catalogue import catalogue, data_file
from longmemeval.embedding.cache import CachedEmbedder
from longmemeval.embedding.registry import load_embedder
from longmemeval.errors import FixtureError, HarnessError
from longmemeval.memory.configuration import MemoryConfiguration, needs_of
from longmemeval.pipeline.manifest import differences
from longmemeval.pipeline.recipes import is_made_of_other_keys, recipe_of_all
from longmemeval.pipeline.wording import wording_of
from longmemeval.records import FixtureMeta, Question
from longmemeval.retrieval.dates import DATES_PART
from longmemeval.settings import Folders, folders
from longmemeval.storage.fixture import Fixture, fixture_folder


class FixtureEmbedder(Struct, frozen=True, omit_defaults=True):
    """The embedder that made the vectors of a preparation, as run manifests tell it."""

    spec: str
    fingerprint: str
    query_prefix: str = ""
    """What is put before a question."""


class PreparedFixtures:
    """The fixtures of one preparation that a configuration reads.

    Args:
        dataset: what they must have been made from.
        preparation: its name.
        where: the folders.
        configuration: decides which parts have to be there.
    """

    def __init__(self, dataset: Dataset, preparation: str, where: Folders, configuration: MemoryConfiguration) -> None:
        self._dataset = dataset
        self._preparation = preparation
        self._where = where
        self._configuration = configuration
        self._needs = needs_of(configuration)
        usual = {"messages": "db", "working-memory": "db", "vectors": "vector"}
        self._parts = sorted({usual.get(need, need) for need in self._needs})

    def open(self, haystack_id: str) -> Fixture:
        """The fixture of one haystack.

        Raises:
            FixtureError: not prepared, prepared from other data, or not for this configuration.
        """
        folder = fixture_folder(self._where.prepared_dir, self._dataset.name, self._preparation, haystack_id)
        if not (folder / "meta.json").exists():
            raise FixtureError(
                f"Haystack '{haystack_id}' is not prepared", where=str(folder), fix=f"Run `{self._prepare_command()}`"
            )
        fixture = Fixture.open(folder)
        made_from = fixture.meta.dataset
        if made_from.sha256 != self._dataset.sha256:
            raise FixtureError(
                f"The preparation was made from other data: '{made_from.name}' with sha256 {made_from.sha256[:12]}…, "
                f"asked is '{self._dataset.name}' with {self._dataset.sha256[:12]}…",
                where=str(folder),
                fix="Prepare this data set with --force, or under another --name and run with --prepared NAME",
            )
        if lacking := self._lacking(fixture.meta):
            raise FixtureError(lacking, where=str(folder), fix=f"Run `{self._prepare_command(fixture)}`")
        return fixture

    def _lacking(self, meta: FixtureMeta) -> str:
        """What a fixture does not have that the configuration reads; empty when it has everything."""
        for part in self._parts:
            if part not in meta.parts:
                return f"The preparation lacks part '{part}', which '{self._configuration.preset}' reads"
            if is_made_of_other_keys(part, meta):
                return f"Part '{part}' was made of other keys than the fixture has"
        if "working-memory" in self._needs and meta.parts["db"].recipe.get("working_memory") is None:
            return "The preparation holds no working memory"
        return ""

    def _prepare_command(self, there: Fixture | None = None) -> str:
        """What makes the parts that are missing beside those that are there, ready to be typed."""
        known = catalogue().get(self._dataset.name)
        by_name = known is not None and data_file(known, self._where.data_dir) == self._dataset.path
        words = ["longmemeval", "prepare", "--dataset", self._dataset.name if by_name else str(self._dataset.path)]
        words += ["--memory", self._configuration.preset]
        for sign, keys in (("expansions-", ("expansion", "expansion_level")), (DATES_PART, ("time_range",))):
            for key in keys if any(part.startswith(sign) for part in self._parts) else ():
                words += ["--set", f"{key}={self._configuration.parameters[key]}"]
        if any(part.startswith("expansions-") for part in self._parts):
            words += ["--expansion-model", "MODEL"]
        if there and "vector" in there.meta.parts:
            words += _embedding_options(there)
        usual = folders()
        for option, given, default in (
            ("--name", self._preparation, "default"),
            ("--data-dir", self._where.data_dir, usual.data_dir),
            ("--prepared-dir", self._where.prepared_dir, usual.prepared_dir),
        ):
            words += [option, str(given)] if given != default else []
        return shlex.join(words)

    def hashes(self, questions: Sequence[Question]) -> dict[str, dict[str, str]]:
        """Haystack id -> part -> sha256, for the parts that are read.

        Raises:
            FixtureError: one is not prepared, or they were not all made by the same recipes.
        """
        found: dict[str, dict[str, str]] = {}
        first: dict[str, Any] | None = None
        for haystack_id in dict.fromkeys(question.haystack_id for question in questions):
            fixture = self.open(haystack_id)
            parts = fixture.meta.parts
            found[haystack_id] = {part: parts[part].sha256 for part in self._parts}
            recipes = {part: self._recipe_read(part, parts[part].recipe) for part in self._parts}
            first = first or recipes
            if changed := differences(first, recipes):
                raise FixtureError(
                    f"The preparation is mixed: this fixture differs from the first ({'; '.join(changed)})",
                    where=str(fixture.path),
                    fix="Finish the `longmemeval prepare --force` that was interrupted",
                )
        return found

    def _recipe_read(self, part: str, recipe: Mapping[str, Any]) -> Mapping[str, Any]:
        """What matters of a recipe: the working memory only where it is read, no fixture's own hashes."""
        reads_document = "working-memory" in self._needs
        return recipe_of_all(recipe) if part != "db" or reads_document else {**recipe, "working_memory": None}

    def embedder_of(self, questions: Sequence[Question]) -> FixtureEmbedder | None:
        """The embedder the vectors were made with; None if no vectors are read."""
        if "vector" not in self._parts or not questions:
            return None
        fixture = self.open(questions[0].haystack_id)
        wording = wording_of(fixture.meta.parts["vector"].recipe)
        return FixtureEmbedder(fixture.embedder.spec, fixture.embedder.fingerprint, wording.query_prefix)


def _embedding_options(fixture: Fixture) -> list[str]:
    """The options of `prepare` by which its vectors are those that the fixture has."""
    recipe = fixture.meta.parts["vector"].recipe
    wording = wording_of(recipe)
    words = ["--embedder", fixture.embedder.spec]
    for option, made, default in (
        ("--index", recipe["index"], "hnsw"),
        ("--embed-text", wording.text, "content"),
        ("--query-prefix", wording.query_prefix, ""),
        ("--document-prefix", wording.document_prefix, ""),
    ):
        words += [option, made] if made != default else []
    return words


class QueryVectors:
    """Vectors of all questions of a run, embedded in one go when the first is asked for; of other texts one by one.

    Args:
        questions: whose texts may be asked for.
        embedder: the one the fixtures were made with; None when no vectors are read.
        prefix: what the embedder wants before a question.
    """

    def __init__(self, questions: Sequence[Question], embedder: CachedEmbedder | None, prefix: str = "") -> None:
        self._questions = questions
        self._embedder = embedder
        self._prefix = prefix
        self._vectors: dict[str, Vector] = {}

    def __call__(self, text: str) -> Vector:
        """The vector of a text, shape (dimension,)."""
        if self._embedder is None:
            raise HarnessError("This configuration reads no vectors")
        if not self._vectors:
            texts = list(dict.fromkeys(question.text for question in self._questions))
            vectors = self._embedder.embed([self._prefix + one for one in texts])
            self._vectors = dict(zip(texts, vectors, strict=True))
        if text not in self._vectors:
            self._vectors[text] = self._embedder.embed([self._prefix + text])[0]
        return self._vectors[text]


def query_vectors(
    questions: Sequence[Question],
    identity: FixtureEmbedder | None,
    override: str | None,
    api_base: str | None,
    where: Folders,
) -> QueryVectors:
    """The vectors of the questions, by the embedder that made the fixtures.

    Args:
        questions: those of the run.
        identity: the embedder as the fixtures tell it; None when no vectors are read.
        override: another spec for the same model (a folder that was moved).
        api_base: endpoint of the chat model; the embedder's may be the same or the environment's.
        where: the folders.

    Raises:
        FixtureError: neither of them is the model that made the fixtures.
    """
    if identity is None:
        return QueryVectors(questions, None)
    spec, cache = override or identity.spec, where.cache_dir / "embeddings.sqlite"
    others = []
    for endpoint in dict.fromkeys((api_base, None)):
        embedder = load_embedder(spec, cache_path=cache, api_base=endpoint)
        if embedder.fingerprint == identity.fingerprint:
            return QueryVectors(questions, embedder, identity.query_prefix)
        others.append(f"{embedder.spec} ({embedder.fingerprint})")
    raise FixtureError(
        f"The fixtures were embedded by {identity.spec} ({identity.fingerprint}), "
        f"this is {' or '.join(dict.fromkeys(others))}",
        fix="Name the same model by --embedder, its endpoint by OPENAI_BASE_URL, or prepare again under another --name",
    )
