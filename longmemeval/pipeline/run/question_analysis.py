"""Have a chat model analyse the questions of a run before the first recall.

Recalling cannot do this: it happens inside the run's event loop, question by question, and must not block.
"""

from collections.abc import Callable, Sequence

from msgspec import Struct

from longmemeval.core.defaults import CONCURRENCY
from longmemeval.core.secrets.redaction import public_url
from longmemeval.llm.cache import CachedChatModel
from longmemeval.llm.costs import REPLIES, Account
from longmemeval.llm.http.endpoints import endpoint
from longmemeval.llm.options import ModelOptions, named, with_options
from longmemeval.llm.protocol import ChatModel
from longmemeval.llm.registry import load_chat_model
from longmemeval.memory.configuration import MemoryConfiguration, analysis_of
from longmemeval.pipeline.batches.batches import Batches
from longmemeval.pipeline.progress import progress
from longmemeval.pipeline.workers import run_bounded
from longmemeval.ranking.questions import AnalysisMethod, QuestionAnalysis, analyse_by_model
from longmemeval.records import Question, usage_of
from longmemeval.results.lines import AnalysisTotals
from longmemeval.results.settings import QueryModelSettings
from longmemeval.settings import Folders


class QueryModel(Struct, frozen=True):
    """The chat model that analyses questions."""

    spec: str
    options: ModelOptions = ModelOptions()
    concurrency: int = CONCURRENCY
    """Number of questions analysed at one time."""


class QuestionAnalyses:
    """A chat model's analyses of the questions of a run.

    Args:
        concurrency: number of questions analysed at one time.
        settings: the manifest's record of the model.
        batches: the batches that the model sends; None: it is called directly.
    """

    def __init__(
        self,
        method: AnalysisMethod,
        model: ChatModel,
        concurrency: int,
        settings: QueryModelSettings,
        batches: Batches | None = None,
    ) -> None:
        self._batches = batches
        self.settings = settings
        self._method = method
        self._model = model
        self._concurrency = concurrency
        self._analyses: dict[str, QuestionAnalysis] = {}

    def __call__(self, question: Question) -> QuestionAnalysis:
        """Return the analysis of `question`, which `ask` must have made."""
        return self._analyses[question.question_id]

    async def ask(self, questions: Sequence[Question]) -> None:
        """Analyse `questions`, several at a time.

        Args:
            questions: all that the memory will search for.

        Raises:
            FatalModelError: no call can succeed.
            SpendingLimitError, EndpointDownError: the rest has to wait; replies so far are cached.
        """
        with progress("analyse questions", len(questions)) as bar:

            async def ask(question: Question) -> None:
                self._analyses[question.question_id] = await analyse_by_model(self._model, question, self._method)
                bar.advance()

            if self._batches:
                await self._batches.run_bounded(questions, ask, {})
            else:
                await run_bounded(questions, ask, self._concurrency)

    @property
    def totals(self) -> AnalysisTotals:
        """The totals so far."""
        found = self._analyses.values()
        return AnalysisTotals(
            len(found),
            sum(analysis.fell_back for analysis in found),
            usage_of(found),
        )


def question_analyses(
    configuration: MemoryConfiguration,
    model: QueryModel | None,
    folders: Folders,
    account: Account | None = None,
    batched: Callable[[str, ModelOptions], Batches | None] | None = None,
) -> QuestionAnalyses | None:
    """Return the analyser of questions; None if the configuration wants no chat model, or there is none.

    Args:
        configuration: defines the analysis.
        model: the chat model. Its replies are cached: the same question is not paid for twice.
        account: records its calls and limits them.
        batched: from a model and its options to its batches; None: it is called directly.

    Raises:
        FatalModelError: the model cannot be called.
    """
    method = analysis_of(configuration)
    if model is None or not method.asks_model:
        return None
    spec, options = named(model.spec, model.options)
    base = endpoint(spec, options)
    batches = batched(spec, options) if batched else None
    chat: ChatModel = CachedChatModel(
        batches or load_chat_model(spec, options, account=account), folders.cache_dir / REPLIES, options=options
    )
    if batches:
        chat = batches.waiting(chat)
    address = public_url(base) if base else None
    settings = QueryModelSettings(
        with_options(model.spec), address, temperature=options.temperature or 0.0, templates=method.templates
    )
    return QuestionAnalyses(method, chat, model.concurrency, settings, batches)
