"""Answering without a language model: one model finds the answer in recalled texts by rules, one replays a file."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
from msgspec import structs

from longmemeval.core.event_loop import in_thread
from longmemeval.core.on_demand import on_demand
from longmemeval.core.text_files import UnreadableError, decode_json, read_text
from longmemeval.errors import HarnessError, ModelError
from longmemeval.llm.protocol import ChatReply, ChatRequest, Passage
from longmemeval.llm.thoughts import split_thoughts
from longmemeval.records import Usage

find_answer = on_demand("longmemeval.llm.extractive.answers:find_answer")
next_calls = on_demand("longmemeval.llm.extractive.answers:next_calls")
fullest_sentence = on_demand("longmemeval.llm.extractive.matching:fullest_sentence")

ABSTENTION = "I don't know: nothing in the history answers this."


class ExtractiveModel:
    """A model that answers from the passages by rules, or abstains, without any call.

    For the rules see `extractive.answers`. The same request always gets the same answer. Without a question, as when
    asked to take notes, it answers with the most informative sentence of the last user message.
    """

    @property
    def spec(self) -> str:
        """Always `offline/extractive`."""
        return "offline/extractive"

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Return the answer found, or `ABSTENTION`; calls are answered in order."""
        return await in_thread(self._complete, request)

    def _complete(self, request: ChatRequest) -> ChatReply:
        started = time.perf_counter()
        if calls := next_calls(request):
            return structs.replace(_reply(self.spec, "", started), finish_reason="tool_calls", tool_calls=calls)
        if request.question:
            passages = request.dated_passages() or tuple(map(Passage, request.passages))
            text = find_answer(request.question, passages, request.question_date)
        else:
            message = next((message.content for message in reversed(request.messages) if message.role == "user"), "")
            text = fullest_sentence(message)
        return _reply(self.spec, text or ABSTENTION, started)


class ScriptedModel:
    """Answers each question with its text in a file.

    Args:
        path: JSONL with `question_id` and `hypothesis` on each line (the official format; other fields are
            ignored), or one JSON object from question id to text.

    Raises:
        HarnessError: the file cannot be read, or a line is invalid.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._hypotheses = _read_hypotheses(path)
        if not self._hypotheses:
            raise HarnessError("The file contains no answers", where=str(path))

    @property
    def spec(self) -> str:
        """The spec with its file, `offline/scripted:FILE`."""
        return f"offline/scripted:{self._path}"

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Return the text for `request.question_id`.

        Raises:
            ModelError: the file has no answer for it.
        """
        started = time.perf_counter()
        text = self._hypotheses.get(request.question_id)
        if text is None:
            raise ModelError(f"No answer for question {request.question_id!r}", where=str(self._path))
        said, reasoning = split_thoughts(text)
        return structs.replace(_reply(self.spec, said, started), reasoning=reasoning)


def _reply(spec: str, text: str, started: float) -> ChatReply:
    elapsed = (time.perf_counter() - started) * 1000
    return ChatReply(text, "stop", Usage(calls=1), served_model=spec, latency_ms=elapsed)


class _Line(msgspec.Struct, frozen=True):
    question_id: str
    hypothesis: str


def _read_hypotheses(path: Path) -> dict[str, str]:
    try:
        text = read_text(path)
    except (OSError, UnreadableError) as error:
        raise HarnessError(f"The scripted answers cannot be read: {error}", where=str(path)) from error
    try:
        whole = decode_json(text, object)
    except UnreadableError:
        whole = None
    if not isinstance(whole, dict) or "question_id" in whole:
        return _read_lines(text, path)
    try:
        return msgspec.convert(whole, dict[str, str])
    except msgspec.ValidationError as error:
        raise HarnessError(f"Not an object from question id to text: {error}", where=str(path)) from error


def _read_lines(text: str, path: Path) -> dict[str, str]:
    hypotheses: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            entry = decode_json(line, _Line)
        except UnreadableError as error:
            raise HarnessError(f"Not a question_id with its hypothesis: {error}", where=where) from error
        if entry.question_id in hypotheses:
            raise HarnessError(f"A second answer for question {entry.question_id!r}", where=where, fix="Remove one")
        hypotheses[entry.question_id] = entry.hypothesis
    return hypotheses


# Answering models that do not understand the question: controls that a memory system, and a judge, must beat.
#
# `offline/refuse` always says that it does not know, `offline/parrot` repeats all that was recalled,
# `offline/last-session` the last session of it, and `offline/longest-option` picks the longest of the options
# offered.

REFUSAL = "I don't know. The conversation does not say."
"""Reply of a control with nothing to repeat; every judge here treats it as abstaining."""


class ControlModel:
    """Answers by one rule, whatever the question.

    Args:
        spec: its name.
        answer: returns the text to repeat from a request; empty: it refuses.
    """

    def __init__(self, spec: str, answer: Callable[[ChatRequest], str]) -> None:
        self.spec = spec
        self._answer = answer

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Return the rule's answer, never cut to `max_tokens`."""
        started = time.perf_counter()
        text = self._answer(request).strip() or REFUSAL
        elapsed = (time.perf_counter() - started) * 1000
        return ChatReply(text, "stop", Usage(calls=1), served_model=self.spec, latency_ms=elapsed)


REFUSE, PARROT, LAST_SESSION = "offline/refuse", "offline/parrot", "offline/last-session"
LONGEST_OPTION = "offline/longest-option"
CONTROL_MODELS: Mapping[str, Callable[[ChatRequest], str]] = {
    REFUSE: lambda request: "",
    PARROT: lambda request: "\n".join(request.passages),
    LAST_SESSION: lambda request: "\n".join(request.last_session()),
    # Options begin with their letter: "(a) …".
    LONGEST_OPTION: lambda request: max(request.options, key=len, default="")[:3],
}
"""Functions that return the text to repeat, by spec."""
