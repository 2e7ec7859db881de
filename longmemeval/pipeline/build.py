"""Making the parts of one fixture. Runs in worker processes; same input, same bytes."""

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from threading import Thread
from typing import Any, Literal

from msgspec import Struct

from longmemeval.arrays import Vectors
from longmemeval.errors import HarnessError
from longmemeval.files import sha256_bytes
from longmemeval.llm.protocol import ChatModel
from longmemeval.llm.registry import ModelOptions
from longmemeval.llm.tokens import TOKENS_PART
from longmemeval.memory.working_memory import (
    WorkingMemoryUpdater,
    build_working_memory,
    chat_updater,
    rules_updater,
)
from longmemeval.pipeline.manifest import now
from longmemeval.pipeline.recipes import HNSW_EF_CONSTRUCTION, HNSW_M, HNSW_SEED
from longmemeval.pipeline.token_part import encode_tokens
from longmemeval.receipts import Receipts
from longmemeval.records import DatasetIdentity, FixtureMeta, Haystack, PartInfo, Usage
from longmemeval.retrieval.dates import DATES_PART, encode_dates
from longmemeval.retrieval.expansion import ExpansionMaker, chat_maker, is_expansion_part, kind_and_level
from longmemeval.retrieval.expansion import encode as encode_expansions
from longmemeval.retrieval.word_counts import WORDS_PART, encode_words
from longmemeval.spending import Account
from longmemeval.storage.fixture import write_fixture
from longmemeval.storage.memory_store import MemoryStore
from longmemeval.storage.messages import haystack_messages, resource_id, thread_ids
from longmemeval.storage.vector_store import VectorItem, VectorStore

EMBEDDINGS, REPLIES = "embeddings.sqlite", "replies.sqlite"
"""The files of the caches."""


class UpdaterConfiguration(Struct, frozen=True):
    """Which working-memory updater; small enough to send to a worker."""

    model: str = "rules"
    """`rules` or a chat model spec."""
    template: str | None = None
    options: ModelOptions = ModelOptions()
    cache_path: Path | None = None
    account: Account | None = None
    """Where its calls are written down, and what limits them."""

    def build(self, receipts: Receipts | None = None) -> WorkingMemoryUpdater:
        """The updater itself.

        Args:
            receipts: where its calls are written down.

        Raises:
            FatalModelError: the model cannot be called.
        """
        if self.model == "rules":
            return rules_updater(self.template)
        return chat_updater(_cached_model(self.model, self, receipts), self.template)


class ExpansionConfiguration(Struct, frozen=True):
    """Who makes key expansions; small enough to send to a worker."""

    model: str | None = None
    """A chat model spec; None where no configuration has expansions."""
    options: ModelOptions = ModelOptions()
    cache_path: Path | None = None
    account: Account | None = None
    """Where its calls are written down, and what limits them."""

    def maker(self, part: str, receipts: Receipts | None = None) -> ExpansionMaker:
        """The maker of the expansions of one part.

        Args:
            part: its name.
            receipts: where its calls are written down.

        Raises:
            HarnessError: no model is named.
            FatalModelError: the model cannot be called.
        """
        kind, level = kind_and_level(part)
        if self.model is None or self.model == "rules":
            raise HarnessError(
                f"expansion={kind} needs a chat model that makes the keys. Keys by rules were removed: on LoCoMo none "
                "raised recall beyond noise, and keyphrases lowered recall@5 of hybrid by up to 3.3 points",
                fix="Name a chat model: --expansion-model MODEL (in a sweep's file `expansion_model` under `prepare`)",
            )
        return chat_maker(_cached_model(self.model, self, receipts), kind, level)


def _cached_model(
    spec: str, asked: UpdaterConfiguration | ExpansionConfiguration, receipts: Receipts | None
) -> ChatModel:
    """The model, its replies kept: what was paid for once is not asked again when a preparation goes on."""
    from longmemeval.llm.cache import CachedChatModel
    from longmemeval.llm.registry import load_chat_model

    model = load_chat_model(spec, asked.options, account=asked.account)
    if asked.cache_path is None:
        return model
    return CachedChatModel(model, asked.cache_path, endpoint=asked.options.api_base or "", receipts=receipts)


class Embedded(Struct, frozen=True):
    """The content of a part that holds vectors."""

    index: str
    """The name of the index."""
    items: list[VectorItem]
    vectors: Vectors
    """One row per item."""


class FixtureTask(Struct, frozen=True):
    """One fixture to make or to complete."""

    folder: Path
    dataset: DatasetIdentity
    haystack: Haystack
    question_ids: tuple[str, ...]
    recipes: dict[str, dict[str, Any]]
    """The parts to make, by name."""
    kept: dict[str, PartInfo]
    """Parts that are there already and stay."""
    updater: UpdaterConfiguration | None
    """Set when `db` is to hold a working memory."""
    expansions: ExpansionConfiguration = ExpansionConfiguration()
    session: str = ""
    """The command on whose behalf models are asked; empty where that costs nothing."""
    embedder_spec: str = ""
    embedded: dict[str, Embedded] = {}
    """What the parts that hold vectors are made of, by name."""

    @property
    def size(self) -> int:
        """Bytes of its texts and vectors, about."""
        vectors = sum(embedded.vectors.nbytes for embedded in self.embedded.values())
        return vectors + sum(len(turn.content) for session in self.haystack.sessions for turn in session.turns)


class PrepareRecord(Struct, frozen=True, omit_defaults=True):
    """One line of `prepare.jsonl`: a piece of work that was finished, and what it took.

    `usage` of all lines together is what the preparation cost. "started" is a command that may have to pay;
    "unfinished" is what was paid for work that a command did not finish: the results are in the caches.
    """

    work: Literal["started", "fixture", "embeddings", "unfinished"]
    finished_at: str
    seconds: float = 0.0
    haystack_id: str = ""
    parts: tuple[str, ...] = ()
    messages: int = 0
    usage: Usage = Usage()
    notes: tuple[str, ...] = ()
    session: str = ""
    """Of "started": the name under which receipts of paid calls are in the caches until they are in this journal."""
    cache: str = ""
    """The cache that has, or had, `receipts`."""
    receipts: tuple[int, ...] = ()
    """The receipts whose sum is in `usage`."""
    usage_by_part: dict[str, Usage] = {}
    """Of a fixture: `usage` by the part it was for; the working memory is in `db`."""
    part_sha256: dict[str, str] = {}
    """Of a fixture: hashes of the parts' bytes, by which runs know what they read."""
    texts: dict[str, dict[str, int]] = {}
    """Of embeddings: how many texts there were, by haystack and part."""


class Failure(Struct, frozen=True):
    """An error on its way out of a worker process: ours take keywords, which unpickling does not give back."""

    kind: type[HarnessError]
    what: str
    where: str
    fix: str

    def error(self) -> HarnessError:
        """The error again."""
        return self.kind(self.what, where=self.where, fix=self.fix)


def attempt_fixture(task: FixtureTask) -> PrepareRecord | Failure:
    """`build_fixture` for a worker: an error is returned, not raised."""
    try:
        return build_fixture(task)
    except HarnessError as error:
        return Failure(type(error), error.what, error.where, error.fix)


def follow(parent: int) -> None:
    """Make this worker process leave interrupts to `parent`, and end with it: no orphan writes beside a new command."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.1)
        os._exit(1)

    Thread(target=watch, daemon=True).start()


def build_fixture(task: FixtureTask) -> PrepareRecord:
    """Make the parts of `task` and write them; the fixture is complete when this returns."""
    started = time.perf_counter()
    messages = haystack_messages(task.haystack)
    parts: dict[str, bytes] = {}
    usage: dict[str, Usage] = {}
    notes: tuple[str, ...] = ()
    receipts = Receipts(task.session) if task.session else None
    if "db" in task.recipes:
        store = MemoryStore.from_haystack(task.haystack)
        if task.updater is not None:
            update = build_working_memory(task.haystack, task.updater.build(receipts))
            store.working_memory = update.document
            usage["db"], notes = update.usage, update.notes
        parts["db"] = store.persist()
    for name, embedded in task.embedded.items():
        parts[name] = _vector_part(embedded, task.recipes[name], task.embedder_spec)
    if DATES_PART in task.recipes:
        parts[DATES_PART] = encode_dates(messages)
    if WORDS_PART in task.recipes:
        parts[WORDS_PART] = encode_words(messages)
    if TOKENS_PART in task.recipes:
        parts[TOKENS_PART] = encode_tokens(messages)
    for name in (name for name in task.recipes if is_expansion_part(name)):
        expanded = task.expansions.maker(name, receipts).make(MemoryStore.from_haystack(task.haystack))
        parts[name] = encode_expansions(*kind_and_level(name), expanded.items)
        usage[name], notes = expanded.usage, (*notes, *expanded.notes)
    made = {name: PartInfo(sha256_bytes(data), task.recipes[name]) for name, data in parts.items()}
    meta = FixtureMeta(
        format=1,
        dataset=task.dataset,
        haystack_id=task.haystack.haystack_id,
        question_ids=task.question_ids,
        resource_id=resource_id(task.haystack.haystack_id),
        thread_ids=tuple(thread_ids(task.haystack)),
        parts={**task.kept, **made},
        prepared_at=now(),
    )
    write_fixture(task.folder, meta, parts)
    return PrepareRecord(
        "fixture",
        now(),
        round(time.perf_counter() - started, 3),
        haystack_id=task.haystack.haystack_id,
        parts=tuple(parts),
        messages=len(messages),
        usage=sum(usage.values(), Usage()),
        notes=notes,
        cache=REPLIES if receipts and receipts.numbers else "",
        receipts=tuple(receipts.numbers) if receipts else (),
        usage_by_part={name: one for name, one in usage.items() if one.calls},
        part_sha256={name: info.sha256 for name, info in made.items()},
    )


def _vector_part(embedded: Embedded, recipe: Mapping[str, Any], embedder_spec: str) -> bytes:
    store = VectorStore()
    store.create(
        embedded.index,
        embedded.vectors.shape[1],
        engine="hnswlib" if recipe["index"] == "hnsw" else "exact",
        m=HNSW_M,
        ef_construction=HNSW_EF_CONSTRUCTION,
        seed=HNSW_SEED,
    )
    store.upsert(embedded.index, embedded.items, embedded.vectors)
    return store.persist(embedded.index, embedder_spec, recipe["embedder"])
