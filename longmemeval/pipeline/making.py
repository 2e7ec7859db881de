"""Making many fixtures: haystacks into tasks, tasks over workers, each finished piece into the journal."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

import numpy as np

from longmemeval.arrays import Vectors
from longmemeval.embedding.cache import CachedEmbedder
from longmemeval.errors import HarnessError
from longmemeval.pipeline.build import (
    EMBEDDINGS,
    Embedded,
    Failure,
    FixtureTask,
    PrepareRecord,
)
from longmemeval.pipeline.embedded_parts import TextsToEmbed, texts_to_embed
from longmemeval.pipeline.journal import Journal
from longmemeval.pipeline.manifest import now
from longmemeval.pipeline.pool import Outcome, Pool
from longmemeval.pipeline.prepare_plan import Pending, PreparePlan
from longmemeval.pipeline.processes import processes_for
from longmemeval.pipeline.progress import Progress, progress
from longmemeval.pipeline.recipes import KEYS_SHA256, Recipes
from longmemeval.receipts import Receipts
from longmemeval.records import Haystack, Usage
from longmemeval.retrieval.expansion import is_vectors_part, keys_part
from longmemeval.storage.fixture import tidy_fixture

# Bytes of texts and vectors that are embedded in one go, and the most haystacks. Large enough for full calls to a
# server where haystacks are small, small enough for the workers to have something to do soon.
_GROUP_BYTES = 8 * 2**20
_GROUP_HAYSTACKS = 64
# Numbers in a vector, until the first one is there: as many as the largest models give.
_LARGEST_DIMENSION = 4096


class TaskMaker:
    """Turns pending fixtures into tasks; embeds a group of haystacks at a time, each text once.

    Args:
        plan: of the preparation.
        recipes: of the parts that are made now.
        session: the name of the command in the receipts of paid calls.
    """

    def __init__(self, plan: PreparePlan, recipes: Recipes, session: str = "") -> None:
        self.plan = plan
        self.embedder = plan.embedder
        self._recipes = recipes
        self._session = session
        self._dimension = _LARGEST_DIMENSION

    def groups(self, pending: Sequence[Pending]) -> Iterator[list[tuple[Pending, Haystack]]]:
        """The fixtures with their haystacks, as many at a time as are embedded in one go.

        Raises:
            HarnessError: a haystack cannot be read; those before it come first.
        """
        group: list[tuple[Pending, Haystack]] = []
        size = 0
        for one in pending:
            try:
                haystack = self.plan.dataset.haystack(one.haystack_id)
            except HarnessError:
                if group:
                    yield group
                raise
            turns = [turn for session in haystack.sessions for turn in session.turns]
            added = sum(len(turn.content) for turn in turns)
            added += 4 * self._dimension * len(turns) if self.embedder else 0
            if group and (size + added > _GROUP_BYTES or len(group) == _GROUP_HAYSTACKS):
                yield group
                group, size = [], 0
            group.append((one, haystack))
            size += added
        if group:
            yield group

    def tasks(self, group: Sequence[tuple[Pending, Haystack]]) -> tuple[list[FixtureTask], PrepareRecord]:
        """The tasks of one group, vectors included, and what embedding them took."""
        started = time.perf_counter()
        paid = self.embedder.usage if self.embedder else Usage()
        receipts = Receipts(self._session)
        if self.embedder:
            self.embedder.receipts = receipts
        wanted = [
            texts_to_embed(one.missing, haystack, one.folder, one.meta, self.plan.wording) for one, haystack in group
        ]
        flat = [text for parts in wanted for part in parts.values() for text in part.texts]
        rows = self._embed(flat)
        tasks, offset = [], 0
        for (one, haystack), parts in zip(group, wanted, strict=True):
            embedded = {}
            for name, part in parts.items():
                vectors = rows[offset : offset + len(part.texts)]
                embedded[name] = Embedded(part.index, part.items, vectors)
                offset += len(part.texts)
            tasks.append(self._task(one, haystack, embedded))
        usage = self.embedder.usage - paid if self.embedder else paid
        return tasks, PrepareRecord(
            "embeddings",
            now(),
            round(time.perf_counter() - started, 3),
            messages=len(flat),
            usage=usage,
            texts={task.haystack.haystack_id: _texts(parts) for task, parts in zip(tasks, wanted, strict=True)},
            cache=EMBEDDINGS,
            receipts=tuple(receipts.numbers),
        )

    def _embed(self, texts: list[str]) -> Vectors:
        if self.embedder is None:
            return np.zeros((0, 1), np.float32)
        # Asking for the dimension may cost a call.
        rows = self.embedder.embed(texts) if texts else np.zeros((0, self.embedder.dimension), np.float32)
        self._dimension = rows.shape[1]
        return rows

    def _task(self, one: Pending, haystack: Haystack, embedded: dict[str, Embedded]) -> FixtureTask:
        there = one.meta.parts if one.meta else {}
        recipes = {name: self._recipes.parts[name] for name in one.missing}
        for name in filter(is_vectors_part, recipes):
            recipes[name] = recipes[name] | {KEYS_SHA256: there[keys_part(name)].sha256}
        return FixtureTask(
            folder=one.folder,
            dataset=self.plan.identity,
            haystack=haystack,
            question_ids=self.plan.question_ids[one.haystack_id],
            recipes=recipes,
            kept={name: info for name, info in there.items() if name not in one.missing},
            updater=self.plan.updater,
            expansions=self.plan.expansions,
            session=self._session,
            embedder_spec=self.embedder.spec if self.embedder else "",
            embedded=embedded,
        )


def _texts(parts: Mapping[str, TextsToEmbed]) -> dict[str, int]:
    """How many texts are embedded for each part."""
    return {name: len(part.texts) for name, part in parts.items()}


def make_all(maker: TaskMaker, pending: Sequence[Pending], journal: Journal[PrepareRecord]) -> list[PrepareRecord]:
    """Make all `pending` fixtures; each is complete, and in the journal, when it is done.

    Args:
        maker: what makes the tasks.
        pending: the fixtures; at least one.
        journal: takes a record of each piece of work.

    Raises:
        HarnessError: a fixture cannot be made or written, or a worker died; those made before are kept.
    """
    options = maker.plan.options
    pool, made = Pool(processes_for(options.jobs, len(pending)), options.backend), list[PrepareRecord]()

    def keep(outcome: Outcome) -> None:
        if isinstance(outcome, Failure):
            raise outcome.error()
        journal.append(outcome)
        made.append(outcome)
        _show(bar, maker.embedder, outcome)

    with progress("prepare", len(pending)) as bar:
        try:
            for group in maker.groups(pending):
                tasks, embedding = maker.tasks(group)
                if embedding.usage.calls:
                    keep(embedding)
                for task in tasks:
                    for outcome in pool.submit(task):
                        keep(outcome)
            for outcome in pool.rest():
                keep(outcome)
        except HarnessError:
            # What the workers have begun is finished first: it may have been paid for.
            for outcome in pool.rest(begun_only=True):
                with suppress(HarnessError):
                    keep(outcome)
            raise
        except BaseException:
            for folder in pool.kill():
                tidy_fixture(folder)
            raise
        finally:
            pool.close()
    return made


def _show(bar: Progress, embedder: CachedEmbedder | None, outcome: PrepareRecord) -> None:
    texts = embedder.hits + embedder.misses if embedder else 0
    note = f"cache hits {embedder.hits / texts:.0%}" if embedder and texts else ""
    bar.advance(int(outcome.work == "fixture"), note=note)
