"""Reading with tools: the model lists, searches and reads files in a limited number of steps, then answers."""

import json
import time
from collections.abc import Callable

import msgspec
from msgspec import Struct, structs

from longmemeval.core.event_loop import in_thread
from longmemeval.core.text.figures import count_of
from longmemeval.errors import ContextOverflowError, ModelError
from longmemeval.llm.protocol import ChatMessage, ChatModel, ChatReply, ToolCall
from longmemeval.llm.tokens import TokenCounter
from longmemeval.reading.configuration import ReadingConfiguration, Tools, prompt_limit
from longmemeval.reading.files import Files, ToolResult
from longmemeval.reading.outcome import REDACTED, UNKNOWN_REASON, Reading, empty_reply
from longmemeval.reading.overflow import Fitted
from longmemeval.reading.prompts import TOKENS_OF_A_MESSAGE, EncodedPrompt, Purpose, prompt_of, question_text
from longmemeval.reading.shown_items import message_ids_of, threads_of
from longmemeval.records import Answer, Question, Recall, RecalledItem, ToolStep, sum_latencies, usage_of

_CALLS = 8
"""Maximum tool calls in one reply; further ones are refused."""
_HISTORIES = 4
"""Number of recalls whose files are cached: the questions of a haystack share them."""


class _Talk(Struct):
    """The conversation about one question so far."""

    messages: list[ChatMessage]
    tokens: int
    """Tokens of `messages` and the description of the tools."""
    spent: int = 0
    """Tokens of all prompts sent so far."""
    replies: list[ChatReply] = []
    prompts: list[EncodedPrompt] = []
    steps: list[ToolStep] = []
    read: dict[int, RecalledItem] = {}
    """Messages that were shown in full, by identity, in the order of reading."""
    notes: list[str] = []
    tool_ms: float = 0.0


class ToolLoop:
    """Answers questions from files that a model reads with tools.

    Raises:
        HarnessError: the context window has no room for a prompt.
    """

    def __init__(
        self, configuration: ReadingConfiguration, tools: Tools, model: ChatModel, counter: TokenCounter
    ) -> None:
        self._configuration, self._tools = configuration, tools
        self._model, self._counter = model, counter
        self._steps, self._budget = configuration.options.steps or 0, configuration.options.prompt_budget
        self._window = prompt_limit(configuration, configuration.max_tokens)
        self._files: dict[int, tuple[tuple[RecalledItem, ...], Files]] = {}
        descriptions = [json.dumps(tool) for tool in tools.offered]
        self._reserve = sum(map(self._size, (tools.answer_now, *_CALLS * [tools.withheld]))) + configuration.max_tokens
        self._description_tokens = sum(map(counter.count, descriptions))

    async def read(self, question: Question, recall: Recall) -> Reading:
        """Answer a question from a recall, presented as files; the messages that the model read count as recalled.

        A call that fails for good gives an Answer with status `error`; errors that affect all questions are raised.
        """
        files, talk = await in_thread(self._begin, question, recall)
        failure: ModelError | None = None
        hypothesis = finish_reason = ""
        try:
            reply = await self._converse(question, recall, files, talk)
            hypothesis = reply.text.strip()
            finish_reason = reply.finish_reason or ("" if hypothesis else UNKNOWN_REASON)
            failure = None if hypothesis else empty_reply(reply, finish_reason)
        except ModelError as error:
            failure = error
        shown = tuple(talk.read.values())
        replies = talk.replies
        redacted = (REDACTED,) if any(reply.redacted for reply in replies) else ()
        answer = Answer(
            question_id=question.question_id,
            hypothesis=hypothesis,
            status="error" if failure else "ok",
            recall_ids=message_ids_of(shown),
            provenance=recall.provenance,
            recall_sessions=threads_of(shown) if recall.provenance == "session" else (),
            recall_tokens=sum(self._counter.count(item.text) for item in shown),
            prompt_tokens=talk.spent,
            prompt_sha256=talk.prompts[-1].sha256 if talk.prompts else "",
            usage=usage_of(replies),
            attempts=sum(reply.attempts for reply in replies),
            finish_reason=finish_reason,
            served_model=replies[-1].served_model if replies else "",
            error=str(failure) if failure else "",
            notes=(*recall.notes, *talk.notes, *redacted),
            dropped=0,
            recall_ms=recall.milliseconds + talk.tool_ms,
            latency_ms=sum_latencies(reply.latency_ms for reply in replies),
            tool_steps=tuple(talk.steps),
        )
        return Reading(answer, tuple(talk.prompts), failure)

    def _begin(self, question: Question, recall: Recall) -> tuple[Files, _Talk]:
        key, items = id(recall.items), recall.items
        cached = self._files.get(key)
        if cached is None or cached[0] is not items:
            cached = self._files[key] = items, Files(items, self._configuration.options.history_format)
            while len(self._files) > _HISTORIES:
                del self._files[next(iter(self._files))]
        files = cached[1]
        template = (self._configuration.options_template if question.options else None) or self._configuration.template
        values = {"history": str(files), "question_date": question.date_text, "question": question_text(question)}
        first = ChatMessage("user", template.fill(values))
        return files, _Talk([first], self._size(first.content) + self._description_tokens)

    async def _converse(self, question: Question, recall: Recall, files: Files, talk: _Talk) -> ChatReply:
        """Return the reply that answers the question.

        Raises:
            ContextOverflowError: the window or the budget has no room for a single step.
            ModelError: a call failed for good.
        """
        for step in range(self._steps + 1):
            ends = step == self._steps or not self._room_for_step(talk)
            if ends and step < self._steps:
                if not step:
                    raise ContextOverflowError(
                        f"The prompt has {talk.tokens} tokens, and window or --prompt-budget have no room for a step"
                    )
                talk.notes.append(f"files: had to answer after {count_of(step, 'step')}, for want of room")
            reply = await self._call(question, recall, talk, ends=ends)
            if ends or not reply.tool_calls:
                return reply
            await in_thread(self._answer_calls, files, talk, reply)
        raise AssertionError("the last step answers")

    async def _call(self, question: Question, recall: Recall, talk: _Talk, *, ends: bool) -> ChatReply:
        if ends:
            talk.messages.append(ChatMessage("user", self._tools.answer_now))
            talk.tokens += self._size(self._tools.answer_now)
        shown = structs.replace(recall, items=tuple(talk.read.values()))
        fitted = Fitted(tuple(talk.messages), talk.tokens, shown)
        purpose: Purpose = "answer" if ends else "step"
        prompt = prompt_of(question, purpose, fitted, self._configuration.max_tokens, self._configuration.temperature)
        request = structs.replace(prompt.request, tools=self._tools.offered, must_answer=ends)
        talk.prompts.append(prompt.sent)
        talk.spent += talk.tokens
        talk.replies.append(await self._model.complete(request))
        return talk.replies[-1]

    def _room_for_step(self, talk: _Talk) -> bool:
        """Return whether another call still fits after one with tools, since it may have to answer."""
        budget, needed = self._budget, talk.tokens + self._reserve
        in_budget = budget is None or talk.spent + talk.tokens + needed <= budget
        return in_budget and (self._window is None or needed <= self._window)

    def _answer_calls(self, files: Files, talk: _Talk, reply: ChatReply) -> None:
        """Make the tool calls of a reply; a result that leaves no room for the answer is visibly withheld."""
        started = time.perf_counter()
        calls = reply.tool_calls[:_CALLS]
        if refused := len(reply.tool_calls) - len(calls):
            talk.notes.append(f"files: {count_of(refused, 'call')} beyond {_CALLS} of one reply not made")
        talk.messages.append(ChatMessage("assistant", reply.text, calls))
        talk.tokens += self._size(reply.text) + sum(self._counter.count(call.arguments) for call in calls)
        none, last = self._size(self._tools.withheld), self._size(self._tools.answer_now)
        for left, call in zip(reversed(range(len(calls))), calls, strict=True):
            result = _call_tool(files, call)
            if not self._fits(talk, talk.tokens + self._size(result.text) + left * none + last):
                result = ToolResult(self._tools.withheld, outcome=f"withheld: {result.outcome}")
            talk.messages.append(ChatMessage("tool", result.text, tool_call_id=call.id))
            talk.tokens += self._size(result.text)
            talk.read |= {id(item): item for item in result.items}
            talk.steps.append(ToolStep(call.name, call.arguments, result.outcome, message_ids_of(result.items)))
        talk.tool_ms += (time.perf_counter() - started) * 1000

    def _fits(self, talk: _Talk, tokens: int) -> bool:
        budget = self._budget
        return (budget is None or talk.spent + tokens <= budget) and (self._window is None or tokens <= self._window)

    def _size(self, text: str) -> int:
        return self._counter.count(text) + TOKENS_OF_A_MESSAGE


class _List(Struct, forbid_unknown_fields=True):
    page: int = 1


class _Search(Struct, forbid_unknown_fields=True):
    query: str
    page: int = 1


class _Read(Struct, forbid_unknown_fields=True):
    name: str
    from_message: int = 1


_ARGUMENTS = {"list_files": _List, "search_files": _Search, "read_file": _Read}
"""Arguments of each tool, as `files_tools.json` describes them."""


def _call_tool(files: Files, call: ToolCall) -> ToolResult:
    """Return the result of a tool call; if the model made a mistake, the result tells it so."""
    if call.name not in _ARGUMENTS:
        return ToolResult(f"There is no tool '{call.name}'.", outcome="no such tool")
    try:
        arguments = msgspec.json.decode(call.arguments or "{}", type=_ARGUMENTS[call.name])
    except msgspec.DecodeError as error:
        return ToolResult(f"The arguments are not as described: {error}", outcome="wrong arguments")
    tool: Callable[..., ToolResult] = getattr(files, call.name)
    return tool(**structs.asdict(arguments))
