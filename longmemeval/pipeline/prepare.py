"""`prepare`: every selected haystack becomes a fixture, once."""

import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct, structs

from longmemeval.datasets.base import Dataset
from longmemeval.embedding.cache import CachedEmbedder
from longmemeval.embedding.registry import load_embedder
from longmemeval.errors import FixtureError
from longmemeval.files import safe_name
from longmemeval.llm.registry import ModelOptions, is_offline, is_priced
from longmemeval.memory.configuration import MemoryConfiguration, as_configuration, needs_of
from longmemeval.memory.protocol import Need
from longmemeval.memory.working_memory import load_template
from longmemeval.pipeline.accounts import preparation_account
from longmemeval.pipeline.build import EMBEDDINGS, REPLIES, ExpansionConfiguration, PrepareRecord, UpdaterConfiguration
from longmemeval.pipeline.estimate import estimate
from longmemeval.pipeline.journal import Journal
from longmemeval.pipeline.making import Pending, TaskMaker, make_all
from longmemeval.pipeline.paid_calls import paid_session, settle
from longmemeval.pipeline.pool import Backend
from longmemeval.pipeline.recipes import (
    IndexEngine,
    Recipes,
    check_keeps_working_memory,
    check_unmixed,
    is_unfinished,
    missing_parts,
    recipes_for,
)
from longmemeval.pipeline.selection import Selection, select
from longmemeval.pipeline.wording import EmbeddedText, Wording
from longmemeval.records import DatasetIdentity, FixtureMeta, Question, Usage
from longmemeval.retrieval.expansion import is_expansion_part
from longmemeval.settings import Folders, folders
from longmemeval.spending import Account, SpendingLimit
from longmemeval.storage.fixture import check_link, meta_of

DEFAULT_EMBEDDER = "hashing"


class PrepareOptions(Struct, frozen=True):
    """Everything about `prepare` but what to prepare."""

    embedder: str = DEFAULT_EMBEDDER
    embedded_text: EmbeddedText = "content"
    """What of a message is embedded; see `Wording`."""
    query_prefix: str = ""
    """What the embedding model wants before a question; runs take it from the fixtures."""
    document_prefix: str = ""
    """What it wants before a stored text."""
    index: IndexEngine = "hnsw"
    name: str = "default"
    """Name of the preparation."""
    working_memory_model: str = "rules"
    working_memory_template: Path | None = None
    expansion_model: str | None = None
    """The chat model that makes the key expansions that a configuration asks for."""
    api_base: str | None = None
    give_up_after_s: float = 120.0
    """Seconds of failures without a success after which a chat model's or embedder's endpoint counts as dead."""
    spending: SpendingLimit | None = None
    """What embeddings and chat models may cost over all starts of this preparation; None: no limit."""
    account_file: Path | None = None
    """Where it is written down what they cost; None: beside the fixtures."""
    jobs: int | None = None
    """Worker processes; None: one per core when there is enough work, else none."""
    backend: Backend = "loky"
    force: bool = False
    """Make the parts again even if they are there."""
    dry_run: bool = False


class PrepareReport(Struct, frozen=True):
    """What `prepare` did, or with `dry_run` would do."""

    preparation: str
    folder: str
    haystacks: int
    parts: tuple[str, ...]
    prepared: int = 0
    """Fixtures made or completed."""
    already: int = 0
    messages: int = 0
    embeddings_computed: int = 0
    embeddings_cached: int = 0
    embeddings_damaged: int = 0
    """Vectors of the cache that did not have their checksum; computed again."""
    usage: Usage = Usage()
    recovered: Usage = Usage()
    """What an earlier command had paid for when it was stopped before it could record it; recorded now."""
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    dry_run: bool = False
    estimate: dict[str, float] = {}
    """With `dry_run`: what it would take, by name; see `estimate`."""


def prepare(
    dataset: Dataset,
    configurations: Sequence[MemoryConfiguration | str],
    *,
    selection: Selection = Selection(),
    options: PrepareOptions = PrepareOptions(),
    where: Folders | None = None,
) -> PrepareReport:
    """Make the fixtures that `configurations` need; add what is missing, skip what is there.

    Args:
        dataset: where the haystacks come from.
        configurations: the memory configurations that will be run, or names of presets.
        selection: which questions; their haystacks are prepared.
        options: embedder, index, workers and the like.
        where: the folders; None: from the environment.

    Raises:
        HarnessError: bad options, or a preparation made from other data or by another recipe.
        SpendingLimitError, EndpointDownError: the rest has to wait; what was finished is kept.
    """
    started = time.perf_counter()
    where = where or folders()
    questions = list(dataset.questions())
    chosen = select(questions, selection, lambda question_id: dataset.gold(question_id).question_type)
    haystack_ids = list(dict.fromkeys(question.haystack_id for question in chosen))
    needs = frozenset[Need]().union(*(needs_of(as_configuration(one)) for one in configurations))
    root = where.prepared_dir / safe_name(dataset.name) / safe_name(options.name)
    account = preparation_account(root, options.spending, options.account_file)
    embedder = _embedder(options, where, account) if "vectors" in needs else None
    updater = _updater(options, where, account) if "working-memory" in needs else None
    expansions = _expansions(options, where, account)
    wording = Wording(options.embedded_text, options.query_prefix, options.document_prefix)
    wording.check()
    recipes = recipes_for(
        needs,
        working_memory=updater.build().recipe if updater else None,
        embedder=embedder.fingerprint if embedder else None,
        index=options.index,
        wording=wording,
        expansions={part: expansions.maker(part).recipe for part in sorted(filter(is_expansion_part, needs))},
    )
    identity = DatasetIdentity(dataset.name, dataset.sha256)
    report = PrepareReport(
        preparation=options.name, folder=str(root), haystacks=len(haystack_ids), parts=tuple(recipes.parts)
    )
    if options.dry_run:
        pending = _pending(root, haystack_ids, identity, recipes, force=options.force)
        figures = estimate(((dataset.haystack(one.haystack_id), one) for one in pending), embedder, wording, updater)
        return structs.replace(_counted(report, len(pending)), dry_run=True, estimate=figures)
    # Whoever holds the journal owns the preparation: what stands there is looked at only then.
    with Journal(root / "prepare.jsonl", PrepareRecord) as journal:
        recovered = settle(journal, where.cache_dir)
        if any(model and is_priced(model) for model in (options.working_memory_model, options.expansion_model)):
            account.open()  # Before there are workers, which share the session.
        question_ids = _by_haystack(questions)
        any_pending = bool(_pending(root, haystack_ids, identity, recipes, force=options.force))
        made: list[PrepareRecord] = []
        pays = _pays(embedder, updater, expansions) and any_pending
        with paid_session(journal, where.cache_dir, pays=pays) as session:
            for stage in recipes.stages():
                pending = _pending(root, haystack_ids, identity, stage, force=options.force)
                maker = TaskMaker(
                    dataset, identity, question_ids, stage, embedder, wording, updater, expansions, session
                )
                made += make_all(maker, pending, options.jobs, options.backend, journal) if pending else []
    messages = {one.haystack_id: one.messages for one in made if one.work == "fixture"}
    return structs.replace(
        _counted(report, len(messages)),
        messages=sum(messages.values()),
        embeddings_computed=embedder.misses if embedder else 0,
        embeddings_cached=embedder.hits if embedder else 0,
        embeddings_damaged=embedder.damaged if embedder else 0,
        usage=sum((one.usage for one in made), Usage()),
        recovered=recovered,
        notes=tuple(f"{one.haystack_id}: {note}" for one in made for note in one.notes),
        seconds=round(time.perf_counter() - started, 3),
    )


def _pays(
    embedder: CachedEmbedder | None, updater: UpdaterConfiguration | None, expansions: ExpansionConfiguration
) -> bool:
    """Whether something is asked that may cost money."""
    models = {updater.model if updater else None, expansions.model} - {None, "rules"}
    return (embedder is not None and embedder.is_metered) or any(model and not is_offline(model) for model in models)


def _counted(report: PrepareReport, prepared: int) -> PrepareReport:
    return structs.replace(report, prepared=prepared, already=report.haystacks - prepared)


def _embedder(options: PrepareOptions, where: Folders, account: Account) -> CachedEmbedder:
    return load_embedder(
        options.embedder,
        cache_path=_cache(EMBEDDINGS, options, where),
        api_base=options.api_base,
        account=account,
        give_up_after_s=options.give_up_after_s,
    )


def _model_options(options: PrepareOptions) -> ModelOptions:
    return ModelOptions(api_base=options.api_base, give_up_after_s=options.give_up_after_s)


def _updater(options: PrepareOptions, where: Folders, account: Account) -> UpdaterConfiguration:
    return UpdaterConfiguration(
        model=options.working_memory_model,
        template=load_template(options.working_memory_template),
        options=_model_options(options),
        cache_path=_cache(REPLIES, options, where),
        account=account,
    )


def _expansions(options: PrepareOptions, where: Folders, account: Account) -> ExpansionConfiguration:
    return ExpansionConfiguration(
        model=options.expansion_model,
        options=_model_options(options),
        cache_path=_cache(REPLIES, options, where),
        account=account,
    )


def _cache(file: str, options: PrepareOptions, where: Folders) -> Path | None:
    """Where the cache is; a dry run does not make one."""
    path = where.cache_dir / file
    return path if path.exists() or not options.dry_run else None


def _pending(
    root: Path, haystack_ids: Sequence[str], dataset: DatasetIdentity, recipes: Recipes, *, force: bool
) -> list[Pending]:
    """What is to be made in the preparation `root`; refuses what would leave it mixed."""
    folders = {haystack_id: root / safe_name(haystack_id) for haystack_id in haystack_ids}
    made_again = {folder.name for folder in folders.values()} if force else frozenset[str]()
    check_unmixed(root, dataset, recipes, made_again)
    pending = []
    for haystack_id, folder in folders.items():
        check_link(folder, haystack_id)
        meta = _meta_to_keep(folder, haystack_id, dataset) if force else meta_of(folder, haystack_id)
        if force:
            check_keeps_working_memory(folder, meta, recipes)
        missing = list(recipes.parts) if force else missing_parts(folder, meta, recipes)
        if missing or meta is None or is_unfinished(folder):
            pending.append(Pending(haystack_id, folder, meta, tuple(missing)))
    return pending


def _meta_to_keep(folder: Path, haystack_id: str, dataset: DatasetIdentity) -> FixtureMeta | None:
    """With `--force`: the old fixture, if its other parts can stay; one that cannot be read is made anew."""
    try:
        meta = meta_of(folder, haystack_id)
    except FixtureError:
        return None
    return meta if meta and meta.dataset.sha256 == dataset.sha256 else None


def _by_haystack(questions: Iterable[Question]) -> dict[str, tuple[str, ...]]:
    grouped: dict[str, list[str]] = defaultdict(list)
    for question in questions:
        grouped[question.haystack_id].append(question.question_id)
    return {haystack_id: tuple(ids) for haystack_id, ids in grouped.items()}
