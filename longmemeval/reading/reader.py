"""Reading methods: one question, one Recall, one model, one Answer."""

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import msgspec
from msgspec import UNSET, Struct

from longmemeval.core.event_loop import in_thread
from longmemeval.core.text.quantities import official_date
from longmemeval.errors import ModelError
from longmemeval.llm.protocol import ChatMessage, ChatModel, ChatReply
from longmemeval.llm.thoughts import reasoning_in
from longmemeval.llm.tokens import Counted, TokenCounter
from longmemeval.reading.configuration import ReadingConfiguration, prompt_limit
from longmemeval.reading.prompts import (
    TOKENS_OF_A_MESSAGE,
    Chunk,
    Compose,
    EncodedPrompt,
    Fitted,
    Messages,
    Prompt,
    SentPrompt,
    fit,
    message_chunks,
    note_chunks,
    prompt_of,
    question_text,
    render_chunk,
    render_history,
)
from longmemeval.reading.templates import Template, shipped_template
from longmemeval.reading.tool_loop import (
    UNKNOWN_REASON,
    Reading,
    ToolLoop,
    empty_reply,
    message_ids_of,
    not_shown,
    note_item,
    notes_on,
    threads_of,
)
from longmemeval.records import Answer, Question, Recall, RecalledItem, asked_of, slowest, sum_latencies, usage_of

ABSTENTION = "I don't know: the information is not mentioned in the conversation."
"""Answer given without a call if the recall is too weak; every judge here treats it as abstaining."""


class Reader:
    """Answers questions from recalls with one model under one reading configuration.

    Raises:
        HarnessError: the context window has no room for a prompt.
    """

    def __init__(self, configuration: ReadingConfiguration, model: ChatModel, counter: TokenCounter) -> None:
        self._configuration = configuration
        self._model = model
        self._counter = counter
        self._latest: _History | None = None
        self.limit = prompt_limit(configuration, configuration.max_tokens)
        """Maximum tokens of an answering prompt; None if the window is unknown."""
        tools = configuration.tools
        self._loop = ToolLoop(configuration, tools, model, counter) if tools else None
        self._by_session = configuration.method == "con-separate"
        has_notes = configuration.note_template is not None
        self._note_limit = prompt_limit(configuration, configuration.note_max_tokens) if has_notes else None

    async def read(
        self, question: Question, recall: Recall, known: Callable[[], Sequence[Counted] | None] | None = None
    ) -> Reading:
        """Answer `question` from `recall`.

        A failed call or an empty reply gives an Answer with status `error`; errors that affect all are raised.

        Args:
            known: called in the work thread for the token counts of the items; if it returns None, they are counted.
        """
        if self._loop:
            return await self._loop.read(question, recall)
        prompts, replies, latencies = list[EncodedPrompt](), list[ChatReply](), list[float | None]()
        preparation = await in_thread(self._prepare, question, recall, known)
        known = None  # It refers to the fixture, which is not needed while waiting for replies.
        if preparation.abstention:
            return Reading(preparation.abstention, ())
        failure: ModelError | None = None
        hypothesis, finish_reason, prompt_sha256, prompt_tokens, shown = "", "", "", 0, tuple[RecalledItem, ...]()
        try:
            if preparation.failure:
                raise preparation.failure
            if (prompt := preparation.prompt) is None:
                prompt_tokens = sum(note.tokens for note in preparation.notes if note.recall.items)
                recall = self._noted(recall, await self._take_notes(preparation.notes, prompts, replies))
                latencies.append(slowest(reply.latency_ms for reply in replies))
                prompt = await in_thread(self._counted_answer_prompt, question, recall)
            recall, shown = prompt.recall, prompt.recall.items
            prompt_tokens, prompt_sha256 = prompt_tokens + prompt.tokens, prompt.sent.sha256
            prompts.append(prompt.sent)
            replies.append(await self._model.complete(prompt.request))
            latencies.append(replies[-1].latency_ms)
            hypothesis = replies[-1].text.strip()
            finish_reason = replies[-1].finish_reason or ("" if hypothesis else UNKNOWN_REASON)
            failure = None if hypothesis else empty_reply(replies[-1], finish_reason)
        except ModelError as error:
            failure = error
        answer = Answer(
            question_id=question.question_id,
            hypothesis=hypothesis,
            status="error" if failure else "ok",
            recall_ids=(shown_ids := message_ids_of(shown)),
            provenance=recall.provenance,
            recall_sessions=threads_of(shown) if recall.provenance == "session" else (),
            cut_ids=not_shown(preparation.found, shown_ids),
            top_score=preparation.top_score,
            recall_tokens=preparation.recall_tokens,
            prompt_tokens=prompt_tokens,
            prompt_sha256=prompt_sha256,
            usage=usage_of(replies),
            attempts=sum(reply.attempts for reply in replies),
            finish_reason=finish_reason,
            served_model=replies[-1].served_model if replies else "",
            error=str(failure) if failure else "",
            notes=recall.notes + notes_on(replies),
            dropped=recall.dropped,
            recall_ms=recall.milliseconds,
            latency_ms=sum_latencies(latencies),
            shown_reasoning=reasoning_in(replies),
            asked=asked_of(replies),
            forgotten_ids=not_shown(recall.forgotten_ids, shown_ids) or UNSET,
        )
        return Reading(answer, tuple(prompts), failure)

    def _prepare(
        self, question: Question, recall: Recall, known: Callable[[], Sequence[Counted] | None] | None
    ) -> "_Preparation":
        """Compute everything that a recall needs before the first call.

        It is a single job in the work thread: each has an overhead of a tenth of a millisecond.
        """
        counts = self._counts(recall, known() if known else None)
        preparation = _Preparation(
            recall_tokens=sum(counts[id(item)].tokens for item in recall.items),
            found=[*message_ids_of(recall.items), *recall.left_out_ids],
            top_score=max((item.score for item in recall.items if item.score is not None), default=None),
        )
        threshold, note_template = self._configuration.options.abstain_below, self._configuration.note_template
        score = preparation.top_score
        if threshold is not None and score is not None and score < threshold:
            preparation.abstention = _abstention(question, recall, preparation, score, threshold)
            return preparation
        try:
            if note_template and self._by_session:
                preparation.notes = self._note_prompts(question, recall, counts, note_template)
            elif note_template:
                preparation.notes = [self._facts_prompt(question, recall, counts, note_template)]
            else:
                preparation.prompt = self._answer_prompt(question, recall, counts)
        except ModelError as error:
            preparation.failure = error
        return preparation

    def _counts(self, recall: Recall, known: Sequence[Counted] | None = None) -> "_Counts":
        if known is None:
            known = [self._counter.counted(item.text) for item in recall.items]
        return dict(zip(map(id, recall.items), known, strict=True))

    def _counted_answer_prompt(self, question: Question, recall: Recall) -> Prompt:
        return self._answer_prompt(question, recall, self._counts(recall))

    def _answer_prompt(self, question: Question, recall: Recall, counts: "_Counts") -> Prompt:
        configuration = self._configuration
        template = (configuration.options_template if question.options else None) or configuration.template
        fitted = self._fitted(question, recall, counts, template, self.limit, configuration.compose)
        return prompt_of(question, "answer", fitted, configuration.max_tokens, configuration.temperature)

    def _facts_prompt(self, question: Question, recall: Recall, counts: "_Counts", template: Template) -> Prompt:
        """Return the call that lists the facts of a recall; what it shows and the facts fit the second call."""
        configuration = self._configuration
        limit = None if self.limit is None else self.limit - configuration.note_max_tokens
        fitted = self._fitted(question, recall, counts, template, limit)
        return prompt_of(question, "note", fitted, configuration.note_max_tokens, configuration.temperature)

    def _fitted(
        self,
        question: Question,
        recall: Recall,
        counts: "_Counts",
        template: Template,
        limit: int | None,
        compose: Compose | None = None,
    ) -> Fitted[Messages]:
        """Return the prompt that shows a whole recall, as far as it fits."""

        def render(shown: Recall) -> Messages:
            history = self._history(shown, counts).text
            return _message(
                template.fill(
                    {"history": history, "question_date": question.date_text, "question": question_text(question)}
                )
            )

        def count(prompt: Messages, shown: Recall) -> int:
            history = self._history(shown, counts)
            return self._counter.counted_whole(prompt[0].content, [history.text], [history.counted]).tokens

        def count_composed(prompt: Messages, shown: Recall) -> int:
            whole = "\n".join(message.content for message in prompt)
            return self._counted_whole(whole, shown, counts).tokens + TOKENS_OF_A_MESSAGE * (len(prompt) - 1)

        policy = self._configuration.options.on_overflow
        if compose:
            return fit(recall, partial(compose, question), count_composed, limit, policy)
        return fit(recall, render, count, limit, policy)

    def _history(self, shown: Recall, counts: "_Counts") -> "_History":
        """Return the history of a prompt and its tokens; the latest is cached, since questions may share it."""
        if self._latest is None or self._latest.items is not shown.items:
            chunks_of = note_chunks if self._by_session else message_chunks
            text = render_history(shown, chunks_of(shown), self._configuration.options.history_format)
            self._latest = _History(shown.items, text, self._counted_whole(text, shown, counts))
        return self._latest

    def _counted_whole(self, whole: str, shown: Recall, counts: "_Counts") -> Counted:
        items = shown.items
        return self._counter.counted_whole(whole, [item.text for item in items], [counts[id(item)] for item in items])

    def _note_prompts(self, question: Question, recall: Recall, counts: "_Counts", template: Template) -> list[Prompt]:
        """Return the prompts of the note-taking calls, one per session."""
        fitted = [self._fit_note(question, chunk, counts, template) for chunk in message_chunks(recall)]
        return [prompt_of(question, "note", prompt, self._configuration.note_max_tokens) for prompt in fitted]

    def _fit_note(self, question: Question, chunk: Chunk, counts: "_Counts", template: Template) -> Fitted[Messages]:
        """Return the prompt of the note-taking call on one session."""

        def render(shown: Recall) -> Messages:
            session = render_chunk(Chunk(chunk.date, shown.items), self._configuration.options.history_format)
            return _message(
                template.fill(
                    {
                        "session_date": official_date(chunk.date) if chunk.date else "unknown",
                        "session": session,
                        "question_date": question.date_text,
                        "question": question_text(question),
                    }
                )
            )

        def count(prompt: Messages, shown: Recall) -> int:
            return self._counted_whole(prompt[0].content, shown, counts).tokens

        policy = self._configuration.options.on_overflow
        return fit(Recall(chunk.items), render, count, self._note_limit, policy)

    async def _take_notes(
        self, sessions: Sequence[Prompt], prompts: list[EncodedPrompt], replies: list[ChatReply]
    ) -> list[tuple[Recall, ChatReply | None]]:
        """Make the first calls, one for each prompt that shows something; return what each shows, and the reply.

        All calls are awaited even if one fails, since their cost must be counted.
        """
        nonempty = [session for session in sessions if session.recall.items]
        prompts.extend(session.sent for session in nonempty)
        calls = [self._model.complete(session.request) for session in nonempty]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        notes = [outcome for outcome in outcomes if isinstance(outcome, ChatReply)]
        replies.extend(notes)
        failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        if failures:
            # Errors that end the run come before errors that end the question.
            raise min(failures, key=lambda failure: isinstance(failure, ModelError))
        replied = {id(session): note for session, note in zip(nonempty, notes, strict=True)}
        return [(session.recall, replied.get(id(session))) for session in sessions]

    def _noted(self, recall: Recall, noted: Sequence[tuple[Recall, ChatReply | None]]) -> Recall:
        """Return what the second call shows: notes instead of messages, or facts beside them."""
        return _with_notes(recall, noted) if self._by_session else _with_facts(*noted)


def _with_notes(recall: Recall, noted: Sequence[tuple[Recall, ChatReply | None]]) -> Recall:
    """Return a recall with the notes on each session replacing its messages."""
    documents = [item for item in recall.items if item.kind != "message"]
    notes = [note_item(session.items, note.text.strip()) for session, note in noted if note]
    cuts = [note for session, _ in noted for note in session.notes]
    dropped = recall.dropped + sum(session.dropped for session, _ in noted)
    return msgspec.structs.replace(recall, items=(*documents, *notes), notes=(*recall.notes, *cuts), dropped=dropped)


_BULLET = re.compile(r"\s*(?:[-*•]|\d+[.)])\s+")
_NOTHING = "nothing relevant"


def _with_facts(noted: tuple[Recall, ChatReply | None]) -> Recall:
    """Return what the first call showed, with the facts that it lists, one per line; a line that was cut is none."""
    shown, reply = noted
    listed = reply.text.splitlines() if reply else []
    whole = listed[:-1] if reply and reply.finish_reason == "length" else listed
    lines = [_BULLET.sub("", line, count=1).strip() for line in whole]
    facts = [RecalledItem("fact", line, None) for line in lines if line and line.lower().strip(".") != _NOTHING]
    return msgspec.structs.replace(shown, items=(*facts, *shown.items))


def _message(prompt: str) -> Messages:
    return (ChatMessage("user", prompt),)


def _abstention(
    question: Question, recall: Recall, preparation: "_Preparation", top_score: float, threshold: float
) -> Answer:
    """Return the answer if the recall is too weak to call the model; everything found counts as cut."""
    return Answer(
        question_id=question.question_id,
        hypothesis=ABSTENTION,
        status="ok",
        provenance=recall.provenance,
        cut_ids=tuple(dict.fromkeys(preparation.found)),
        top_score=top_score,
        recall_tokens=preparation.recall_tokens,
        finish_reason="abstained",
        notes=(*recall.notes, f"abstained: the best recall score {top_score:.4g} is below {threshold:.4g}"),
        dropped=0,
        recall_ms=recall.milliseconds,
    )


_Counts = Mapping[int, Counted]
"""Token counts of items, by their identity."""


class _History(Struct, frozen=True):
    """The history as shown in a prompt."""

    items: tuple[RecalledItem, ...]
    text: str
    counted: Counted


class _Preparation(Struct):
    """The state before the first call."""

    recall_tokens: int
    found: list[str]
    """Ids of all messages that the memory found, cut ones included."""
    top_score: float | None
    abstention: Answer | None = None
    """The answer if no call is made; otherwise `failure`, `notes` or `prompt` determines the next step."""
    failure: ModelError | None = None
    notes: list[Prompt] = []
    prompt: Prompt | None = None


# Split a stored prompt into instruction, memory and question, and count the tokens of each part.

_HERE = "\0memory\0"
"""Placeholder for the memory while the rest of a template is filled in."""


class PromptParts(Struct, frozen=True):
    """Tokens of a prompt by part; they add up to the recorded tokens of the prompt."""

    instruction: int
    memory: int
    question: int
    """Tokens of the question and its date."""


def prompt_parts(
    prompt: SentPrompt, question: Question, template_sha256: str, tokens: int, counter: TokenCounter
) -> PromptParts | None:
    """Return the tokens of the parts of a prompt.

    Args:
        template_sha256: hash of the template in the run's settings.
        tokens: tokens of the whole prompt.
        counter: the counter that the run used.

    Returns:
        None if the parts cannot be told apart: the template is not from this package, or the prompt was not made from a
        template.
    """
    memory = memory_in(prompt, question, shipped_template(template_sha256))
    if memory is None:
        return None
    question_tokens = counter.count(question_text(question)) + counter.count(question.date_text)
    memory_tokens = min(counter.count(memory), tokens)
    question_tokens = min(question_tokens, tokens - memory_tokens)
    return PromptParts(tokens - memory_tokens - question_tokens, memory_tokens, question_tokens)


def memory_in(prompt: SentPrompt, question: Question, template: Template | None) -> str | None:
    """Return the memory as the prompt shows it; None if the prompt was not made from this template."""
    if template is None or len(prompt.messages) != 1:
        return None
    values = {"history": _HERE, "question_date": question.date_text, "question": question_text(question)}
    before, _, after = template.fill(values).partition(_HERE)
    text = prompt.messages[0].content
    if not text.startswith(before) or not text.endswith(after) or len(text) < len(before) + len(after):
        return None
    return text[len(before) : len(text) - len(after)]
