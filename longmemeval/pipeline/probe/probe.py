"""Try memories on made-up lives: updates, days gone by, two people, hostile text, noise, and the same question twice.

Lives, truth and measure are those of the benchmark `lives`; they are prepared and ranked like any data. `lifecycle`
tries memories with `add`: deletion, and reading after writing.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from secrets import randbelow
from typing import Any, ClassVar, Literal

from msgspec import Struct, structs

from longmemeval.benchmarks.catalogue import benchmark_of
from longmemeval.benchmarks.lives.making import Life, LivesDataset, write_lives
from longmemeval.core.files import sha256_text, write_atomic
from longmemeval.core.text.figures import listed
from longmemeval.core.text.words import content_words
from longmemeval.errors import HarnessError
from longmemeval.llm.options import SpendingLimit
from longmemeval.measures.notation import Mean
from longmemeval.memory.configuration import MEMORIES, MemoryConfiguration, as_configuration, definition_of
from longmemeval.memory.external.serve import MemoryServer, Session
from longmemeval.memory.external.transports.service import MemoryService
from longmemeval.memory.external.transports.transport import InProcess
from longmemeval.pipeline.prepare.prepare import PrepareOptions, prepare
from longmemeval.pipeline.probe.connect import lifecycle_of
from longmemeval.pipeline.probe.lifecycle import Lifecycle, WritableMemory, lifecycle
from longmemeval.pipeline.retrieval.ranking_run import RetrievalRun
from longmemeval.pipeline.retrieval.retrieve import RetrievalOptions, retrieve
from longmemeval.records import Haystack
from longmemeval.settings import Folders

# Memories whose results of deleting and of reading after writing are known beforehand.


class Forgets:
    """A memory that finds messages at once, by words, and deletes those that mention a subject: it must pass."""

    capabilities: ClassVar[Mapping[str, Any]] = {"models": "none"}

    def __init__(self) -> None:
        self.kept: list[dict[str, Any]] = []

    def add(self, session: Session) -> None:
        """Keep every message."""
        self.kept += [{"text": message.content, "message_ids": [message.id]} for message in session.messages]

    def search(self, query: str, *, date: datetime, limit: int) -> list[dict[str, Any]]:
        """Return the messages that share most words with a question."""
        wanted = {*content_words(query)}
        return sorted(self.kept, key=lambda hit: -len(wanted & {*content_words(hit["text"])}))[:limit]

    def delete(self, subject: str) -> None:
        """Remove the messages that mention a subject."""
        self.kept = [hit for hit in self.kept if subject not in hit["text"]]

    def save(self, folder: Path) -> None:
        """Write all messages."""
        (folder / "kept.json").write_text(json.dumps(self.kept))

    def load(self, folder: Path) -> None:
        """Read all messages."""
        self.kept = json.loads((folder / "kept.json").read_text())


class Keeps(Forgets):
    """A memory that deletes nothing: it cannot pass."""

    def delete(self, subject: str) -> None:
        """Do nothing."""


class NeverReady(Forgets):
    """A memory that finds nothing: it cannot pass."""

    def search(self, query: str, *, date: datetime, limit: int) -> list[dict[str, Any]]:
        """Return nothing."""
        return []


def lifecycle_of_control(control: Literal["floor", "ceiling"], lives: Mapping[str, tuple[Haystack, Life]]) -> Lifecycle:
    """Return the result on these lives of memories that cannot pass, or of one that must."""
    if control == "ceiling":
        return lifecycle(_in_process(Forgets), lives)
    return structs.replace(
        lifecycle(_in_process(NeverReady), lives), deletion=lifecycle(_in_process(Keeps), lives).deletion
    )


def _in_process(memory: type) -> WritableMemory:
    return WritableMemory(MemoryService(lambda on_progress: InProcess(MemoryServer(memory, memory.__name__))))


CUTOFF = 10
MEASURE = f"current_first@{CUTOFF}"
"""A question is passed if its statement is among the first 10 items, and no wrong statement is above it."""

Control = Literal["floor", "ceiling"]


class Probed(Struct, frozen=True):
    """The result of one memory."""

    memory: str
    control: Control | None
    """`floor` for the control that cannot pass, `ceiling` for the one that must; None for memories."""
    run_id: str
    overall: Mean
    """Over all questions, between 0 and 1; its mean is None if the memory does not state the origin of its items."""
    probes: dict[str, Mean]
    """Mean over the questions of each probe."""
    same_twice: float | None
    """Share of the questions whose second recall was that of the first; None: not asked twice."""
    lifecycle: Lifecycle = Lifecycle()
    """Results of adding and deleting; for a control, of memories made for it (`controls`)."""
    notes: tuple[str, ...] = ()


class ProbeReport(Struct, frozen=True):
    """The report of `probe`."""

    dataset: str
    """File of the lives; other verbs take it as any dataset."""
    seed: int
    lives: int
    """Number of lives of each length."""
    sessions: tuple[int, ...]
    """Lengths of the lives in sessions."""
    questions: int
    memories: tuple[Probed, ...]
    """Memories in the order given, then the controls."""

    @property
    def verdict(self) -> str:
        """The result in a sentence."""
        known = [memory for memory in self.memories if not memory.control and memory.overall.mean is not None]
        if not known:
            return "No memory returned message or session ids, so no probe was scored."
        known.sort(key=lambda memory: -_passed(memory.overall))
        most = _passed(known[0].overall)
        best = known[0]
        names = [memory.memory for memory in known if _passed(memory.overall) == most]
        weakest = min(best.probes, key=lambda name: best.probes[name].mean or 0.0)
        at, of = _passed(best.probes[weakest]), best.probes[weakest].n
        others = listed([f"{memory.memory} {_passed(memory.overall)}" for memory in known[len(names) :]], 3)
        more = f" ({others})" if others else ""
        if len(names) > 1:
            return f"{' and '.join(names)} pass {most} of {best.overall.n} questions each{more}."
        return f"{best.memory} passes {most} of {best.overall.n} questions{more}; lowest: {weakest} ({at} of {of})."


def _passed(mean: Mean) -> int:
    return round((mean.mean or 0.0) * mean.n)


def probe(
    memories: Sequence[MemoryConfiguration | str],
    *,
    seed: int | None = None,
    lives: int = 5,
    sessions: tuple[int, ...] = (10, 100),
    options: PrepareOptions = PrepareOptions(),
    spending: SpendingLimit | None = None,
    folders: Folders | None = None,
) -> ProbeReport:
    """Make lives, prepare them, and ask each memory and two controls about them, each question twice.

    Args:
        memories: configurations, or names of presets; controls among them are not repeated.
        seed: decides the lives: the same seed makes the same; None: new lives, or those of the same probe if it was
            interrupted.
        lives: number of histories of each length.
        sessions: lengths of the histories, 10 to 1,000 sessions.
        options: how the histories are prepared.
        spending: the most that calls of memories with models may cost.
        folders: the folders; None: from the environment.

    Raises:
        HarnessError: bad input, or a memory that cannot be prepared or asked.
    """
    folders = folders or Folders()
    configurations = _with_controls([as_configuration(memory) for memory in memories])
    asked = [lives, *sessions, *(configuration.model_dump_json() for configuration in configurations)]
    begun = folders.data_dir / "probes" / f"begun-{sha256_text(repr(asked))[:16]}"
    seed = _seed_in(begun) if seed is None else seed
    named = "-".join(map(str, (seed, lives, *sessions)))
    path = write_lives(folders.data_dir / "probes" / f"lives-{named}.json", seed, lives, sessions)
    write_atomic(begun, str(seed).encode())
    dataset = LivesDataset(path)
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
            model_options=options.model_options,
            twice=True,
        ),
        folders=folders,
    )
    order, shortest = benchmark_of(dataset).types.order, dataset.lives_of(min(sessions))
    found = []
    for configuration, run in zip(configurations, ranked.runs, strict=True):
        control = _control(configuration)
        trial = (
            lifecycle_of_control(control, shortest)
            if control
            else lifecycle_of(configuration, shortest, options=options, spending=spending, folders=folders)
        )
        found.append(_probed(configuration, run, order, trial))
    begun.unlink(missing_ok=True)
    memories_first = tuple(sorted(found, key=lambda memory: memory.control is not None))
    return ProbeReport(str(path), seed, lives, sessions, len(dataset), memories_first)


def _seed_in(begun: Path) -> int:
    """Return the seed of an interrupted probe, which its file has; if there is none, a new one."""
    with suppress(OSError, ValueError):
        return int(begun.read_bytes())
    return randbelow(10**6)


def _with_controls(configurations: Sequence[MemoryConfiguration]) -> list[MemoryConfiguration]:
    """Return the memories, and those controls that recall nothing, or the evidence, and are not among them."""
    present = {configuration.name for configuration in configurations}
    controls = [as_configuration(name) for name in MEMORIES.built_in if name not in present]
    return [*configurations, *(control for control in controls if _control(control))]


def _control(configuration: MemoryConfiguration) -> Control | None:
    definition = definition_of(configuration)
    if definition.reads_gold:
        return "ceiling"
    return "floor" if definition.control == "floor" else None


def _probed(configuration: MemoryConfiguration, run: RetrievalRun, order: Sequence[str], trial: Lifecycle) -> Probed:
    result = run.results[0]
    again = run.asked_twice
    return Probed(
        memory=configuration.name,
        control=_control(configuration),
        run_id=run.run_id,
        overall=result.measures[MEASURE],
        probes={name: result.by_type[name][MEASURE] for name in order if name in result.by_type},
        same_twice=1 - again.changed / again.n if again and again.n else None,
        lifecycle=trial,
        notes=(*result.notes, *trial.notes),
    )
