"""OpenAI's protocol without LiteLLM: requests as LiteLLM would send them, replies as it would read them."""

import json
import re
from collections.abc import Collection, Mapping
from enum import Enum
from html import unescape
from typing import Any

import msgspec

from longmemeval.core.secrets.redaction import redact
from longmemeval.errors import FatalModelError, ModelError, TransientModelError
from longmemeval.llm.finish_reasons import finish_reason_of, is_failure
from longmemeval.llm.litellm_package import model_table
from longmemeval.llm.options import is_offline
from longmemeval.llm.providers import OPENAI_PROVIDERS, split_spec, table_entry


class _Family(Enum):
    """Models whose requests OpenAI takes in one form."""

    PLAIN = "plain"
    GPT_5 = "gpt-5"
    O_SERIES = "o-series"
    LITELLMS = "LiteLLM's"
    """LiteLLM alone knows the form: the Responses API, models that search."""


_UNSUPPORTED = {
    _Family.GPT_5: frozenset(
        (
            *("presence_penalty", "frequency_penalty", "stop", "logit_bias"),
            *("modalities", "prediction", "audio", "web_search_options"),
        )
    ),
    _Family.O_SERIES: frozenset(("presence_penalty", "frequency_penalty", "logprobs", "top_logprobs", "top_p")),
}
"""What is left out for a family, since OpenAI would refuse the request."""
_SAMPLING = frozenset(("logprobs", "top_logprobs", "top_p"))
"""What a model of GPT-5's family takes only where it does not reason."""

_AZURES_O_SERIES = re.compile("o1|o3|o4|_series/")


def is_direct(spec: str) -> bool:
    """Return whether calls of a model need no LiteLLM.

    Raises:
        FatalModelError: LiteLLM knows no such provider.
    """
    if is_offline(spec):
        return False
    provider, name = split_spec(spec)
    return provider in OPENAI_PROVIDERS and _family(provider, name) is not _Family.LITELLMS


def takes_temperature(provider: str, name: str) -> bool:
    """Return whether a model takes temperature 0."""
    return "temperature" in _as_taken(provider, name, {"temperature": 0.0})


def request_body(spec: str, parameters: Mapping[str, Any], exact: Collection[str] = ()) -> bytes:
    """Return the body of a chat request.

    A model that reasons gets `max_completion_tokens` for `max_tokens`, and nothing that OpenAI refuses for it.

    Args:
        spec: the model, for which `is_direct` is true.
        parameters: `messages` and the rest by OpenAI's names; `extra_body` holds what only this server knows.
        exact: fields that are sent as they are.
    """
    provider, name = split_spec(spec)
    taken = _as_taken(provider, name, parameters) | {key: parameters[key] for key in exact if key in parameters}
    if "max_tokens" in exact and "max_tokens" in parameters:
        taken.pop("max_completion_tokens", None)
    messages, more = taken.pop("messages"), taken.pop("extra_body", {})
    body = {"messages": messages, "model": name} | dict(sorted(taken.items())) | more
    if provider == "openrouter":
        body["usage"] = {"include": True}
    return msgspec.json.encode(body)


def _family(provider: str, name: str) -> _Family:
    entry = table_entry(f"{provider}/{name}") or {}
    if name.startswith("responses/") or entry.get("mode") == "responses":
        return _Family.LITELLMS
    if provider not in ("openai", "azure"):
        return _Family.PLAIN
    if provider == "azure" and _AZURES_O_SERIES.search(name):
        return _Family.LITELLMS
    last = name.rpartition("/")[2]
    if provider == "openai" and re.match(r"o\d", last) and model_table().get(last, {}).get("mode") == "chat":
        return _Family.O_SERIES
    if re.search("gpt-[56]", name) and "gpt-5-chat" not in last:
        return _Family.LITELLMS if "search" in name else _Family.GPT_5
    return _Family.PLAIN


def _as_taken(provider: str, name: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that a model takes, under the names by which it takes them."""
    family = _family(provider, name)
    taken = {key: value for key, value in parameters.items() if value is not None}
    if family not in _UNSUPPORTED:
        return taken
    entry = model_table().get(f"azure/{name}" if provider == "azure" else name, {})
    effort = taken.get("reasoning_effort") or entry.get("default_reasoning_effort")
    reasons = effort != "none" or not entry.get("supports_none_reasoning_effort")
    left_out = _UNSUPPORTED[family] | (_SAMPLING if reasons else frozenset())
    if family is _Family.O_SERIES:
        reasons = True
        if "messages" in taken and not entry.get("supports_system_messages"):
            taken["messages"] = [_said_by_user(message) for message in taken["messages"]]
    elif provider == "openai" and not entry.get("supports_tool_choice"):
        left_out |= {"tool_choice"}
    if reasons and taken.get("temperature") != 1:
        left_out |= {"temperature"}
    if "max_tokens" in taken:
        taken["max_completion_tokens"] = taken.pop("max_tokens")
    return {key: value for key, value in taken.items() if key not in left_out}


def _said_by_user(message: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"content": message["content"], "role": "user"} if message["role"] == "system" else message


# Replies.


TRANSIENT_STATUS = frozenset({408, 409, 429})


class RefusedCall(Exception):
    """A reply with a status of 400 or more.

    Args:
        status: None if the reply reports an error in words only.
        headers: their names in any case.
        body: the whole reply.
    """

    def __init__(self, status: int | None, headers: Mapping[str, str], body: bytes) -> None:
        super().__init__(body.decode(errors="replace") or f"status {status}")
        self.status_code, self.headers, self.body = status, headers, body


class MisshapenReplyError(Exception):
    """A reply that the protocol does not know."""


OF_A_PAGE = "A web page answered in place of the model: check --api-base (many servers need /v1), proxy and network"
_PAGE = re.compile(r"\s*<(?:!doctype html|html|head)\b", re.I)
_TITLE = re.compile(r"<(title|h1)\b[^>]*>\s*(.+?)\s*</\1>", re.I | re.DOTALL)


def title_of(text: str) -> str | None:
    """Return the title of a web page; None if a text is none."""
    if not _PAGE.match(text):
        return None
    found = _TITLE.search(text)
    return unescape(" ".join(found[2].split())) if found else "a web page without a title"


def words_of(body: object) -> str:
    """Return what a body with an error says, by its usual names; empty if it has none of them."""
    if not isinstance(body, dict):
        return ""
    said = [body.get(name) for name in ("error", "message", "detail")]
    if isinstance(error := said[0], dict):
        more = error.get("metadata")  # OpenRouter's: what the provider behind it said.
        said = [error.get("message"), more.get("raw") if isinstance(more, dict) else None]
    return ": ".join(dict.fromkeys(words for words in said if words and isinstance(words, str)))


_THOUGHT = re.compile(r"<(?:think|thinking|budget:thinking)>(.*?)</(?:think|thinking|budget:thinking)>(.*)", re.DOTALL)


def reply_document(body: bytes) -> dict[str, Any]:
    """Return the reply to a chat request, in OpenAI's form also where a server departs from it a little.

    A thought at the beginning of the text becomes `reasoning_content`.

    Raises:
        ValueError: it is not JSON.
        FatalModelError: it is a web page.
        RefusedCall: it reports an error.
        ModelError: it was broken off.
        MisshapenReplyError: it has no choices, or is a stream.
    """
    if (title := title_of(body[:20_000].decode(errors="replace"))) is not None:
        raise FatalModelError(f"The server sent a web page: {redact(title)}", fix=OF_A_PAGE)
    if body.lstrip().startswith(b"data:"):
        raise MisshapenReplyError("The server streams its reply, which was not asked for")
    return in_form(json.loads(body), body)


def in_form(document: object, body: bytes) -> dict[str, Any]:
    """Return a parsed reply in OpenAI's form; raises what `reply_document` does."""
    fault = document.get("error") if isinstance(document, dict) else None
    if isinstance(fault, dict) and (fault.get("message") or fault.get("code") is not None):
        code = fault.get("code", 422)
        raise RefusedCall(code if isinstance(code, int) else None, {}, body)
    if fault and not isinstance(fault, dict):
        raise RefusedCall(422, {}, body)
    choices = document.get("choices") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(choices, list):
        said = words_of(document) or f"it begins {body[:200].decode(errors='replace')!r}"
        raise MisshapenReplyError(f"The reply has no choices: {said}")
    for choice in choices:
        if isinstance(choice, dict):
            check_end(finish_reason_of(choice.get("finish_reason")), choice.get("error"))
        if not isinstance(choice, dict) or not isinstance(choice.get("message"), dict):
            raise MisshapenReplyError("A choice of the reply has no message")
        _put_in_form(choice, choice["message"])
    return document


def check_end(reason: str, fault: object = None) -> None:
    """Raise a ModelError if a server broke off its reply, by its finish reason or by the error it gives.

    It is transient, unless the server refuses the request.
    """
    if fault or is_failure(reason):
        code = fault.get("code") if isinstance(fault, dict) else None
        is_refused = code in range(400, 500) and code not in TRANSIENT_STATUS
        said = words_of({"error": fault}) or f"finish reason: {reason}"
        words = " ".join(redact(said).split())[:500]
        kind = ModelError if is_refused else TransientModelError
        raise kind(f"The server broke off its reply: {words}", may_be_billed=True)


def _put_in_form(choice: dict[str, Any], message: dict[str, Any]) -> None:
    choice["finish_reason"] = finish_reason_of(choice.get("finish_reason"))
    calls = message.get("tool_calls") or ()
    if calls and choice["finish_reason"] == "stop":
        choice["finish_reason"] = "tool_calls"
    for number, call in enumerate(calls):
        call["id"], call["type"] = call.get("id") or f"call_{number}", "function"
        function = call.get("function") or {}
        if isinstance(function.get("arguments"), dict):
            function["arguments"] = json.dumps(function["arguments"])
    if isinstance(message.get("content"), list):
        _join_parts(message, message["content"])
    text = message.get("content")
    if isinstance(text, str) and "reasoning_content" not in message and (thought := _THOUGHT.match(text)):
        message["reasoning_content"], message["content"] = thought.groups()


def _join_parts(message: dict[str, Any], parts: list[Any]) -> None:
    """Join content in parts: text, thoughts (Mistral's are in parts again) and refusals."""
    joined = dict.fromkeys(("content", "reasoning_content", "refusal"), "")
    for part in parts:
        kind = str(part.get("type") or "text") if isinstance(part, dict) else "text"
        place = {"thinking": "reasoning_content", "reasoning": "reasoning_content", "refusal": "refusal"}.get(kind)
        value = part if isinstance(part, str) else part.get(kind, part.get("text")) if isinstance(part, dict) else None
        inner = value if isinstance(value, list) else [value]
        words = (word.get("text") if isinstance(word, dict) else word for word in inner)
        joined[place or "content"] += "".join(word for word in words if isinstance(word, str))
    message |= {name: text for name, text in joined.items() if text or name == "content"}
