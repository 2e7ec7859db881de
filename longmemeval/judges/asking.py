"""A single call to a judge that is a chat model, shared by all such judges."""

import re
from collections.abc import Callable
from urllib.parse import urlsplit

import msgspec
from msgspec import UNSET

from longmemeval.core.files import sha256_text
from longmemeval.errors import ModelError
from longmemeval.llm.http.endpoints import OWN_ENDPOINT
from longmemeval.llm.protocol import ChatMessage, ChatModel, ChatReply, ChatRequest
from longmemeval.llm.thoughts import reasoning_in
from longmemeval.records import Judgement, Question

_MAX_READABLE = 60


async def ask(
    model: ChatModel,
    prompt: str,
    question: Question,
    hypothesis: str,
    read: Callable[[str], bool | None],
    *,
    judge_id: str,
    max_tokens: int,
    temperature: float,
) -> Judgement:
    """Grade `hypothesis` with one call; a failed call and an unreadable reply give no label.

    Args:
        model: the model that grades.
        prompt: the whole prompt.
        question: the question that was answered.
        hypothesis: the answer to grade.
        read: maps a reply to its label; None if it is unreadable. It never gets empty replies, nor reasoning that the
            judge shows: a verdict in reasoning alone is none.
        max_tokens: maximum length of the reply.
        temperature: temperature of the call.

    Raises:
        FatalModelError: no call can succeed.
    """
    request = ChatRequest(
        messages=(ChatMessage("user", prompt),),
        max_tokens=max_tokens,
        temperature=temperature,
        question_id=question.question_id,
        question=question.text,
    )
    unlabelled = Judgement(
        question_id=question.question_id,
        label=None,
        raw="",
        judge_id=judge_id,
        prompt_sha256=sha256_text(prompt),
        answer_sha256=sha256_text(hypothesis),
    )
    try:
        reply = await model.complete(request)
    except ModelError as error:
        return msgspec.structs.replace(unlabelled, error=str(error))
    empty = not reply.text.strip()
    label = None if empty or lacks_verdict(reply) else read(reply.text)
    fault = "is empty" if empty else "broke off before a verdict" if lacks_verdict(reply) else "cannot be read"
    return msgspec.structs.replace(
        unlabelled,
        label=label,
        raw=reply.text,
        served_model=reply.served_model,
        usage=reply.usage,
        attempts=reply.attempts,
        latency_ms=reply.latency_ms,
        shown_reasoning=reasoning_in([reply]),
        asked=reply.asked,
        cut=reply.finish_reason if reply.broke_off else UNSET,
        error=f"The judge's reply {fault} ({reply.ending})" if label is None else "",
    )


_VERDICT = re.compile(
    r"\A\W*(?:(?:the |my |final )*(?:answer|verdict|judge?ment|label|grade)\W+(?:is\W+)?)?"
    r"(?:yes|no|right|wrong|correct|incorrect)\b(?!\s*(?:/|or\b|and\b)\s*(?:yes|no|right|wrong|correct|incorrect)\b)"
    r"|\A\W*\w\W*\Z|[\"'](?:label|score)[\"']\s*:\s*(?:([\"'])\w+\1|[\d.]+\s*[,}])",
    re.I,
)
"""A verdict at the beginning, not a choice of two; a single letter; a verdict in JSON."""


def lacks_verdict(reply: ChatReply) -> bool:
    """Return whether a reply broke off before its verdict."""
    return bool(reply.broke_off) and not gives_verdict(reply.text)


def gives_verdict(cut: str) -> bool:
    """Return whether a reply that broke off, without its thoughts, had given its verdict before.

    Official judges have little room: "Yes, the response contains" is their verdict, "Okay, so the question" is none.
    """
    return bool(_VERDICT.search(cut))


def readable(model: str, endpoint: str | None = None) -> str:
    """Return a model's name, and its host if that is not its provider's, for a judge's id and its files."""
    name = _safe(model.removeprefix("openai/"))
    if endpoint is None or endpoint == OWN_ENDPOINT:
        return name
    return f"{name}-at-{_safe(urlsplit(endpoint).netloc)}"


def _safe(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._]+", "-", name)[:_MAX_READABLE].strip("-.") or "unnamed"
