"""Making many fixtures: haystacks into tasks, tasks over workers, each finished piece into the journal."""

import os
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from pathlib import Path
from typing import Literal

import numpy as np
from msgspec import Struct

from longmemeval.arrays import Vectors
from longmemeval.datasets.base import Dataset
from longmemeval.embedding.cache import CachedEmbedder
from longmemeval.errors import HarnessError
from longmemeval.pipeline.build import (
    Embedded,
    ExpansionConfiguration,
    Failure,
    FixtureTask,
    PrepareRecord,
    UpdaterConfiguration,
    attempt_fixture,
    follow,
)
from longmemeval.pipeline.embedded_parts import texts_to_embed
from longmemeval.pipeline.journal import Journal
from longmemeval.pipeline.manifest import now
from longmemeval.pipeline.progress import Progress, progress
from longmemeval.pipeline.recipes import KEYS_SHA256, Recipes
from longmemeval.pipeline.wording import Wording
from longmemeval.records import DatasetIdentity, FixtureMeta, Haystack, Usage
from longmemeval.retrieval.expansion import is_vectors_part, keys_part

Backend = Literal["loky", "threading"]

# Haystacks whose texts and vectors are in memory at one time, per worker.
_WINDOW = 8
# Below this many fixtures, starting worker processes takes longer than the work.
_PARALLEL_FROM = 64


class Pending(Struct, frozen=True):
    """A fixture that is to be made or completed."""

    haystack_id: str
    folder: Path
    meta: FixtureMeta | None
    """What is there already."""
    missing: tuple[str, ...]
    """The parts to make."""


class TaskMaker:
    """Turns pending fixtures into tasks; embeds a window of haystacks at a time, each text once."""

    def __init__(
        self,
        dataset: Dataset,
        identity: DatasetIdentity,
        question_ids: dict[str, tuple[str, ...]],
        recipes: Recipes,
        embedder: CachedEmbedder | None,
        wording: Wording,
        updater: UpdaterConfiguration | None,
        expansions: ExpansionConfiguration,
    ) -> None:
        self._dataset = dataset
        self._identity = identity
        self._question_ids = question_ids
        self._recipes = recipes
        self.embedder = embedder
        self._wording = wording
        self._updater = updater
        self._expansions = expansions

    def tasks(self, window: Sequence[Pending]) -> tuple[list[FixtureTask], PrepareRecord]:
        """The tasks of one window, vectors included, and what embedding them took."""
        started = time.perf_counter()
        paid = self.embedder.usage if self.embedder else Usage()
        haystacks = [self._dataset.haystack(one.haystack_id) for one in window]
        wanted = [
            texts_to_embed(one.missing, haystack, one.folder, one.meta, self._wording)
            for one, haystack in zip(window, haystacks, strict=True)
        ]
        flat = [text for parts in wanted for part in parts.values() for text in part.texts]
        rows = self._embed(flat)
        tasks, offset = [], 0
        for one, haystack, parts in zip(window, haystacks, wanted, strict=True):
            embedded = {}
            for name, part in parts.items():
                vectors = rows[offset : offset + len(part.texts)]
                embedded[name] = Embedded(part.index, part.items, vectors)
                offset += len(part.texts)
            tasks.append(self._task(one, haystack, embedded))
        usage = self.embedder.usage - paid if self.embedder else paid
        seconds = round(time.perf_counter() - started, 3)
        return tasks, PrepareRecord("embeddings", now(), seconds=seconds, messages=len(flat), usage=usage)

    def _embed(self, texts: list[str]) -> Vectors:
        if self.embedder is None:
            return np.zeros((0, 1), np.float32)
        # Asking for the dimension may cost a call.
        return self.embedder.embed(texts) if texts else np.zeros((0, self.embedder.dimension), np.float32)

    def _task(self, one: Pending, haystack: Haystack, embedded: dict[str, Embedded]) -> FixtureTask:
        there = one.meta.parts if one.meta else {}
        recipes = {name: self._recipes.parts[name] for name in one.missing}
        for name in filter(is_vectors_part, recipes):
            recipes[name] = recipes[name] | {KEYS_SHA256: there[keys_part(name)].sha256}
        return FixtureTask(
            folder=one.folder,
            dataset=self._identity,
            haystack=haystack,
            question_ids=self._question_ids[one.haystack_id],
            recipes=recipes,
            kept={name: info for name, info in there.items() if name not in one.missing},
            updater=self._updater,
            expansions=self._expansions,
            embedder_spec=self.embedder.spec if self.embedder else "",
            embedded=embedded,
        )


def make_all(
    maker: TaskMaker, pending: Sequence[Pending], jobs: int | None, backend: Backend, journal: Journal[PrepareRecord]
) -> list[PrepareRecord]:
    """Make all `pending` fixtures; each is complete, and in the journal, when it is done.

    Args:
        maker: what makes the tasks.
        pending: the fixtures; at least one.
        jobs: workers; None: one per core when there is enough work, else none.
        backend: processes or threads.
        journal: takes a record of each piece of work.

    Raises:
        HarnessError: a fixture cannot be made or written, or a worker died; those made before are kept.
    """
    from joblib import Parallel, cpu_count, delayed

    jobs = jobs or (cpu_count() if len(pending) >= _PARALLEL_FROM else 1)
    made: list[PrepareRecord] = []

    def keep(record: PrepareRecord) -> None:
        journal.append(record)
        made.append(record)

    try:
        with (
            progress("prepare", len(pending)) as bar,
            warnings.catch_warnings(),
            Parallel(
                n_jobs=jobs,
                backend=backend,
                return_as="generator_unordered",
                initializer=follow,
                initargs=(os.getpid(),),
            ) as workers,
        ):
            # Said when an error ends the work; the error says enough.
            warnings.filterwarnings("ignore", message=".*tasks which were still being processed")
            for window in _windows(pending, _WINDOW * jobs):
                tasks, embedding = maker.tasks(window)
                if embedding.usage.calls:
                    keep(embedding)
                for outcome in workers(delayed(attempt_fixture)(task) for task in tasks):
                    if isinstance(outcome, Failure):
                        raise outcome.error()
                    keep(outcome)
                    _show(bar, maker.embedder)
    except BrokenProcessPool as error:
        raise HarnessError(
            "A worker process died (out of memory, perhaps)",
            fix="Give the same command again with fewer --jobs: what was finished is kept",
        ) from error
    return made


def _show(bar: Progress, embedder: CachedEmbedder | None) -> None:
    texts = embedder.hits + embedder.misses if embedder else 0
    bar.advance(note=f"cache hits {embedder.hits / texts:.0%}" if embedder and texts else "")


def _windows(pending: Sequence[Pending], size: int) -> Iterator[list[Pending]]:
    remaining = iter(pending)
    while window := list(islice(remaining, size)):
        yield window
