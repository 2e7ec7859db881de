"""Turn a sweep's file into its runs: their names, settings and order."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import structs

from longmemeval.benchmarks.catalogue import catalogue
from longmemeval.core.files import sha256_text
from longmemeval.core.secrets.parameters import public
from longmemeval.core.text_files import YamlText
from longmemeval.errors import HarnessError
from longmemeval.llm.offline import CONTROL_MODELS
from longmemeval.llm.options import ModelOptions
from longmemeval.llm.rates import RateLimits
from longmemeval.memory.configuration import (
    MemoryConfiguration,
    chosen_parameters,
    configuration_of,
    definition_of,
    parts_of,
    resolve_configuration,
)
from longmemeval.pipeline.options import EvaluateOptions, PrepareOptions
from longmemeval.pipeline.run.plan import RunOptions, RunPlan
from longmemeval.pipeline.sweep.file import (
    MemoryEntry,
    ModelEntry,
    ReadingEntry,
    SweepFile,
    budgeted,
    control_pairs,
    given_options,
    read_sweep_file,
)
from longmemeval.reading.configuration import ReadingConfiguration, configured, reading_configuration
from longmemeval.reading.options import ReadingOptions
from longmemeval.results.manifest import check_run_id
from longmemeval.results.selection import Selection

_LONGEST = 120
_YAML = (".yaml", ".yml")


class _Model(NamedTuple):
    """An answering model, its connection and its name in run ids."""

    label: str
    spec: str
    options: ModelOptions


class _Reading(NamedTuple):
    """A reading and its name in run ids."""

    label: str
    configuration: ReadingConfiguration


@dataclass(frozen=True)
class SweepPlan:
    """The plan that a sweep's file describes."""

    name: str
    file: Path
    dataset: str | Path
    """A name of the catalogue, or a path."""
    selection: Selection
    prepare: PrepareOptions
    configurations: tuple[MemoryConfiguration, ...]
    runs: tuple[RunPlan, ...]
    """The runs, repeats last: if a sweep ends early, its runs are comparable."""
    judges: tuple[str, ...]
    """Specs of judges; empty: the benchmark's own."""
    grading: EvaluateOptions
    """Options of grading, including the number of calls in flight."""
    max_cost: float | None
    """US dollars for all calls of answering and grading."""
    holdout: float | None = None
    """Share of the haystacks to hold out; None: nothing is held out."""

    def under(self, rates: RateLimits) -> "SweepPlan":
        """Return the plan with limits for the calls of all stages."""

        def limited(run: RunPlan) -> RunPlan:
            return run.with_options(model_options=structs.replace(run.options.model_options, rates=rates))

        model_options = structs.replace(self.grading.model_options, rates=rates)
        return replace(
            self,
            prepare=self.prepare.replaced(rates=rates),
            runs=tuple(map(limited, self.runs)),
            grading=structs.replace(self.grading, model_options=model_options),
        )


def plan(file: str | Path) -> SweepPlan:
    """Read a sweep's file and lay out its runs.

    A run's id consists of the names of sweep, memory, model and reading, and from the second on the repeat: it does
    not change when other entries are added to the file.

    Raises:
        HarnessError: the file is not as `docs/sweep.md` says, names something missing, or two entries have one name.
    """
    path = Path(file)
    content, text = read_sweep_file(path)
    configurations = _configurations(content, text)
    models = [_model(entry, content) for entry in content.models]
    readings = _readings(content, text)
    with _located(text, "selection"):
        selection = Selection(**given_options(content.selection, Selection))
    everything = [
        (repeat, model, memory, reading)
        for repeat, model, memory in product(range(1, content.repeat + 1), models, configurations)
        for reading in _readings_of(memory, readings)
    ]
    if content.controls:
        offline = [_Model(spec, spec, ModelOptions()) for spec in CONTROL_MODELS]
        by_spec = {model.spec: model for model in (*offline, *models)}
        controls = list(control_pairs(configurations, [model.spec for model in models]))
        shown = next((reading for reading in readings if not reading.configuration.tools), None)
        first = shown or _Reading("direct", reading_configuration())  # Controls ask for no files.
        everything += [(1, by_spec[spec], memory, first) for memory, spec in controls]
        named = {memory.name: memory for memory in (*configurations, *(memory for memory, _ in controls))}
        configurations = list(named.values())
    whole = SweepPlan(
        name=content.name,
        file=path,
        dataset=_dataset(content.dataset, path),
        selection=selection,
        prepare=_prepare(content, path),
        configurations=tuple(configurations),
        runs=(),
        judges=tuple(dict.fromkeys(content.judges)),
        grading=EvaluateOptions(
            model_options=ModelOptions(**given_options(content, ModelOptions)),
            **given_options(content, EvaluateOptions, "votes", "concurrency"),
        ),
        max_cost=content.max_cost,
        holdout=content.holdout,
    )
    runs = [_run(whole, *settings) for settings in everything]
    _refuse_same_ids(runs, path)
    return replace(whole, runs=tuple(runs))


def _run(whole: SweepPlan, repeat: int, model: _Model, memory: MemoryConfiguration, reading: _Reading) -> RunPlan:
    """Return one run of a sweep."""
    options = RunOptions(
        reading=reading.configuration,
        prepared=whole.prepare.name,
        embedder=whole.prepare.embedder,
        model_options=model.options,
        concurrency=whole.grading.concurrency,
        run_id=_run_id(whole.name, memory.name, model.label, reading.label, repeat),
        repeat=repeat,
        sweep=whole.name,
    )
    return RunPlan(
        data=whole.dataset, configuration=memory, model=model.spec, selection=whole.selection, options=options
    )


def _configurations(content: SweepFile, text: YamlText) -> list[MemoryConfiguration]:
    found: list[tuple[MemoryConfiguration, Collection[str]]] = []
    for place, entry in enumerate(content.memories):
        with _located(text, "memories", place):
            named = entry.parameters.keys() | entry.grid.keys()
            found += [(configuration, named) for configuration in _expanded(entry, text.path)]
    with _located(text, "budget"):
        return budgeted(found, content.budget)


def _expanded(entry: MemoryEntry, file: Path) -> Iterator[MemoryConfiguration]:
    """Yield the configuration of an entry, or one for each combination of its grid's values."""
    is_file = Path(entry.preset).suffix in _YAML
    base = resolve_configuration(str(file.parent / entry.preset) if is_file else entry.preset)
    if twice := sorted(entry.parameters.keys() & entry.grid.keys()):
        raise HarnessError(f"'{twice[0]}' is in parameters and in grid", fix="Keep one of them")
    for values in product(*entry.grid.values()):
        own = dict(zip(entry.grid, values, strict=True))
        checked = _checked(base, entry.parameters | own)
        # As the parameters were parsed: YAML's `off` is false, and shown with its meaning.
        shown = {key: checked.parameters.get(key, value) for key, value in own.items()}
        yield checked.model_copy(update={"name": _labelled(entry.name or base.name, public(shown))})


def _checked(base: MemoryConfiguration, parameters: Mapping[str, Any]) -> MemoryConfiguration:
    """Return `base` with other values for some parameters."""
    candidate = base.model_copy(update={"parameters": {**base.parameters, **parameters}})
    parts_of(candidate)
    return configuration_of(base.preset, chosen_parameters(base) | dict(parameters), name=base.name)


def _model(entry: ModelEntry, content: SweepFile) -> _Model:
    options = given_options(content, ModelOptions) | given_options(entry, ModelOptions)
    return _Model(entry.name or entry.spec, entry.spec, ModelOptions(**options))


def _readings(content: SweepFile, text: YamlText) -> list[_Reading]:
    found = []
    for place, entry in enumerate(content.readings):
        with _located(text, "readings", place):
            found.append(_reading(entry, text.path.parent))
    return found


def _readings_of(memory: MemoryConfiguration, readings: Sequence[_Reading]) -> Sequence[_Reading]:
    """Return the readings of a memory; if it requires one method, only those with that method."""
    required_method = definition_of(memory).reading
    if required_method is None:
        return readings
    fitting = [reading for reading in readings if reading.configuration.method == required_method]
    return fitting or [_Reading(required_method, reading_configuration(required_method))]


def _reading(entry: ReadingEntry, folder: Path) -> _Reading:
    options = given_options(entry, ReadingOptions)
    shown = {
        name: value.stem if isinstance(value, Path) else value for name, value in options.items() if name != "method"
    }
    label = entry.name or _labelled(entry.method, shown)
    return _Reading(label, configured(ReadingOptions(**_resolve_paths(folder, options))))


def _prepare(content: SweepFile, file: Path) -> PrepareOptions:
    connection = given_options(content, ModelOptions) | given_options(content.prepare, ModelOptions)
    options = connection | given_options(content.prepare, PrepareOptions)
    return PrepareOptions(**_resolve_paths(file.parent, options))


def _resolve_paths(folder: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options with paths relative to a folder."""
    return {name: folder / value if isinstance(value, Path) else value for name, value in options.items()}


def _dataset(name: str, file: Path) -> str | Path:
    """Return a name of the catalogue unchanged; anything that looks like a path or is one, relative to the file."""
    path = file.parent / name
    is_path = "/" in name or name.endswith(".json") or path.exists()
    return path if name not in catalogue() and is_path else name


def _run_id(sweep: str, memory: str, model: str, reading: str, repeat: int) -> str:
    parts = [sweep, *map(_word, (memory, model, reading)), *([f"r{repeat}"] if repeat > 1 else [])]
    run_id = "_".join(parts)
    if len(run_id) > _LONGEST:
        run_id = f"{run_id[: _LONGEST - 13]}-{sha256_text(run_id)[:12]}"
    return check_run_id(run_id)


def _word(name: str) -> str:
    """Return a name as a part of a run id; one without a usable character becomes a hash."""
    return re.sub(r"[^A-Za-z0-9._+]+", "-", name).strip("-") or sha256_text(name)[:8]


def _refuse_same_ids(runs: Sequence[RunPlan], file: Path) -> None:
    ids = [run.run_id for run in runs]
    if twice := next((run_id for run_id in ids if ids.count(run_id) > 1), None):
        raise HarnessError(
            f"Two runs would have the id '{twice}'",
            where=str(file),
            fix="Remove the duplicate entry, or give memory, model or reading a `name` of its own",
        )


def _labelled(name: str, values: Mapping[str, object]) -> str:
    """Return a label such as `hybrid top_k=5 message_range=0`."""
    return " ".join([name, *(f"{key}={_shown(value)}" for key, value in values.items())])


def _shown(value: object) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(_shown, value)) or "none"
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


@contextmanager
def _located(text: YamlText, *location: int | str) -> Iterator[None]:
    """Add the position in the file to errors raised inside the context."""
    try:
        yield
    except HarnessError as error:
        place = text.place(*location)
        where = f"{place}: {error.where}" if error.where else place
        raise type(error)(error.what, where=where, fix=error.fix) from error
