"""`inspect`: what a question asks, what its haystack holds, what is stored, what each configuration would recall."""

from collections.abc import Sequence

from msgspec import Struct, structs

from longmemeval.core.event_loop import complete
from longmemeval.core.files import safe_name
from longmemeval.dataset import Dataset
from longmemeval.errors import HarnessError
from longmemeval.llm.tokens import token_counter
from longmemeval.memory.configuration import MemoryConfiguration, build_memory, parts_of
from longmemeval.memory.definition import known_parts
from longmemeval.memory.faults import recall_of
from longmemeval.memory.gold import gold_for
from longmemeval.memory.protocol import MemoryTools
from longmemeval.pipeline.inspect.history import questions_on
from longmemeval.pipeline.prepare.access import PreparedFixtures, open_fixtures
from longmemeval.pipeline.prepare.query_vectors import query_vectors
from longmemeval.pipeline.run.question_analysis import QueryModel, question_analyses
from longmemeval.records import PartInfo, Question, Recall, Session
from longmemeval.settings import Folders
from longmemeval.storage.fixture import Fixture, StoredPart, meta_of, stored_folders


class StoredFixture(Struct, frozen=True):
    """What one preparation holds of the haystack."""

    preparation: str
    folder: str
    parts: dict[str, PartInfo]
    shown: dict[str, str]
    """What parts say of themselves, by part: how much they hold, or a document."""


class Recalled(Struct, frozen=True):
    """What one configuration would recall, or why it cannot."""

    memory: str
    recall: Recall | None
    problem: str = ""


class GoldAnswer(Struct, frozen=True):
    """What the data holds to be right, for those who ask to see it."""

    question_id: str
    question_type: str
    answer: str
    evidence_sessions: tuple[str, ...]


class Inspection(Struct, frozen=True, omit_defaults=True):
    """Everything `inspect` shows. Gold is not among it unless it was asked for."""

    haystack_id: str
    questions: tuple[Question, ...]
    sessions: tuple[Session, ...]
    stored: tuple[StoredFixture, ...]
    recalled: tuple[Recalled, ...]
    """For the first of `questions`."""
    answers: tuple[GoldAnswer, ...] = ()
    """Only where they were asked for."""


def inspect(
    dataset: Dataset,
    identifier: str,
    configurations: Sequence[MemoryConfiguration],
    *,
    preparation: str,
    where: Folders,
    query_model: QueryModel | None = None,
    with_gold: bool = False,
) -> Inspection:
    """Look at one question or haystack.

    Args:
        dataset: what it is from.
        identifier: a question id or a haystack id.
        configurations: the memory configurations to recall with.
        preparation: whose fixture the recall reads.
        where: the folders.
        query_model: who analyses the question where a configuration wants a chat model for it.
        with_gold: whether to show the right answers.

    Raises:
        HarnessError: the data set has no such question or haystack.
    """
    asked = questions_on(dataset, identifier)
    haystack, opened = dataset.haystack(asked[0].haystack_id), open_fixtures()
    recalled = [
        _recall(dataset, asked[0], PreparedFixtures(dataset, preparation, where, one, opened), one, where, query_model)
        for one in configurations
    ]
    return Inspection(
        haystack_id=haystack.haystack_id,
        questions=tuple(asked),
        sessions=haystack.sessions,
        stored=tuple(_stored(dataset.name, haystack.haystack_id, where, configurations)),
        recalled=tuple(recalled),
        answers=tuple(_gold(dataset, one) for one in asked) if with_gold else (),
    )


def _gold(dataset: Dataset, question: Question) -> GoldAnswer:
    gold = dataset.gold(question.question_id)
    return GoldAnswer(question.question_id, gold.question_type, str(gold.answer), gold.evidence_sessions)


def _stored(
    dataset: str, haystack_id: str, where: Folders, configurations: Sequence[MemoryConfiguration]
) -> list[StoredFixture]:
    known = known_parts() | {part.name: part for one in configurations for part in parts_of(one)}
    found = []
    for root in stored_folders(where.prepared_dir / safe_name(dataset)):
        folder = root / safe_name(haystack_id)
        meta = meta_of(folder, haystack_id)
        if meta is None:
            continue
        fixture = Fixture(folder, meta)
        shown = {name: part.shown(StoredPart(fixture, part)) for name, part in known.items() if part.info(meta)}
        said = {name: text for name, text in shown.items() if text}
        found.append(StoredFixture(preparation=root.name, folder=str(folder), parts=meta.parts, shown=said))
    return found


def _recall(
    dataset: Dataset,
    question: Question,
    fixtures: PreparedFixtures,
    configuration: MemoryConfiguration,
    where: Folders,
    query_model: QueryModel | None,
) -> Recalled:
    try:
        fixture = fixtures.open(question.haystack_id)
        vectors = query_vectors([question], fixtures.embedder_of([question]), None, None, where)
        analyses = question_analyses(configuration, query_model, where)
        if analyses:
            complete(analyses.ask([question]))
        memory = build_memory(configuration, MemoryTools(vectors, gold_for(configuration, dataset), analyse=analyses))
        recall = complete(recall_of(memory, question, fixture))
    except HarnessError as error:
        return Recalled(configuration.name, None, str(error))
    counter = token_counter("offline/extractive")
    return Recalled(
        configuration.name, structs.replace(recall, tokens=sum(counter.count(item.text) for item in recall.items))
    )
