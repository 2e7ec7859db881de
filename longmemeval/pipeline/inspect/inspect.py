"""Show a question, its haystack, the stored fixtures and what each configuration would recall, for `inspect`."""

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
    """The contents of one preparation for the haystack."""

    preparation: str
    folder: str
    parts: dict[str, PartInfo]
    shown: dict[str, str]
    """A description of each part's contents: how much it holds, or a document."""


class Recalled(Struct, frozen=True):
    """The recall of one configuration, or the reason why it has none."""

    memory: str
    recall: Recall | None
    problem: str = ""


class GoldAnswer(Struct, frozen=True):
    """The gold answer of a question, shown only on request."""

    question_id: str
    question_type: str
    answer: str
    evidence_sessions: tuple[str, ...]


class Inspection(Struct, frozen=True, omit_defaults=True):
    """Everything that `inspect` shows. Gold is not among it unless it was asked for."""

    haystack_id: str
    questions: tuple[Question, ...]
    sessions: tuple[Session, ...]
    stored: tuple[StoredFixture, ...]
    recalled: tuple[Recalled, ...]
    """The recalls for the first of `questions`."""
    answers: tuple[GoldAnswer, ...] = ()
    """The gold answers; only on request."""


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
        identifier: a question id or a haystack id.
        configurations: the memory configurations to recall with.
        preparation: the name of the preparation whose fixture the recall reads.
        query_model: analyses the question for configurations that want a chat model for it.
        with_gold: whether to show the gold answers.

    Raises:
        HarnessError: the data set has no such question or haystack.
    """
    questions = questions_on(dataset, identifier)
    haystack, opened = dataset.haystack(questions[0].haystack_id), open_fixtures()
    recalled = [
        _recall(
            dataset,
            questions[0],
            PreparedFixtures(dataset, preparation, where, configuration, opened),
            configuration,
            where,
            query_model,
        )
        for configuration in configurations
    ]
    return Inspection(
        haystack_id=haystack.haystack_id,
        questions=tuple(questions),
        sessions=haystack.sessions,
        stored=tuple(_stored(dataset.name, haystack.haystack_id, where, configurations)),
        recalled=tuple(recalled),
        answers=tuple(_gold(dataset, question) for question in questions) if with_gold else (),
    )


def _gold(dataset: Dataset, question: Question) -> GoldAnswer:
    gold = dataset.gold(question.question_id)
    return GoldAnswer(question.question_id, gold.question_type, str(gold.answer), gold.evidence_sessions)


def _stored(
    dataset: str, haystack_id: str, where: Folders, configurations: Sequence[MemoryConfiguration]
) -> list[StoredFixture]:
    known = known_parts() | {part.name: part for configuration in configurations for part in parts_of(configuration)}
    found = []
    for root in stored_folders(where.prepared_dir / safe_name(dataset)):
        folder = root / safe_name(haystack_id)
        meta = meta_of(folder, haystack_id)
        if meta is None:
            continue
        fixture = Fixture(folder, meta)
        shown = {name: part.shown(StoredPart(fixture, part)) for name, part in known.items() if part.info(meta)}
        descriptions = {name: text for name, text in shown.items() if text}
        found.append(StoredFixture(preparation=root.name, folder=str(folder), parts=meta.parts, shown=descriptions))
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
