"""Reading with tools: the model lists, searches and reads files in a limited number of steps, then answers."""

import json
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from itertools import groupby
from math import log
from typing import TypeVar

import msgspec
from msgspec import Struct, structs

from longmemeval.core.event_loop import in_thread
from longmemeval.core.text.figures import count_of
from longmemeval.core.text.words import content_words
from longmemeval.errors import ContextOverflowError, EmptyReplyError, ModelError, RecallError, nearest
from longmemeval.llm.protocol import ChatMessage, ChatModel, ChatReply, ToolCall
from longmemeval.llm.thoughts import reasoning_in
from longmemeval.llm.tokens import TokenCounter
from longmemeval.reading.configuration import ReadingConfiguration, Tools, prompt_limit
from longmemeval.reading.options import HistoryFormat
from longmemeval.reading.prompts import (
    TOKENS_OF_A_MESSAGE,
    Chunk,
    EncodedPrompt,
    Fitted,
    Purpose,
    prompt_of,
    question_text,
    render_chunk,
)
from longmemeval.records import Answer, Question, Recall, RecalledItem, ToolStep, asked_of, sum_latencies, usage_of

# The messages of a recall as dated text files, and the three tools over them: list, search and read.
#
# A file is a session, named by a running number and its day, never by the session's id, which may reveal its purpose.

T = TypeVar("T")
_LISTED = 100
_HITS = 10
_BEGINNING = 300
"""Characters of a message that a search shows."""
_PART = 12_000
"""Characters of a file that one call reads; a single longer message is shown in full."""


class ToolResult(Struct, frozen=True):
    """The result of a tool call."""

    text: str
    items: tuple[RecalledItem, ...] = ()
    """Messages that the text shows in full."""
    outcome: str = ""
    """The outcome in a few words, for the record."""


class TextFile(Struct, frozen=True):
    """One session."""

    name: str
    items: tuple[RecalledItem, ...]


class Files:
    """The files of one recall.

    Args:
        items: oldest first. Items that are not messages (facts, summaries) are in files of their own.
        history_format: the layout of a file's text.
    """

    def __init__(self, items: Sequence[RecalledItem], history_format: HistoryFormat) -> None:
        self._format = history_format
        groups = [tuple(group) for _, group in groupby(items, key=_session)]
        self._files = {
            name: TextFile(name, group)
            for number, group in enumerate(groups, start=1)
            for name in [f"{number:03}_{_day(group[0])}.txt"]
        }

    def __str__(self) -> str:
        names = list(self._files)
        return f"{count_of(len(names), 'file')}, {names[0]} to {names[-1]}." if names else "there are none."

    def list_files(self, page: int = 1) -> ToolResult:
        """Return one page of names and sizes."""
        files = list(self._files.values())
        lines = [f"{file.name}: {count_of(len(file.items), 'message')}" for file in _page(files, page, _LISTED)]
        shown = "\n".join([*lines, *_more(len(files), page, _LISTED)]) or "There are no files."
        return ToolResult(shown, outcome=count_of(len(lines), "file"))

    def search_files(self, query: str, page: int = 1) -> ToolResult:
        """Return the messages that share the most words with a query; rare words count more."""
        wanted = set(content_words(query))
        scored = [
            (sum(self._rarity[word] for word in wanted & words), -place)
            for place, (_, _, _, words) in enumerate(self._messages)
            if wanted & words
        ]
        places = [-place for _, place in sorted(scored, reverse=True)]
        hits = [self._messages[place] for place in _page(places, page, _HITS)]
        lines = [f"{name}, message {number}: {_beginning(item)}" for name, number, item, _ in hits]
        text = "\n".join([*lines, *_more(len(places), page, _HITS)]) or "No message has any of these words."
        whole = tuple(item for _, _, item, _ in hits if len(_line(item)) <= _BEGINNING)
        return ToolResult(text, whole, count_of(len(hits), "hit"))

    def read_file(self, name: str, from_message: int = 1) -> ToolResult:
        """Return messages of a file from a given one on, as many as fit one reply."""
        file = self._files.get(name)
        if file is None:
            return ToolResult(f"There is no file '{name}'. {nearest(name, self._files)}", outcome="no such file")
        first = max(from_message, 1)
        shown = list(file.items[first - 1 : first])
        for item in file.items[first:]:
            if sum(len(_line(message)) for message in (*shown, item)) > _PART:
                break
            shown.append(item)
        if not shown:
            return ToolResult(f"{name} has {count_of(len(file.items), 'message')}.", outcome="no such message")
        last = first + len(shown) - 1
        text = render_chunk(Chunk(shown[0].date, tuple(shown)), self._format)
        if last < len(file.items):
            text += f"\n\n(messages {first} to {last} of {len(file.items)}; read on with from_message {last + 1})"
        return ToolResult(text, tuple(shown), f"messages {first} to {last} of {len(file.items)}")

    @cached_property
    def _messages(self) -> list[tuple[str, int, RecalledItem, set[str]]]:
        """Each message with its file, its number there and its words."""
        return [
            (file.name, number, item, set(content_words(item.text)))
            for file in self._files.values()
            for number, item in enumerate(file.items, start=1)
        ]

    @cached_property
    def _rarity(self) -> dict[str, float]:
        """The weight of each word: ln(1 + messages / messages with it)."""
        counts = Counter(word for _, _, _, words in self._messages for word in words)
        return {word: log(1 + len(self._messages) / count) for word, count in counts.items()}


def _session(item: RecalledItem) -> tuple[object, ...]:
    return item.kind == "message", item.thread_ids, item.date and item.date.date()


def _day(item: RecalledItem) -> str:
    return f"{item.date:%Y-%m-%d}" if item.date else "undated"


def _line(item: RecalledItem) -> str:
    text = item.text.strip()
    return f"{item.speaker}: {text}" if item.speaker else text


def _beginning(item: RecalledItem) -> str:
    line = " ".join(_line(item).split())
    return line if len(_line(item)) <= _BEGINNING else f"{line[:_BEGINNING]} …"


def _page(items: Sequence[T], page: int, size: int) -> Sequence[T]:
    return items[(max(page, 1) - 1) * size : max(page, 1) * size]


def _more(count: int, page: int, size: int) -> list[str]:
    left = count - max(page, 1) * size
    return [f"({left:,} more: page {max(page, 1) + 1})"] if left > 0 else []


# The outcome of reading one question.

REDACTED = "the server repeated a secret, which was taken out of its reply"
UNKNOWN_REASON = "unknown"
"""Finish reason of a reply that gives none."""


class Reading(Struct, frozen=True):
    """The outcome for one question."""

    answer: Answer
    prompts: tuple[EncodedPrompt, ...]
    failure: ModelError | RecallError | None = None
    """Reason why there is no answer; its type says whether other questions will fail too."""


def empty_reply(reply: ChatReply, finish_reason: str) -> EmptyReplyError:
    """Return the failure of a call whose reply has no text."""
    tries = f"{reply.attempts} attempts" if reply.attempts > 1 else "1 attempt"
    spent = "Begin a new run with a higher --max-tokens: the model used them up, in reasoning perhaps, before answering"
    return EmptyReplyError(
        f"The reply is empty ({reply.ending}; {tries})",
        fix=spent if finish_reason == "length" else "",
    )


def notes_on(replies: Sequence[ChatReply]) -> tuple[str, ...]:
    """Return notes on the replies to one question: those before the answer that broke off, and secrets."""
    early = Counter(reply.finish_reason for reply in replies[:-1] if reply.broke_off)
    notes = [f"{count_of(n, 'reply', 'replies')} before the answer broke off ({reason})" for reason, n in early.items()]
    return (*notes, *((REDACTED,) if any(reply.redacted for reply in replies) else ()))


# Message ids and threads of the items of a recall.


def not_shown(found: Sequence[str], shown: Collection[str]) -> tuple[str, ...]:
    """Return the messages that were found but did not reach the model."""
    reached = set(shown)
    return tuple(message_id for message_id in dict.fromkeys(found) if message_id not in reached)


def threads_of(items: tuple[RecalledItem, ...]) -> tuple[str, ...]:
    """Return the threads of items, each once, in order."""
    return tuple(dict.fromkeys(thread_id for item in items for thread_id in item.thread_ids))


def message_ids_of(items: tuple[RecalledItem, ...]) -> tuple[str, ...]:
    """Return the ids of the messages that items repeat or were made from, in order."""
    return tuple(message_id for item in items for message_id in item.message_ids)


def note_item(messages: tuple[RecalledItem, ...], note: str) -> RecalledItem:
    """Return the item that replaces the messages of a session about which `note` was taken."""
    return msgspec.structs.replace(
        messages[0],
        text=note,
        message_ids=tuple(message_id for message in messages for message_id in message.message_ids),
        rank=None,
        score=None,
    )


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
            notes=(*recall.notes, *talk.notes, *notes_on(replies)),
            dropped=0,
            recall_ms=recall.milliseconds + talk.tool_ms,
            latency_ms=sum_latencies(reply.latency_ms for reply in replies),
            tool_steps=tuple(talk.steps),
            shown_reasoning=reasoning_in(replies),
            asked=asked_of(replies),
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
