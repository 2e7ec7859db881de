"""Answer the selected questions from prepared fixtures under one memory configuration, for `run`."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

from msgspec import structs

from longmemeval.benchmarks.spec import OfficialAnswering
from longmemeval.benchmarks.specs import benchmark_of
from longmemeval.core.journal import StoredJournal, now
from longmemeval.core.remote.places import as_given
from longmemeval.core.secrets.redaction import public_url
from longmemeval.dataset import Dataset
from longmemeval.errors import HarnessError
from longmemeval.llm.access import ModelAccess
from longmemeval.llm.costs.spending import SPENDING, Account
from longmemeval.llm.http.endpoints import endpoint
from longmemeval.llm.limit import LimitedChatModel
from longmemeval.llm.model_calls import CALLS
from longmemeval.llm.registry import load_chat_model
from longmemeval.llm.tokens import context_window, token_counter
from longmemeval.memory.configuration import MemoryConfiguration, as_configuration, build_memory, definition_of
from longmemeval.memory.gold import gold_for
from longmemeval.memory.protocol import MemorySystem, MemoryTools
from longmemeval.pipeline.batches.batches import Batches
from longmemeval.pipeline.batches.options import BatchOptions
from longmemeval.pipeline.batches.state import FOLDER as BATCHES
from longmemeval.pipeline.prepare.access import PreparedFixtures
from longmemeval.pipeline.prepare.query_vectors import names_in, query_vectors
from longmemeval.pipeline.run.answering import Answering, RunReport
from longmemeval.pipeline.run.options import AnsweringOptions
from longmemeval.pipeline.run.planning import planning_note
from longmemeval.pipeline.run.question_analysis import QueryModel, question_analyses
from longmemeval.reading.configuration import ReadingConfiguration, check_fitting, reading_configuration
from longmemeval.reading.reader import Reader
from longmemeval.reading.templates import is_shipped, template_of
from longmemeval.records import Answer, Question
from longmemeval.results.lifecycle import open_run
from longmemeval.results.lines import ANSWERS
from longmemeval.results.manifest import (
    FORMAT,
    RunManifest,
    check_run_id,
    dataset_record,
    default_run_id,
    environment,
    run_folder,
)
from longmemeval.results.selection import Selection, select
from longmemeval.results.settings import AnswerSettings, ModelSettings, memory_settings, reading_settings
from longmemeval.results.shards import sharded_id
from longmemeval.settings import Folders
from longmemeval.storage.remote_fixtures import be_patient

_SET_BY_COMPOSE = tuple(map(attrgetter, ("method", "options.history_format", "template", "note_template")))


class RunOptions(AnsweringOptions, frozen=True):
    """Options of `run`, apart from the data, the memory and the model."""

    reading: ReadingConfiguration | None = None
    """The reading; None: method `direct`, or an official protocol's own, history format `nl`, shipped template."""
    protocol_texts: Any = None
    """The texts of the official protocol and its prompts, as its `load_texts` reads them; None: our own."""
    seed: int = 0
    repeat: int = 1
    sweep: str | None = None
    """The name of the sweep; like `repeat`, it is recorded only and has no effect."""
    question_concurrency: int | None = None
    """Calls in flight that analyse questions."""
    memory_concurrency: int | None = None
    """Calls in flight that an external memory system makes while it recalls."""
    batch: BatchOptions | None = None
    """Ask through the provider's batch endpoints; None: directly."""
    must_exist: bool = False
    """Set by `--resume` and `--extend`: only an existing run may be continued."""
    extend: bool = False
    """True if the run continues with more questions than it was started with; they include those."""
    check: Callable[[RunManifest], None] | None = None
    """Receives the planned manifest before anything is written, and raises if it must not be used."""
    tell: Callable[[str], None] | None = None
    """Receives notes before the first call, such as the smallest difference that these questions can show."""


def run(
    dataset: Dataset,
    memory: MemoryConfiguration | str,
    model_spec: str,
    *,
    selection: Selection = Selection(),
    options: RunOptions = RunOptions(),
    folders: Folders | None = None,
) -> RunReport:
    """Answer the selected questions; answers are appended one by one to `results/<run_id>/answers.jsonl`.

    An existing run is continued if no decisive setting has changed: answered questions are not asked again.

    Args:
        memory: a configuration, or the name of a preset.
        model_spec: the answering model.
        selection: the questions to answer.
        options: reading, preparation, run id and more.
        folders: the folders; None: from the environment.

    Raises:
        HarnessError: bad input, missing or damaged fixtures, or a run id whose settings differ.
        FatalModelError: no call can succeed. Earlier answers are kept.
    """
    folders = folders or Folders()
    be_patient(folders.prepared_dir, options.model_options.give_up_after_s)
    configuration = as_configuration(memory)
    chosen, protocol = asked_of(dataset, configuration, selection, options)
    base = options.run_id or default_run_id(folders.results_dir, dataset.name, configuration.name, model_spec)
    run_id = sharded_id(base, selection.shard)
    folder = folders.results_dir / check_run_id(run_id)
    if options.must_exist:
        run_folder(folders.results_dir, run_id)
    planned = _PlannedRun(dataset, chosen, protocol, configuration, model_spec, options, folders, folder)
    manifest = planned.manifest(run_id, selection)
    if options.check:
        options.check(manifest)
    memory_system, reader = planned.memory, planned.reader
    with open_run(StoredJournal(folder / ANSWERS, Answer), manifest, extend=options.extend) as opened:
        answering = Answering(
            run=opened,
            fixtures=planned.fixtures,
            memory=memory_system,
            analyses=planned.analyses,
            batches=planned.batches,
            vectors=planned.vectors,
            names_in=names_in(dataset),
            reader=reader,
            counter=planned.counter,
            concurrency=options.concurrency,
            save_prompts=options.save_prompts,
        )
        for note in filter(None, (planned.fixtures.advice, planning_note(dataset, chosen, selection))):
            if options.tell:
                options.tell(note)
        return answering.execute(chosen)


class _PlannedRun:
    """Everything that answers the questions of one run, checked before the first is asked.

    Args:
        questions: the questions as they are put.
        protocol: the official protocol's record, if it is followed.
        folder: folder of the run.

    Raises:
        HarnessError: bad input, missing or damaged fixtures.
        FatalModelError: a model cannot be called.
    """

    def __init__(
        self,
        dataset: Dataset,
        questions: Sequence[Question],
        protocol: Mapping[str, Any] | None,
        configuration: MemoryConfiguration,
        model_spec: str,
        options: RunOptions,
        folders: Folders,
        folder: Path,
    ) -> None:
        self._dataset = dataset
        self._questions = questions
        self._configuration = configuration
        self._spec = model_spec
        self._options = options
        self._folder = folder
        account = Account(folder / SPENDING, options.spending)
        self.batches = self._batches("answers", model_spec, account) if options.batch else None
        self._model = self.batches or load_chat_model(model_spec, options.model_options, account=account)
        self._lent = ModelAccess(
            embedder=options.embedder or "",
            options=options.model_options,
            cache_dir=folders.cache_dir,
            account=account,
            concurrency=options.memory_concurrency or options.concurrency,
            calls_file=folder / CALLS,
        )
        self._protocol = protocol
        self._reading = reading_of(dataset, configuration, options, model_spec, protocol, folders)
        self.counter = token_counter(model_spec)
        self.fixtures = PreparedFixtures(dataset, options.prepared, folders, configuration)
        self._embedder = self.fixtures.embedder_of(questions)
        asked_at_once = options.question_concurrency or options.concurrency
        query_model = QueryModel(options.query_model or model_spec, options.model_options, asked_at_once)
        batched = partial(self._batches, "questions", account=account) if options.batch else None
        self.analyses = question_analyses(configuration, query_model, folders, account, batched)
        self.vectors = query_vectors(
            questions,
            self._embedder,
            options.embedder,
            options.model_options,
            folders,
            account=account,
        )

    def manifest(self, run_id: str, selection: Selection) -> RunManifest:
        """Return the manifest that the run begins with."""
        marks = self.fixtures.marks(self._questions)
        first = next((question.haystack_id for question in self._questions), "")
        return RunManifest(
            format=FORMAT,
            run_id=run_id,
            status="running",
            dataset=dataset_record(self._dataset),
            settings=structs.replace(
                run_settings(self._configuration, self._spec, self._reading, self._options, self._protocol),
                embedder=self._embedder,
                token_counter=self.counter.name,
                save_prompts=self._options.save_prompts,
                batch=bool(self._options.batch),
                query_model=self.analyses.settings if self.analyses else None,
                not_reproducible=tuple(marks),
                parts=marks,
            ),
            question_ids=tuple(question.question_id for question in self._questions),
            fixtures=self.fixtures.hashes(self._questions),
            environment=environment(),
            started_at=now(),
            selection=selection,
            templates=self._own_templates(),
            prepare=as_given(self.fixtures.prepare_command(first, places=False)),
            sweep=self._options.sweep,
        )

    def _own_templates(self) -> dict[str, str]:
        """Return the texts of the user's prompts, by hash; the protocol's are in its record."""
        reading, texts = self._reading, self._options.protocol_texts
        prompts = () if texts else (reading.template, reading.options_template)
        own = [template for template in (*prompts, reading.note_template) if template and not is_shipped(template)]
        return {template.sha256: template.text for template in own}

    @property
    def memory(self) -> MemorySystem:
        """The memory system."""
        tools = MemoryTools(
            embed_query=self.vectors,
            gold=gold_for(self._configuration, self._dataset),
            count_tokens=self.counter.count,
            analyse=self.analyses,
            models=self._lent,
        )
        return build_memory(self._configuration, tools)

    @property
    def reader(self) -> Reader:
        """The reader, which calls the model."""
        model = self.batches or LimitedChatModel(self._model, self._options.concurrency)
        return Reader(self._reading, model, self.counter)

    def _batches(self, stage: str, spec: str, account: Account | None) -> Batches:
        """Return the batches of one stage of this run."""
        options = self._options
        return Batches(
            self._folder / BATCHES / stage,
            spec,
            options.model_options,
            account,
            options.batch or BatchOptions(),
            lambda line: options.tell(f"{line}.") if options.tell else None,
        )


def _official(dataset: Dataset, options: RunOptions) -> OfficialAnswering | None:
    """Return the official protocol; None unless the options choose it."""
    if options.protocol != "official":
        return None
    benchmark = benchmark_of(dataset)
    if benchmark.answering is None:
        raise HarnessError(
            f"{benchmark.title} has no official protocol of answering",
            where=f"data set '{dataset.name}'",
            fix="Leave out --protocol",
        )
    return benchmark.answering


def asked_of(
    dataset: Dataset, configuration: MemoryConfiguration, selection: Selection, options: RunOptions
) -> tuple[list[Question], Mapping[str, Any] | None]:
    """Return the questions as they are asked, and the official protocol's record, if it is followed."""
    chosen = select(list(dataset.questions()), selection, dataset.question_type)
    official = _official(dataset, options)
    if official is None:
        return chosen, None
    record = official.record(options.seed, options.protocol_texts, definition_of(configuration).recalls_everything)
    return list(official.questions(dataset, chosen, record)), record


def reading_of(
    dataset: Dataset,
    configuration: MemoryConfiguration,
    options: RunOptions,
    model_spec: str,
    protocol: Mapping[str, Any] | None,
    folders: Folders,
) -> ReadingConfiguration:
    """Return the reading configuration, with defaults filled in.

    Args:
        configuration: the memory, which may require one method.
        protocol: the official protocol's record, if it is followed.

    Raises:
        HarnessError: the official protocol or the memory reads differently, or texts are missing.
    """
    official = _official(dataset, options)
    official_reading = reading_configuration(official.reading, max_tokens=official.max_tokens) if official else None
    required_method = definition_of(configuration).reading
    reading = options.reading or official_reading or reading_configuration(required_method or "direct")
    check_fitting(reading, configuration.name, required_method, by_batch=options.batch is not None)
    if texts := options.protocol_texts:
        if not official or not official.prompts or reading.method not in ("direct", "short"):
            what = "are for --protocol official" if not official else "have no place for notes"
            raise HarnessError(
                f"The texts of a protocol {what}",
                fix="Give --protocol official, with --reading short or direct, or a --template of one prompt (.txt)",
            )
        template, with_options = map(template_of, official.prompts(texts))
        reading = structs.replace(reading, template=template, options_template=with_options)
    if official and official.compose and protocol is not None and official_reading:
        if any(get(reading) != get(official_reading) for get in _SET_BY_COMPOSE):
            raise HarnessError(
                "The authors' protocol has its own prompt",
                where=f"data set '{dataset.name}'",
                fix="Leave out --reading, --history-format, --template and --note-template, or --protocol official",
            )
        reading = structs.replace(
            reading, compose=official.compose(dataset, folders.data_dir, protocol), temperature=official.temperature
        )
    return reading.in_window(context_window(model_spec))


def run_settings(
    configuration: MemoryConfiguration,
    model_spec: str,
    reading: ReadingConfiguration,
    options: RunOptions,
    protocol: Mapping[str, Any] | None = None,
) -> AnswerSettings:
    """Return the settings that decide an answer and are known before preparing. Templates are given by their hash.

    Args:
        options: options of the run; their `reading` is ignored.
        protocol: the official protocol's record, if it is followed.
    """
    base = endpoint(model_spec, options.model_options)
    return AnswerSettings(
        memory=memory_settings(configuration),
        reads_gold=definition_of(configuration).reads_gold,
        model=ModelSettings(
            model_spec,
            api_base=public_url(base) if base else None,
            temperature=reading.temperature,
            **reading.recorded("model"),
        ),
        reading=reading_settings(reading.recorded("reading")),
        embedder=None,
        preparation=options.prepared,
        # Values that are not default are recorded.
        protocol=dict(protocol or {}),
        repeat=options.repeat,
        **reading.recorded(),
    )
