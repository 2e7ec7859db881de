"""Try memories on made-up lives: updates, days gone by, two people, hostile text, noise, and the same question twice.

Lives, truth and measure are those of the benchmark `lives`; they are prepared and ranked as any data. `lifecycle` tries
the memories that are added to with deleting, and reading after writing.
"""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from longmemeval.benchmarks.lives.loader import LivesDataset, write_lives
from longmemeval.benchmarks.specs import benchmark_of
from longmemeval.core.text.figures import listed
from longmemeval.errors import HarnessError
from longmemeval.llm.options import ModelOptions, SpendingLimit
from longmemeval.measures.aggregate import Mean
from longmemeval.memory.configuration import MemoryConfiguration, as_configuration, definition_of
from longmemeval.memory.definition import MEMORIES
from longmemeval.pipeline.prepare.prepare import PrepareOptions, prepare
from longmemeval.pipeline.probe.controls import lifecycle_of_control
from longmemeval.pipeline.probe.lifecycle import Lifecycle
from longmemeval.pipeline.probe.through_the_door import lifecycle_of
from longmemeval.pipeline.retrieval.ranking_run import RetrievalRun
from longmemeval.pipeline.retrieval.retrieve import RetrievalOptions, retrieve
from longmemeval.settings import Folders

CUTOFF = 10
MEASURE = f"current_first@{CUTOFF}"
"""A question is passed if its statement is among the first 10 and nothing that must not be is above it."""

Control = Literal["floor", "ceiling"]


class Probed(Struct, frozen=True):
    """The result of one memory."""

    memory: str
    control: Control | None
    """`floor` for the control that cannot pass, `ceiling` for the one that must; None for memories."""
    run_id: str
    overall: Mean
    """Over all questions, between 0 and 1; its mean is None if the memory does not say where its items are from."""
    probes: dict[str, Mean]
    """The same by probe."""
    same_twice: float | None
    """Share of the questions whose second recall was that of the first; None: not asked twice."""
    lifecycle: Lifecycle = Lifecycle()
    """What adding and deleting showed; that of a control is of memories made for it (`controls`)."""
    notes: tuple[str, ...] = ()


class ProbeReport(Struct, frozen=True):
    """The report of `probe`."""

    dataset: str
    """File of the lives; other verbs take it as any data set."""
    seed: int
    lives: int
    """Number of lives of each length."""
    sessions: tuple[int, ...]
    """Their lengths."""
    questions: int
    memories: tuple[Probed, ...]
    """Memories in the order given, then the controls."""

    @property
    def verdict(self) -> str:
        """The result in a sentence."""
        known = [one for one in self.memories if not one.control and one.overall.mean is not None]
        if not known:
            return "No memory says where its items are from, so that nothing can be said of it."
        known.sort(key=lambda one: -_passed(one.overall))
        most = _passed(known[0].overall)
        best = known[0]
        names = [one.memory for one in known if _passed(one.overall) == most]
        weakest = min(best.probes, key=lambda name: best.probes[name].mean or 0.0)
        at, of = _passed(best.probes[weakest]), best.probes[weakest].n
        others = listed([f"{one.memory} {_passed(one.overall)}" for one in known[len(names) :]], 3)
        more = f" ({others})" if others else ""
        if len(names) > 1:
            return f"{' and '.join(names)} pass {most} of {best.overall.n} questions each{more}."
        return f"{best.memory} passes {most} of {best.overall.n} questions{more}; weakest: {weakest}, {at} of {of}."


def _passed(mean: Mean) -> int:
    return round((mean.mean or 0.0) * mean.n)


def probe(
    memories: Sequence[MemoryConfiguration | str],
    *,
    seed: int,
    lives: int = 5,
    sessions: tuple[int, ...] = (10, 100),
    options: PrepareOptions = PrepareOptions(),
    spending: SpendingLimit | None = None,
    folders: Folders | None = None,
) -> ProbeReport:
    """Make lives, prepare them, and ask each memory and two controls about them, each question twice.

    Args:
        memories: configurations, or names of presets; controls among them are not repeated.
        seed: decides the lives: the same seed makes the same.
        lives: number of lives of each length.
        sessions: lengths of the lives, 10 to 1,000 sessions.
        options: how the histories are prepared.
        spending: the most that calls of memories with models may cost.
        folders: the folders; None: from the environment.

    Raises:
        HarnessError: bad input, or a memory that cannot be prepared or asked.
    """
    folders = folders or Folders()
    named = "-".join(map(str, (seed, lives, *sessions)))
    path = write_lives(folders.data_dir / "probes" / f"lives-{named}.json", seed, lives, sessions)
    dataset = LivesDataset(path)
    configurations = _with_controls([as_configuration(memory) for memory in memories])
    report = prepare(dataset, configurations, options=options, folders=folders)
    if report.failed:
        raise HarnessError(
            f"{report.failed_haystacks} of {report.haystacks} lives could not be prepared",
            where=str(path),
            fix="Try the memory alone first: `longmemeval memory check NAME`",
        )
    ranked = retrieve(
        dataset,
        configurations,
        options=RetrievalOptions(
            prepared=options.name,
            spending=spending,
            jobs=options.jobs,
            model_options=ModelOptions(api_base=options.api_base, rates=options.rates),
            twice=True,
        ),
        folders=folders,
    )
    order = benchmark_of(dataset).types.order
    shortest = dataset.lives_of(min(sessions))
    found = []
    for configuration, run in zip(configurations, ranked.runs, strict=True):
        control = _control(configuration)
        tried = (
            lifecycle_of_control(control, shortest)
            if control
            else lifecycle_of(configuration, shortest, options=options, spending=spending, folders=folders)
        )
        found.append(_probed(configuration, run, order, tried))
    return ProbeReport(
        str(path), seed, lives, sessions, len(dataset), tuple(sorted(found, key=lambda one: one.control is not None))
    )


def _with_controls(configurations: Sequence[MemoryConfiguration]) -> list[MemoryConfiguration]:
    """Return the memories, and those controls that recall nothing, or the evidence, and are not among them."""
    present = {configuration.name for configuration in configurations}
    controls = [as_configuration(name) for name in MEMORIES.built_in if name not in present]
    return [*configurations, *(one for one in controls if _control(one))]


def _control(configuration: MemoryConfiguration) -> Control | None:
    definition = definition_of(configuration)
    if definition.reads_gold:
        return "ceiling"
    return "floor" if definition.control == "floor" else None


def _probed(configuration: MemoryConfiguration, run: RetrievalRun, order: Sequence[str], tried: Lifecycle) -> Probed:
    result = run.results[0]
    again = run.asked_twice
    return Probed(
        memory=configuration.name,
        control=_control(configuration),
        run_id=run.run_id,
        overall=result.measures[MEASURE],
        probes={name: result.by_type[name][MEASURE] for name in order if name in result.by_type},
        same_twice=1 - again.changed / again.n if again and again.n else None,
        lifecycle=tried,
        notes=(*result.notes, *tried.notes),
    )
