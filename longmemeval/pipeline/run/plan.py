"""The plan of a run: what is asked of which memory and model, and how, before a question is asked."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Any

from msgspec import UNSET, structs

from longmemeval.benchmarks.catalogue import benchmark_of
from longmemeval.benchmarks.registry import load_dataset
from longmemeval.benchmarks.spec import OfficialAnswering
from longmemeval.core.event_loop import complete
from longmemeval.core.remote.places import Patience
from longmemeval.core.secrets.redaction import public_url
from longmemeval.dataset import Dataset
from longmemeval.errors import HarnessError
from longmemeval.llm.http.endpoints import endpoint
from longmemeval.llm.options import ModelOptions
from longmemeval.llm.protocol import ChatModel
from longmemeval.llm.tokens import context_window
from longmemeval.memory.configuration import MemoryConfiguration, definition_of, resolve_configuration
from longmemeval.pipeline.options import AnsweringOptions, BatchOptions
from longmemeval.pipeline.prepare.access import PreparedFixtures
from longmemeval.reading.configuration import ReadingConfiguration, check_fitting, configured, reading_configuration
from longmemeval.reading.options import ReadingOptions
from longmemeval.reading.templates import template_of
from longmemeval.records import Question
from longmemeval.results.manifest import RunManifest, stored_manifest
from longmemeval.results.selection import Selection, select
from longmemeval.results.settings import AnswerSettings, ModelSettings, memory_settings, reading_settings
from longmemeval.settings import Folders

_SET_BY_COMPOSE = tuple(map(attrgetter, ("method", "options.history_format", "template", "note_template")))


class RunOptions(AnsweringOptions, frozen=True):
    """Options of `run`."""

    reading: ReadingConfiguration | None = None
    """The reading; None: method `direct`, or an official protocol's own, history format `nl`, shipped template."""
    protocol_texts: Any = None
    """The texts of the official protocol and its prompts, as its `load_texts` reads them; None: our own."""
    seed: int = 0
    repeat: int = 1
    sweep: str | None = None
    """The name of the sweep; like `repeat`, it is recorded only and has no effect."""
    prepare_options: ModelOptions | None = None
    """The connection to the models that made the preparation: the embedder, and those of memories from outside; None:
    `model_options`."""
    question_concurrency: int | None = None
    """Calls in flight that analyse questions."""
    memory_concurrency: int | None = None
    """Calls in flight that an external memory system makes while it recalls."""
    served_window: int | None = None
    """The context window that the model's own server tells; None: none does, and LiteLLM's table decides."""
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


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """A run as it is asked for; what follows from that is computed when it is needed.

    Raises:
        HarnessError: from any attribute that reads the data: it is missing, the official protocol or the memory reads
            differently, or texts are missing.
    """

    data: Dataset | str | Path
    """The dataset; a name of the catalogue or a file is loaded."""
    configuration: MemoryConfiguration
    model: str
    """Spec of the answering model."""
    selection: Selection = Selection()
    options: RunOptions = RunOptions()
    folders: Folders = field(default_factory=Folders)

    @property
    def run_id(self) -> str:
        """The id of the run; empty if it has none yet."""
        return self.options.run_id or ""

    def with_options(self, **changes: Any) -> "RunPlan":
        """Return the plan with other values for some fields of its options."""
        return replace(self, options=structs.replace(self.options, **changes))

    @cached_property
    def dataset(self) -> Dataset:
        """The dataset."""
        return load_dataset(self.data, self.folders.data_dir) if isinstance(self.data, str | Path) else self.data

    @property
    def questions(self) -> list[Question]:
        """The questions as they are asked."""
        return self._asked[0]

    @property
    def protocol(self) -> Mapping[str, Any] | None:
        """The record of the official protocol, if it is followed."""
        return self._asked[1]

    @property
    def fixtures(self) -> PreparedFixtures:
        """The fixtures that the memory reads; none is opened yet."""
        patience = Patience(self.options.model_options.give_up_after_s)
        prepared, configuration = self.options.prepared, self.configuration
        return PreparedFixtures(self.dataset, prepared, self.folders, configuration, patience=patience)

    @cached_property
    def _asked(self) -> tuple[list[Question], Mapping[str, Any] | None]:
        options, dataset = self.options, self.dataset
        chosen = select(list(dataset.questions()), self.selection, dataset.question_type)
        official = self._official
        if official is None:
            return chosen, None
        everything = definition_of(self.configuration).recalls_everything
        record = official.record(options.seed, options.protocol_texts, everything)
        return list(official.questions(dataset, chosen, record)), record

    @property
    def _official(self) -> OfficialAnswering | None:
        """The official protocol; None unless the options choose it."""
        if self.options.protocol != "official":
            return None
        benchmark = benchmark_of(self.dataset)
        if benchmark.answering is None:
            raise HarnessError(
                f"{benchmark.title} has no official protocol of answering",
                where=f"dataset '{self.dataset.name}'",
                fix="Leave out --protocol",
            )
        return benchmark.answering

    @cached_property
    def reading(self) -> ReadingConfiguration:
        """The reading, with defaults filled in."""
        official, options = self._official, self.options
        official_reading = reading_configuration(official.reading, max_tokens=official.max_tokens) if official else None
        required_method = definition_of(self.configuration).reading
        reading = options.reading or official_reading or reading_configuration(required_method or "direct")
        check_fitting(reading, self.configuration.name, required_method, by_batch=options.batch is not None)
        if options.protocol_texts:
            reading = _with_texts(reading, official, options.protocol_texts)
        if official and official.compose and self.protocol is not None and official_reading:
            if any(get(reading) != get(official_reading) for get in _SET_BY_COMPOSE):
                raise HarnessError(
                    "The authors' protocol has its own prompt",
                    where=f"dataset '{self.dataset.name}'",
                    fix="Leave out --reading, --history-format, --template and --note-template, or --protocol official",
                )
            compose = official.compose(self.dataset, self.folders.data_dir, self.protocol)
            reading = structs.replace(reading, compose=compose, temperature=official.temperature)
        if options.model_options.max_tokens:
            what = "The limit of answers is an option of reading, not of the model"
            raise HarnessError(what, fix="Write ReadingOptions(max_tokens=…), or `max_tokens` under `reading`")
        return reading.in_window(options.served_window or context_window(self.model))

    @property
    def settings(self) -> AnswerSettings:
        """The settings that decide an answer and are known before preparing; templates by their hashes."""
        model_options, reading = self.options.model_options, self.reading
        base, decisive = endpoint(self.model, model_options), dict(model_options.recorded)
        return AnswerSettings(
            memory=memory_settings(self.configuration),
            reads_gold=definition_of(self.configuration).reads_gold,
            model=ModelSettings(
                self.model,
                api_base=public_url(base) if base else None,
                temperature=decisive.pop("temperature", reading.temperature),
                **reading.recorded("model"),
                options=decisive or UNSET,
            ),
            reading=reading_settings(reading.recorded("reading")),
            embedder=None,
            preparation=self.options.prepared,
            # Values that are not default are recorded.
            protocol=dict(self.protocol or {}),
            repeat=self.options.repeat,
            **reading.recorded(),
        )


# The server of a run's model, if it is one that only its user knows.


def ask_server(model: ChatModel, plan: RunPlan, folder: Path) -> dict[str, Any]:
    """Return the model's context window and the time of loading it, as `run.json` records them; empty if unknown.

    A model that is not loaded is loaded. A finished run asks nothing. A run that has answers keeps the window that it
    began with, unless the server's is smaller now.

    Args:
        model: the model of the run.
        folder: folder of the run, which need not exist.

    Raises:
        HarnessError: `--context-window` is larger than the server's.
    """
    from longmemeval.llm.http.client import RemoteChatModel

    if not isinstance(model, RemoteChatModel):
        return {}
    given = plan.options.reading.options.context_window if plan.options.reading else None
    model.limits.window = given
    if (server := model.own_server) is None:
        return {}
    before = stored_manifest(folder) if (folder / "run.json").exists() else None
    kept = before.settings.plain.get("reading", {}).get("context_window") if before else None
    if before and before.status == "completed" and not plan.options.extend:
        return {"context_window": kept}
    complete(model.get_ready())
    window = server.told.window
    if given and window and given > window:
        raise HarnessError(
            f"The server's context window is {window:,} tokens, less than --context-window {given:,}",
            where=plan.model,
            fix="Restart the server with a larger window, or leave out --context-window",
        )
    if plan.options.tell and not given:
        plan.options.tell(_line(plan.model, window))
    if plan.options.tell and server.loading_s:
        plan.options.tell(f"Loading the model took {server.loading_s:.1f} s; no latency includes it")
    if before and before.totals.get("answered"):
        window = min(kept, window or kept) if kept else None
    loading = {"loading_s": round(server.loading_s, 3)} if server.loading_s else {}
    return {"context_window": window, "source": server.told.source} | loading if window or loading else {}


def _line(model: str, window: int | None) -> str:
    if window:
        return f"{model} has a context window of {window:,} tokens, as its server says"
    return f"The server of {model} does not tell its context window; give --context-window TOKENS"


def _with_texts(
    reading: ReadingConfiguration, official: OfficialAnswering | None, texts: object
) -> ReadingConfiguration:
    """Return the reading with the user's texts of an official protocol."""
    if not official or not official.prompts or reading.method not in ("direct", "short"):
        what = "are for --protocol official" if not official else "have no place for notes"
        raise HarnessError(
            f"The texts of a protocol {what}",
            fix="Give --protocol official, with --reading short or direct, or a --template of one prompt (.txt)",
        )
    template, with_options = map(template_of, official.prompts(texts))
    return structs.replace(reading, template=template, options_template=with_options)


def plan_run(
    dataset: str,
    memory: str,
    model: str,
    *,
    parameters: Sequence[str],
    selection: Selection,
    reading: ReadingOptions,
    options: RunOptions,
    folders: Folders,
) -> RunPlan:
    """Return the run that these names and options describe; the official protocol has a reading of its own.

    Args:
        dataset: a name of the catalogue, or a file.
        memory: a preset, or another name of a memory.
        parameters: parameters of the memory, as `key=value`.
        reading: options of the reading.
        options: all other options.
    """
    configuration = resolve_configuration(memory, parameters)
    data = load_dataset(dataset, folders.data_dir)
    answering, template, texts = benchmark_of(data).answering, reading.template, None
    if answering and answering.load_texts and template and template.suffix in answering.text_endings:
        texts, template = answering.load_texts(template), None
    official = answering if options.protocol == "official" else None
    reading = structs.replace(
        reading,
        method=reading.method or (official.reading if official else definition_of(configuration).reading),
        max_tokens=reading.max_tokens or (official.max_tokens if official else None),
        template=template,
    )
    options = structs.replace(options, reading=configured(reading), protocol_texts=texts, seed=selection.seed)
    return RunPlan(
        data=data, configuration=configuration, model=model, selection=selection, options=options, folders=folders
    )
