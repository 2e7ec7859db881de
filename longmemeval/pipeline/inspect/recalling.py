"""Recall for one question repeatedly, with various memories: for `inspect` and the recall explorer."""

from collections.abc import Callable, Mapping
from functools import partial
from threading import Lock

from msgspec import Struct, structs

from longmemeval.core.event_loop import complete
from longmemeval.dataset import Dataset
from longmemeval.errors import HarnessError, nearest
from longmemeval.llm.options import ModelOptions
from longmemeval.llm.tokens import TokenCounter, token_counter
from longmemeval.memory.asking import recall_of
from longmemeval.memory.configuration import MEMORIES, MemoryConfiguration, analysis_of, build_memory, definition_of
from longmemeval.memory.protocol import ExplainsScores, MemoryTools
from longmemeval.pipeline.prepare.access import PreparedFixtures, open_fixtures
from longmemeval.pipeline.prepare.query_vectors import QueryVectors, query_vectors
from longmemeval.pipeline.run.question_analysis import QueryModel, question_analyses
from longmemeval.ranking.rerank import load_reranker
from longmemeval.records import Haystack, Question, Recall
from longmemeval.settings import Folders

Lend = Callable[[MemoryTools], MemoryTools]
_HERE = partial(load_reranker, here=True)


def _unchanged(tools: MemoryTools) -> MemoryTools:
    return tools


class Recalled(Struct, frozen=True):
    """The recall of one configuration, or the reason why it has none."""

    memory: str
    recall: Recall | None
    problem: str = ""


class Explained(Struct, frozen=True):
    """A recall, and the ingredients of its scores."""

    recall: Recall
    ingredients: Mapping[str, Mapping[str, float]]
    """Weighted ingredients by message id and name; empty if the memory does not give them."""


class Recaller:
    """Recalls from one preparation. Fixtures and embedders stay open, so that only the first recall waits for them.

    Args:
        preparation: name of the preparation whose fixtures are read.
        counter: counts the tokens of recalls; None: as for an offline model.
    """

    def __init__(
        self, dataset: Dataset, preparation: str, folders: Folders, counter: TokenCounter | None = None
    ) -> None:
        self._dataset = dataset
        self._preparation = preparation
        self._folders = folders
        self._counter = counter or token_counter("offline/extractive")
        self._opened = open_fixtures()
        self._vectors: dict[object, QueryVectors] = {}
        self._lock = Lock()

    def recall(
        self,
        question: Question,
        configuration: MemoryConfiguration,
        *,
        lend: Lend = _unchanged,
        query_model: QueryModel | None = None,
        explain: bool = False,
    ) -> Explained:
        """Return the recall of a configuration, with its tokens counted.

        Args:
            question: any question on a haystack of the data.
            lend: changes the tools of the memory, which hold nothing of the evidence.
            query_model: analyses the question for configurations that use a chat model for it.
            explain: True to include the ingredients of the scores.

        Raises:
            HarnessError: the fixture lacks something, or the memory failed.
        """
        fixtures = PreparedFixtures(self._dataset, self._preparation, self._folders, configuration, self._opened)
        fixture = fixtures.open(question.haystack_id)
        analyses = question_analyses(configuration, query_model, self._folders)
        if analyses:
            complete(analyses.ask([question]))
        vectors = self._vectors_of(fixtures, question)
        tools = MemoryTools(vectors, analyse=analyses, count_tokens=self._counter.count, reranker=_HERE)
        memory = build_memory(configuration, lend(tools))
        recall = complete(recall_of(memory, question, fixture))
        ingredients = memory.ingredients(question, fixture) if explain and isinstance(memory, ExplainsScores) else {}
        tokens = sum(self._counter.count(item.text) for item in recall.items)
        return Explained(structs.replace(recall, tokens=tokens), ingredients)

    def _vectors_of(self, fixtures: PreparedFixtures, question: Question) -> QueryVectors:
        identity = fixtures.embedder_of([question])
        key = None if identity is None else identity.fingerprint
        with self._lock:
            if key not in self._vectors:
                self._vectors[key] = query_vectors([], identity, None, ModelOptions(), self._folders)
            return self._vectors[key]


def recall_or_problem(
    recaller: Recaller,
    question: Question,
    configuration: MemoryConfiguration,
    *,
    lend: Lend = _unchanged,
    query_model: QueryModel | None = None,
) -> Recalled:
    """Return the recall of a configuration, or the reason why it has none; arguments as for `Recaller.recall`."""
    try:
        found = recaller.recall(question, configuration, lend=lend, query_model=query_model)
    except HarnessError as error:
        return Recalled(configuration.name, None, str(error))
    return Recalled(configuration.name, found.recall)


def why_not_again(configuration: MemoryConfiguration) -> str:
    """Return why a memory cannot recall without calling a model and reading evidence; empty if it can."""
    if configuration.preset not in MEMORIES.built_in:
        return f"'{configuration.name}' does not come with this package: see its recalls in its own runs"
    if definition_of(configuration).reads_gold:
        return f"'{configuration.name}' reads the evidence, and shows it whatever is set"
    if analysis_of(configuration).asks_model:
        return f"'{configuration.name}' has a chat model analyse the question, and none is called here"
    return ""


# Find one haystack of a dataset by its own id or by that of a question.


def questions_on(dataset: Dataset, identifier: str) -> list[Question]:
    """Return the question of that id, or all questions on the haystack of that id.

    Raises:
        HarnessError: the dataset has no such question or haystack.
    """
    questions = list(dataset.questions())
    matching = [question for question in questions if identifier in (question.question_id, question.haystack_id)]
    if not matching:
        known = {name for question in questions for name in (question.question_id, question.haystack_id)}
        raise HarnessError(
            f"Dataset '{dataset.name}' has no question or haystack '{identifier}'", fix=nearest(identifier, known)
        )
    return matching


def haystack_named(dataset: Dataset, identifier: str) -> Haystack:
    """Return the haystack of that id, or that of the question of that id.

    Raises:
        HarnessError: as for `questions_on`.
    """
    return dataset.haystack(questions_on(dataset, identifier)[0].haystack_id)
