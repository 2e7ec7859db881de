"""Show a question, its haystack, the stored fixtures and what each configuration would recall, for `inspect`."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from msgspec import Struct

from longmemeval.core.files import safe_name
from longmemeval.dataset import Dataset
from longmemeval.errors import HarnessError, nearest
from longmemeval.memory.built_in.presets import gold_for
from longmemeval.memory.configuration import MemoryConfiguration, known_parts, parts_of
from longmemeval.memory.protocol import MemoryTools
from longmemeval.pipeline.inspect.answered import RunAnswer, run_answer
from longmemeval.pipeline.inspect.recalling import Recalled, Recaller, questions_on, recall_or_problem
from longmemeval.pipeline.run.question_analysis import QueryModel
from longmemeval.records import PartInfo, Question, Session
from longmemeval.settings import Folders
from longmemeval.storage.fixture import Fixture, StoredPart, fixture_folder, meta_of, stored_folders
from longmemeval.storage.parts import Part
from longmemeval.storage.vectors_part import VectorsPart


class StoredFixture(Struct, frozen=True):
    """The contents of one preparation for the haystack."""

    preparation: str
    folder: str
    parts: dict[str, PartInfo]
    shown: dict[str, str]
    """A description of each part's contents: how much it holds, or a document."""


class GoldAnswer(Struct, frozen=True):
    """The gold answer of a question, shown only on request."""

    question_id: str
    question_type: str
    answer: str
    evidence_sessions: tuple[str, ...]


class Inspection(Struct, frozen=True, omit_defaults=True):
    """Everything that `inspect` shows. Gold is included only on request."""

    haystack_id: str
    questions: tuple[Question, ...]
    sessions: tuple[Session, ...]
    stored: tuple[StoredFixture, ...]
    recalled: tuple[Recalled, ...]
    """The recalls for the first of `questions`."""
    answers: tuple[GoldAnswer, ...] = ()
    """The gold answers; only on request."""
    runs: tuple[RunAnswer, ...] = ()
    """The answers of runs to the first of `questions`; only on request."""

    def sessions_of(self, session_id: str) -> list[Session]:
        """Return the sessions of that id: one, unless the data has the id twice.

        Raises:
            HarnessError: the haystack has none; names the nearest.
        """
        found = [session for session in self.sessions if session.session_id == session_id]
        if not found:
            fix = nearest(session_id, [session.session_id for session in self.sessions])
            raise HarnessError(f"The haystack has no session '{session_id}'", fix=fix)
        return found


def inspect(
    dataset: Dataset,
    identifier: str,
    configurations: Sequence[MemoryConfiguration],
    *,
    preparation: str,
    folders: Folders,
    query_model: QueryModel | None = None,
    with_gold: bool = False,
    runs: Sequence[str] = (),
) -> Inspection:
    """Look at one question or haystack.

    Args:
        identifier: a question id or a haystack id.
        configurations: the memory configurations to recall with.
        preparation: the name of the preparation whose fixture the recall reads.
        query_model: analyses the question for configurations that use a chat model for it.
        with_gold: True to show the gold answers.
        runs: runs whose answers are shown.

    Raises:
        HarnessError: the dataset has no such question or haystack, or a run no answer to it.
    """
    questions = questions_on(dataset, identifier)
    haystack = dataset.haystack(questions[0].haystack_id)
    recaller = Recaller(dataset, preparation, folders)
    recalled = [
        recall_or_problem(
            recaller,
            questions[0],
            configuration,
            lend=partial(_with_evidence, dataset, configuration),
            query_model=query_model,
        )
        for configuration in configurations
    ]
    return Inspection(
        haystack_id=haystack.haystack_id,
        questions=tuple(questions),
        sessions=haystack.sessions,
        stored=tuple(_stored(dataset.name, haystack.haystack_id, folders, configurations)),
        recalled=tuple(recalled),
        answers=tuple(_gold(dataset, question) for question in questions) if with_gold else (),
        runs=tuple(run_answer(folders.results_dir, run, questions[0].question_id) for run in runs),
    )


def _with_evidence(dataset: Dataset, configuration: MemoryConfiguration, tools: MemoryTools) -> MemoryTools:
    """Return the tools with the evidence, for the oracle alone."""
    return replace(tools, gold=gold_for(configuration, dataset))


def _gold(dataset: Dataset, question: Question) -> GoldAnswer:
    gold = dataset.gold(question.question_id)
    return GoldAnswer(question.question_id, gold.question_type, gold.answer_text, gold.evidence_sessions)


class VectorRow(Struct, frozen=True):
    """One stored vector with its numbers."""

    part: str
    """The part of the fixture, such as `vector`."""
    id: str
    """Id of the message, or of what else the part has a vector for."""
    thread_id: str
    index: int
    vector: list[float]
    """Nine digits of each number, from which its 32 bits follow; the length of the vector is 1 or 0."""


def stored_vectors(
    dataset: Dataset,
    identifier: str,
    configurations: Sequence[MemoryConfiguration],
    *,
    preparation: str,
    folders: Folders,
) -> Iterator[VectorRow]:
    """Iterate over the vectors of one haystack's fixture, part after part, as stored; arguments as for `inspect`.

    Raises:
        HarnessError: the dataset has no such question or haystack, it is not prepared, or without vectors.
    """
    haystack_id = questions_on(dataset, identifier)[0].haystack_id
    folder = fixture_folder(folders.prepared_dir, dataset.name, preparation, haystack_id)
    meta = meta_of(folder, haystack_id)
    parts = [part for part in _known(configurations).values() if isinstance(part, VectorsPart)]
    stored = [part for part in parts if meta and part.info(meta)]
    if meta is None or not stored:
        lacks = "is not prepared" if meta is None else "was prepared without vectors"
        fix = f"Run `longmemeval prepare --dataset {dataset.name} --name {preparation} --memory hybrid`"
        raise HarnessError(f"Haystack '{haystack_id}' {lacks}", where=str(folder), fix=fix)
    fixture = Fixture(folder, meta)
    for part in stored:
        for item, vector in zip(*fixture.part(part).rows(), strict=True):
            numbers = [float(f"{number:.9g}") for number in vector.tolist()]
            yield VectorRow(part.name, item.id, item.thread_id, item.index, numbers)


def _known(configurations: Sequence[MemoryConfiguration]) -> dict[str, Part[Any]]:
    return known_parts() | {part.name: part for configuration in configurations for part in parts_of(configuration)}


def _stored(
    dataset: str, haystack_id: str, folders: Folders, configurations: Sequence[MemoryConfiguration]
) -> list[StoredFixture]:
    known = _known(configurations)
    found = []
    for root in stored_folders(folders.prepared_dir / safe_name(dataset)):
        folder = root / safe_name(haystack_id)
        meta = meta_of(folder, haystack_id)
        if meta is None:
            continue
        fixture = Fixture(folder, meta)
        shown = {name: part.shown(StoredPart(fixture, part)) for name, part in known.items() if part.info(meta)}
        descriptions = {name: text for name, text in shown.items() if text}
        found.append(StoredFixture(preparation=root.name, folder=str(folder), parts=meta.parts, shown=descriptions))
    return found
