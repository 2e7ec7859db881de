"""Parts of a question, named by a chat model, and its time, found by rules or by a model."""

from typing import Literal

from msgspec import Struct, structs

from longmemeval.core.files import sha256_text
from longmemeval.core.text.dates_in_text.phrases import Resolution, TimeRange, resolve_range
from longmemeval.errors import ModelError
from longmemeval.llm.protocol import ChatModel
from longmemeval.ranking.questions import decompose, time_range
from longmemeval.records import Question, Usage

Analyst = Literal["rules", "model"]


class AnalysisMethod(Struct, frozen=True):
    """Method for each aspect of a question; None: it is not analysed."""

    parts: Literal["model"] | None = None
    time: Analyst | None = None

    @property
    def asks_model(self) -> bool:
        """True if a chat model is called."""
        return "model" in (self.parts, self.time)

    @property
    def templates(self) -> dict[str, str]:
        """Hashes of the prompts for the chat model, by aspect."""
        prompts = {}
        if self.parts == "model":
            prompts["decompose"] = decompose.shipped_prompt()
        if self.time == "model":
            prompts["time_range"] = time_range.shipped_prompt()
        return {name: sha256_text(prompt) for name, prompt in prompts.items()}


class QuestionAnalysis(Struct, frozen=True):
    """A question as prepared for the search."""

    queries: tuple[str, ...]
    """The question, then its parts."""
    range: TimeRange | None = None
    """Days it is about; None: no time is named, or times are not analysed."""
    notes: tuple[str, ...] = ()
    """Results that could not be used, with the reason."""
    usage: Usage = Usage()
    """Cost of calling a chat model."""
    fell_back: bool = False
    """True if a chat model failed: the rules are used for the time, the whole question for its parts."""


def analyse_by_rules(question: Question, method: AnalysisMethod) -> QuestionAnalysis:
    """Find the time by rules if `method` analyses it at all; no parts."""
    found = resolve_range(question.text, question.date) if method.time else Resolution(None)
    return QuestionAnalysis((question.text,), found.range, (found.note,) if found.note else ())


async def analyse_by_model(model: ChatModel, question: Question, method: AnalysisMethod) -> QuestionAnalysis:
    """Analyse with `model` the aspects that `method` assigns to it, one call each; other times by rules.

    If a call fails or its reply is unreadable, the rules find the time, or only the whole question is searched; a note
    says so.

    Args:
        model: sees the question and, for the time, its date; nothing else.

    Raises:
        FatalModelError: no call can succeed.
    """
    analysis = analyse_by_rules(question, method)
    # The time first: at this point the only notes are those of the rules about it.
    if method.time == "model":
        analysis = await _with_range(model, question, analysis)
    if method.parts == "model":
        analysis = await _with_parts(model, question, analysis)
    return analysis


async def _with_range(model: ChatModel, question: Question, analysis: QuestionAnalysis) -> QuestionAnalysis:
    try:
        found = await time_range.range_by_model(model, question.text, question.date)
    except ModelError as error:
        return _fallen_back(analysis, f"the time by rules: the model's call failed: {error.what}", Usage())
    if found.note:
        return _fallen_back(analysis, f"the time by rules: {found.note}", found.usage)
    return structs.replace(analysis, range=found.range, notes=(), usage=found.usage)


async def _with_parts(model: ChatModel, question: Question, analysis: QuestionAnalysis) -> QuestionAnalysis:
    try:
        found = await decompose.decompose_by_model(model, question.text)
    except ModelError as error:
        return _fallen_back(analysis, f"the whole question is searched: the model's call failed: {error.what}", Usage())
    if found.problem:
        return _fallen_back(analysis, f"the whole question is searched: {found.problem}", found.usage)
    return structs.replace(analysis, queries=tuple(found.queries), usage=analysis.usage + found.usage)


def _fallen_back(analysis: QuestionAnalysis, note: str, usage: Usage) -> QuestionAnalysis:
    """Return `analysis` with a note that says why the model's result is not used."""
    return structs.replace(analysis, notes=(*analysis.notes, note), usage=analysis.usage + usage, fell_back=True)
