"""Answer the selected questions from prepared fixtures under one memory configuration, for `run`."""

from dataclasses import replace
from pathlib import Path

from msgspec import structs

from longmemeval.core.journal import StoredJournal, now
from longmemeval.core.remote.places import as_given
from longmemeval.dataset import Dataset
from longmemeval.llm.costs import SPENDING, Account
from longmemeval.llm.model_calls import CALLS
from longmemeval.llm.protocol import LimitedChatModel
from longmemeval.llm.registry import ModelAccess, load_chat_model
from longmemeval.llm.tokens import token_counter
from longmemeval.memory.built_in.presets import gold_for
from longmemeval.memory.configuration import MemoryConfiguration, as_configuration, build_memory, ready_reranker
from longmemeval.memory.protocol import MemorySystem, MemoryTools
from longmemeval.pipeline.batches.batches import Batches
from longmemeval.pipeline.batches.sending import FOLDER as BATCHES
from longmemeval.pipeline.prepare.query_vectors import query_vectors, speaker_names_of
from longmemeval.pipeline.run.answering import Answering, RunReport
from longmemeval.pipeline.run.plan import RunOptions, RunPlan, ask_server
from longmemeval.pipeline.run.question_analysis import QueryModel, question_analyses
from longmemeval.pipeline.run.sample_size import planning_note
from longmemeval.reading.reader import Reader
from longmemeval.reading.templates import is_shipped
from longmemeval.records import Answer
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
from longmemeval.results.selection import Selection, sharded_id
from longmemeval.settings import Folders


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
        HarnessError: an argument is invalid, fixtures are missing or damaged, or the run id has other settings.
        FatalModelError: no call can succeed; answers so far are saved.
    """
    return execute(
        RunPlan(
            data=dataset,
            configuration=as_configuration(memory),
            model=model_spec,
            selection=selection,
            options=options,
            folders=folders or Folders(),
        )
    )


def execute(plan: RunPlan) -> RunReport:
    """Make a planned run, or continue it; errors are those of `run`."""
    folders, options, selection = plan.folders, plan.options, plan.selection
    questions = plan.questions
    base = plan.run_id or default_run_id(folders.results_dir, plan.dataset.name, plan.configuration.name, plan.model)
    run_id = sharded_id(base, selection.shard)
    folder = folders.results_dir / check_run_id(run_id)
    if options.must_exist:
        run_folder(folders.results_dir, run_id)
    ready = _Ready(plan, folder)
    manifest = ready.manifest(run_id)
    if options.check:
        options.check(manifest)
    memory_system, reader = ready.memory, ready.reader
    with open_run(StoredJournal(folder / ANSWERS, Answer), manifest, extend=options.extend) as opened:
        answering = Answering(
            run=opened,
            fixtures=ready.fixtures,
            memory=memory_system,
            analyses=ready.analyses,
            batches=ready.batches,
            vectors=ready.vectors,
            names_in=speaker_names_of(plan.dataset),
            reader=reader,
            counter=ready.counter,
            concurrency=options.concurrency,
            save_prompts=options.save_prompts,
        )
        for note in filter(None, (*ready.fixtures.advice, planning_note(plan.dataset, questions, selection))):
            if options.tell:
                options.tell(note)
        return answering.execute(questions)


class _Ready:
    """Everything that answers the questions of a planned run, checked before the first is asked.

    Args:
        folder: folder of the run.

    Raises:
        HarnessError: bad input, missing or damaged fixtures.
        FatalModelError: a model cannot be called.
    """

    def __init__(self, plan: RunPlan, folder: Path) -> None:
        self._plan = plan
        self._folder = folder
        options, folders, questions = plan.options, plan.folders, plan.questions
        account = Account(folder / SPENDING, options.spending)
        self.batches = self._batches("answers", plan, account)
        self._model = self.batches or load_chat_model(plan.model, options.model_options, account=account)
        of_preparation = options.prepare_options or options.model_options.connection
        self._model_access = ModelAccess(
            embedder=options.embedder or "",
            options=of_preparation,
            cache_dir=folders.cache_dir,
            account=account,
            concurrency=options.memory_concurrency or options.concurrency,
            calls_file=folder / CALLS,
        )
        self.counter = token_counter(plan.model)
        self.fixtures = plan.fixtures
        self._embedder = self.fixtures.embedder_of(questions)
        asked_at_once = options.question_concurrency or options.concurrency
        query_model = QueryModel(options.query_model or plan.model, options.model_options.connection, asked_at_once)
        self.analyses = question_analyses(
            plan.configuration,
            query_model,
            folders,
            account,
            lambda spec, chosen: self._batches(
                "questions", replace(plan.with_options(model_options=chosen), model=spec), account
            ),
        )
        self.vectors = query_vectors(
            questions, self._embedder, options.embedder, of_preparation, folders, account=account
        )
        self._reading = plan.reading
        self._hashes = self.fixtures.hashes(questions)
        self._load_reranker, self._reranker = ready_reranker(plan.configuration, self._model_access)
        # Last, since loading a model may take minutes.
        self._server = {} if self.batches else ask_server(self._model, plan, folder)
        if self._server:
            self._plan = plan.with_options(served_window=self._server["context_window"])
            self._reading = self._plan.reading

    def manifest(self, run_id: str) -> RunManifest:
        """Return the manifest that the run begins with."""
        plan, questions = self._plan, self._plan.questions
        marks = self.fixtures.marks(questions)
        first = next((question.haystack_id for question in questions), "")
        return RunManifest(
            format=FORMAT,
            run_id=run_id,
            status="running",
            dataset=dataset_record(plan.dataset),
            settings=structs.replace(
                plan.settings,
                embedder=self._embedder,
                reranker=self._reranker,
                token_counter=self.counter.name,
                save_prompts=plan.options.save_prompts,
                batch=bool(plan.options.batch),
                query_model=self.analyses.settings if self.analyses else None,
                not_reproducible=tuple(marks),
                parts=marks,
            ),
            question_ids=tuple(question.question_id for question in questions),
            fixtures=self._hashes,
            environment=environment() | ({"model_server": self._server} if self._server else {}),
            started_at=now(),
            selection=plan.selection,
            templates=self._own_templates(),
            prepare=as_given(self.fixtures.prepare_command(first, places=False)),
            sweep=plan.options.sweep,
        )

    def _own_templates(self) -> dict[str, str]:
        """Return the texts of the user's prompts, by hash; the protocol's are in its record."""
        reading, texts = self._reading, self._plan.options.protocol_texts
        prompts = () if texts else (reading.template, reading.options_template)
        own = [template for template in (*prompts, reading.note_template) if template and not is_shipped(template)]
        return {template.sha256: template.text for template in own}

    @property
    def memory(self) -> MemorySystem:
        """The memory system."""
        tools = MemoryTools(
            embed_query=self.vectors,
            gold=gold_for(self._plan.configuration, self._plan.dataset),
            count_tokens=self.counter.count,
            analyse=self.analyses,
            reranker=self._load_reranker,
            models=self._model_access,
        )
        return build_memory(self._plan.configuration, tools)

    @property
    def reader(self) -> Reader:
        """The reader, which calls the model."""
        model = self.batches or LimitedChatModel(self._model, self._plan.options.concurrency)
        return Reader(self._reading, model, self.counter)

    def _batches(self, stage: str, plan: RunPlan, account: Account) -> Batches | None:
        """Return the batches of one stage of this run, for the model of `plan`; None if it is called directly."""
        options = plan.options
        if options.batch is None:
            return None
        return Batches(
            self._folder / BATCHES / stage,
            plan.model,
            options.model_options,
            account,
            options.batch,
            lambda line: options.tell(f"{line}.") if options.tell else None,
        )
