"""What `run`, `retrieval` and `inspect` read: prepared fixtures."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from longmemeval.datasets.base import Dataset
from longmemeval.datasets.catalogue import catalogue, data_file
from longmemeval.errors import FixtureError
from longmemeval.llm.tokens import TOKENS_PART
from longmemeval.memory.configuration import MemoryConfiguration, needs_of
from longmemeval.pipeline.manifest import differences
from longmemeval.pipeline.query_vectors import FixtureEmbedder
from longmemeval.pipeline.recipes import is_made_of_other_keys, recipe_of_all
from longmemeval.pipeline.wording import wording_of
from longmemeval.records import FixtureMeta, Question
from longmemeval.retrieval.dates import DATES_PART
from longmemeval.retrieval.word_counts import WORDS_PART, has_words
from longmemeval.settings import Folders, folders
from longmemeval.shared_cache import SharedCache
from longmemeval.storage.fixture import Fixture, fixture_folder, meta_of

_KEPT_BYTES = 1 << 25
"""Parts of open fixtures, as bytes on disk; in memory they and what is made of them take two or three times that."""
_LEAST_BYTES = 1 << 16
"""What a fixture counts of which next to nothing was read."""

OpenFixtures = SharedCache[Path, Fixture]
"""Fixtures by folder, those used last kept open: a haystack's questions usually stand together."""


def open_fixtures() -> OpenFixtures:
    """None yet. Several memories that read the same fixtures may share it."""
    return OpenFixtures(_KEPT_BYTES, lambda fixture: max(_LEAST_BYTES, fixture.bytes_read))


class PreparedFixtures:
    """The fixtures of one preparation that a configuration reads.

    Args:
        dataset: what they must have been made from.
        preparation: its name.
        where: the folders.
        configuration: decides which parts have to be there.
        opened: fixtures that are open already, and those that are opened now; None: no others share them.
    """

    def __init__(
        self,
        dataset: Dataset,
        preparation: str,
        where: Folders,
        configuration: MemoryConfiguration,
        opened: OpenFixtures | None = None,
    ) -> None:
        self._dataset = dataset
        self._preparation = preparation
        self._where = where
        self._configuration = configuration
        self._needs = needs_of(configuration)
        usual = {"messages": "db", "working-memory": "db", "vectors": "vector"}
        self._parts = sorted({usual.get(need, need) for need in self._needs - {WORDS_PART, TOKENS_PART}})
        self._opened = opened or open_fixtures()
        self._uncounted = self._haystacks = 0

    def open(self, haystack_id: str) -> Fixture:
        """The fixture of one haystack, opened once as long as it is kept.

        Raises:
            FixtureError: not prepared, prepared from other data, or not for this configuration.
        """
        folder = self.folder(haystack_id)
        fixture = self._opened.get(folder, lambda: self._read(folder, haystack_id))
        try:
            self._check(fixture)
        except FixtureError:
            # Whoever follows the advice and asks again gets what is there then.
            self._opened.drop(folder)
            raise
        return fixture

    def folder(self, haystack_id: str) -> Path:
        """Where the fixture of one haystack is."""
        return fixture_folder(self._where.prepared_dir, self._dataset.name, self._preparation, haystack_id)

    def _check(self, fixture: Fixture) -> None:
        """Refuse what was made from other data or not for this configuration."""
        folder, made_from = fixture.path, fixture.meta.dataset
        if made_from.sha256 != self._dataset.sha256:
            raise FixtureError(
                f"The preparation was made from other data: '{made_from.name}' with sha256 {made_from.sha256[:12]}…, "
                f"asked is '{self._dataset.name}' with {self._dataset.sha256[:12]}…",
                where=str(folder),
                fix="Prepare this data set with --force, or under another --name and run with --prepared NAME",
            )
        if lacking := self._lacking(fixture.meta):
            raise FixtureError(lacking, where=str(folder), fix=f"Run `{self._prepare_command(fixture)}`")

    def _read(self, folder: Path, haystack_id: str) -> Fixture:
        meta = meta_of(folder, haystack_id)
        if meta is None:
            raise FixtureError(
                f"Haystack '{haystack_id}' is not prepared", where=str(folder), fix=f"Run `{self._prepare_command()}`"
            )
        return Fixture(folder, meta)

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
        words = [self._configuration.preset]
        for sign, keys in (("expansions-", ("expansion", "expansion_level")), (DATES_PART, ("time_range",))):
            for key in keys if any(part.startswith(sign) for part in self._parts) else ():
                words += ["--set", f"{key}={self._configuration.parameters[key]}"]
        if any(part.startswith("expansions-") for part in self._parts):
            words += ["--expansion-model", "MODEL"]
        return self._prepare(*words, *(_embedding_options(there) if there and "vector" in there.meta.parts else ()))

    def _prepare(self, memory: str, *options: str) -> str:
        """The command that prepares for `memory` what this object reads."""
        known = catalogue().get(self._dataset.name)
        by_name = known is not None and data_file(known, self._where.data_dir) == self._dataset.path
        words = ["longmemeval", "prepare", "--dataset", self._dataset.name if by_name else str(self._dataset.path)]
        words += ["--memory", memory, *options]
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

        Counted words are among them where they are there: without them a run counts for itself, see `advice`.

        Raises:
            FixtureError: one is not prepared, or they were not all made by the same recipes.
        """
        found: dict[str, dict[str, str]] = {}
        self._uncounted = 0
        first: dict[str, Any] | None = None
        for haystack_id in dict.fromkeys(question.haystack_id for question in questions):
            fixture = self.open(haystack_id)
            parts = fixture.meta.parts
            read = set(self._parts)
            if WORDS_PART in self._needs:
                counted = has_words(fixture.meta)
                self._uncounted += not counted
                read |= {WORDS_PART} if counted else set()
            found[haystack_id] = {part: parts[part].sha256 for part in sorted(read)}
            recipes = {part: self._recipe_read(part, parts[part].recipe) for part in self._parts}
            first = first or recipes
            if changed := differences(first, recipes):
                raise FixtureError(
                    f"The preparation is mixed: this fixture differs from the first ({'; '.join(changed)})",
                    where=str(fixture.path),
                    fix="Finish the `longmemeval prepare --force` that was interrupted",
                )
        self._haystacks = len(found)
        return found

    @property
    def advice(self) -> str:
        """What would make a run over the haystacks of `hashes` quicker; empty where nothing would."""
        if not self._uncounted:
            return ""
        # Words go with any preparation, so what else it holds need not be named.
        return (
            f"The preparation has no counted words for {self._uncounted:,} of {self._haystacks:,} haystacks; they are "
            f"counted now, and again in every run until `{self._prepare('bm25')}` adds them"
        )

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
