"""What is to be prepared and by what means, settled before anything is written."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

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
from longmemeval.pipeline.build import EMBEDDINGS, REPLIES, ExpansionConfiguration, UpdaterConfiguration
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
from longmemeval.records import DatasetIdentity, FixtureMeta, Question
from longmemeval.retrieval.expansion import is_expansion_part
from longmemeval.settings import Folders
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


class Pending(Struct, frozen=True):
    """A fixture that is to be made or completed."""

    haystack_id: str
    folder: Path
    meta: FixtureMeta | None
    """What is there already."""
    missing: tuple[str, ...]
    """The parts to make."""


class PreparePlan(Struct, frozen=True):
    """One `prepare`: of which haystacks, into which parts, with what."""

    dataset: Dataset
    identity: DatasetIdentity
    options: PrepareOptions
    root: Path
    """The preparation's folder."""
    cache_dir: Path
    haystack_ids: tuple[str, ...]
    """Those that are selected."""
    question_ids: dict[str, tuple[str, ...]]
    """All questions about each haystack of the data set."""
    recipes: Recipes
    wording: Wording
    embedder: CachedEmbedder | None
    """Set where vectors are needed."""
    updater: UpdaterConfiguration | None
    """Set where a working memory is needed."""
    expansions: ExpansionConfiguration
    account: Account

    @property
    def pays(self) -> bool:
        """Whether something is asked that may cost money."""
        embeds = self.embedder is not None and self.embedder.is_metered
        return embeds or any(not is_offline(model) for model in self._models)

    @property
    def has_priced_model(self) -> bool:
        """Whether a chat model is asked that has a price."""
        return any(is_priced(model) for model in self._models)

    @property
    def _models(self) -> list[str]:
        models = (self.updater.model if self.updater else None, self.expansions.model)
        return [model for model in models if model and model != "rules"]

    def pending(self, recipes: Recipes) -> list[Pending]:
        """The fixtures that lack something of `recipes`.

        Raises:
            FixtureError: the preparation would be mixed, or lose what was paid for.
        """
        folders = {haystack_id: self.root / safe_name(haystack_id) for haystack_id in self.haystack_ids}
        force = self.options.force
        check_unmixed(self.root, self.identity, recipes, {one.name for one in folders.values()} if force else ())
        pending = []
        for haystack_id, folder in folders.items():
            check_link(folder, haystack_id)
            meta = _meta_to_keep(folder, haystack_id, self.identity) if force else meta_of(folder, haystack_id)
            if force:
                check_keeps_working_memory(folder, meta, recipes)
            missing = list(recipes.parts) if force else missing_parts(folder, meta, recipes)
            if missing or meta is None or is_unfinished(folder):
                pending.append(Pending(haystack_id, folder, meta, tuple(missing)))
        return pending


def prepare_plan(
    dataset: Dataset,
    configurations: Sequence[MemoryConfiguration | str],
    selection: Selection,
    options: PrepareOptions,
    where: Folders,
) -> PreparePlan:
    """The plan for `prepare`; arguments as there.

    Raises:
        HarnessError: bad options.
    """
    questions = list(dataset.questions())
    chosen = select(questions, selection, lambda question_id: dataset.gold(question_id).question_type)
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
    return PreparePlan(
        dataset=dataset,
        identity=DatasetIdentity(dataset.name, dataset.sha256),
        options=options,
        root=root,
        cache_dir=where.cache_dir,
        haystack_ids=tuple(dict.fromkeys(question.haystack_id for question in chosen)),
        question_ids=_by_haystack(questions),
        recipes=recipes,
        wording=wording,
        embedder=embedder,
        updater=updater,
        expansions=expansions,
        account=account,
    )


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
