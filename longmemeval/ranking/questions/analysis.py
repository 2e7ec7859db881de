"""What a question is searched by: its parts, which a chat model names, and its time, found by rules or by a model."""

from typing import Literal

from msgspec import Struct, structs

from longmemeval.core.files import sha256_text
from longmemeval.core.text.dates_in_text.questions import Resolution, TimeRange, resolve_range
from longmemeval.errors import ModelError
from longmemeval.llm.protocol import ChatModel
from longmemeval.ranking.questions import decompose, time_range
from longmemeval.records import Question, Usage

Analyst = Literal["rules", "model"]


class AnalysisMethod(Struct, frozen=True):
    """Who looks for what in a question; None: it is not looked for."""

    parts: Literal["model"] | None = None
    time: Analyst | None = None

    @property
    def asks_model(self) -> bool:
        """Whether a chat model is asked."""
        return "model" in (self.parts, self.time)

    @property
    def templates(self) -> dict[str, str]:
        """The hashes of the prompts a chat model is asked with, by what is looked for."""
        prompts = {}
        if self.parts == "model":
            prompts["decompose"] = decompose.shipped_prompt()
        if self.time == "model":
            prompts["time_range"] = time_range.shipped_prompt()
        return {name: sha256_text(prompt) for name, prompt in prompts.items()}


class QuestionAnalysis(Struct, frozen=True):
    """A question as it is searched for."""

    queries: tuple[str, ...]
    """The question, then its parts."""
    range: TimeRange | None = None
    """The days it is about; None: no time is named, or times are not looked at."""
    notes: tuple[str, ...] = ()
    """What of it could not be used, and why."""
    usage: Usage = Usage()
    """What asking a chat model cost."""
    fell_back: bool = False
    """Whether a chat model was of no use: the rules stand in for the time, the whole question for its parts."""


def analyse_by_rules(question: Question, method: AnalysisMethod) -> QuestionAnalysis:
    """The time by rules if `method` looks for it, whoever it names; no parts."""
    found = resolve_range(question.text, question.date) if method.time else Resolution(None)
    return QuestionAnalysis((question.text,), found.range, (found.note,) if found.note else ())


async def analyse_by_model(model: ChatModel, question: Question, method: AnalysisMethod) -> QuestionAnalysis:
    """What `model` finds where `method` names it, one call for each; a time it is not asked for, the rules find.

    Where a call fails or its reply cannot be read, the rules find the time and the whole question is searched alone;
    a note says so.

    Args:
        model: sees the question and, for the time, its date; nothing else.
        question: what is asked.
        method: who looks for what.

    Raises:
        FatalModelError: no call can succeed.
    """
    analysis = analyse_by_rules(question, method)
    # The time first: until then the only notes are those of the rules on it.
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
    """`analysis` as it is, with why it is no better."""
    return structs.replace(analysis, notes=(*analysis.notes, note), usage=analysis.usage + usage, fell_back=True)
