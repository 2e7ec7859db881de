"""Translate requests of the newer interface (`responses`) to the older one, which every endpoint has, and replies back.

Features that only OpenAI's own servers have (tools that run there, state from earlier requests) are refused.
"""

from collections.abc import Iterator, Mapping, Sequence
from threading import Lock
from typing import Any

import msgspec
from msgspec import Struct

from longmemeval.core.arrays import Vectors
from longmemeval.core.files import sha256_bytes
from longmemeval.embedding.cache import CachedEmbedder
from longmemeval.errors import ModelError
from longmemeval.llm.costs import Receipts, vector_length
from longmemeval.llm.finish_reasons import finish_reason_of, is_whole
from longmemeval.llm.tokens import CharacterCounter, encoding_of
from longmemeval.records import Usage

_SAME = ("temperature", "top_p", "parallel_tool_calls", "seed", "top_logprobs")
_STATEFUL = ("previous_response_id", "conversation", "background", "prompt")
_ROLES = {"developer": "system"}


def to_chat_request(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the equivalent request for a chat completion.

    Raises:
        ModelError: there is no equivalent.
    """
    if stateful := [name for name in _STATEFUL if body.get(name)]:
        raise ModelError(f"A request for a response has '{stateful[0]}', which is not passed on")
    messages = [{"role": "system", "content": body["instructions"]}] if body.get("instructions") else []
    input_items = body.get("input") or ""
    messages += (
        [{"role": "user", "content": input_items}] if isinstance(input_items, str) else list(_messages(input_items))
    )
    chat = {"messages": messages} | {name: body[name] for name in _SAME if body.get(name) is not None}
    if body.get("tools"):
        chat["tools"] = [_tool(tool) for tool in body["tools"]]
    if choice := body.get("tool_choice"):
        named = isinstance(choice, Mapping) and choice.get("name")
        chat["tool_choice"] = {"type": "function", "function": {"name": named}} if named else choice
    if form := (body.get("text") or {}).get("format"):
        schema = {name: value for name, value in form.items() if name != "type"}
        chat["response_format"] = {"type": form["type"]} | ({form["type"]: schema} if schema else {})
    if longest := body.get("max_output_tokens"):
        chat["max_tokens"] = longest
    if effort := (body.get("reasoning") or {}).get("effort"):
        chat["reasoning_effort"] = effort
    return chat


def to_response(completion: Mapping[str, Any], body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the completion of `to_chat_request(body)` as a response."""
    choice: Mapping[str, Any] = next(iter(completion.get("choices") or ()), {})
    message, usage = choice.get("message") or {}, completion.get("usage") or {}
    name = sha256_bytes(repr(completion).encode())[:24]
    reason = finish_reason_of(choice.get("finish_reason"))
    cut = not is_whole(reason)
    tokens = [int(usage.get(key) or 0) for key in ("prompt_tokens", "completion_tokens")]
    return {
        "id": f"resp_{name}",
        "object": "response",
        "created_at": completion.get("created") or 0,
        "model": completion.get("model") or "",
        "status": "incomplete" if cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens" if reason == "length" else reason} if cut else None,
        "output": list(_output(message, name)),
        "instructions": body.get("instructions"),
        "temperature": body.get("temperature"),
        "top_p": body.get("top_p"),
        "tools": body.get("tools") or [],
        "tool_choice": body.get("tool_choice") or "auto",
        "parallel_tool_calls": body.get("parallel_tool_calls") is not False,
        "text": body.get("text") or {"format": {"type": "text"}},
        "metadata": {},
        "error": None,
        "usage": {
            "input_tokens": tokens[0],
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": tokens[1],
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": sum(tokens),
        },
    }


def _messages(items: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for item in items:
        match item.get("type") or "message":
            case "message":
                role = str(item.get("role"))
                yield {"role": _ROLES.get(role, role), "content": _content(item.get("content") or "")}
            case "function_call":
                function = {"name": item.get("name"), "arguments": item.get("arguments")}
                call = {"id": item.get("call_id"), "type": "function", "function": function}
                yield {"role": "assistant", "content": None, "tool_calls": [call]}
            case "function_call_output":
                output = item.get("output") or ""
                content = output if isinstance(output, str) else _content(output)
                yield {"role": "tool", "tool_call_id": item.get("call_id"), "content": content}
            case "reasoning":
                continue
            case other:
                raise ModelError(f"A request for a response has an item of the type '{other}', which is not passed on")


def _content(content: str | Sequence[Mapping[str, Any]]) -> str | list[dict[str, Any]]:
    if isinstance(content, str):
        return content
    parts: list[dict[str, Any]] = []
    for part in content:
        match part.get("type"):
            case "input_text" | "output_text" | "text":
                parts.append({"type": "text", "text": part.get("text") or ""})
            case "input_image":
                parts.append({"type": "image_url", "image_url": {"url": part.get("image_url")}})
            case other:
                raise ModelError(f"A request for a response has content of the type '{other}', which is not passed on")
    texts = [part["text"] for part in parts if part["type"] == "text"]
    return "".join(texts) if len(texts) == len(parts) else parts


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    if tool.get("type") != "function":
        raise ModelError(f"A request for a response has the tool '{tool.get('type')}', which runs at OpenAI's alone")
    named = {name: tool[name] for name in ("name", "description", "parameters", "strict") if tool.get(name) is not None}
    return {"type": "function", "function": named}


def _output(message: Mapping[str, Any], name: str) -> Iterator[dict[str, Any]]:
    if content := message.get("content"):
        text = {"type": "output_text", "text": content, "annotations": [], "logprobs": []}
        yield {"type": "message", "id": f"msg_{name}", "role": "assistant", "status": "completed", "content": [text]}
    for place, call in enumerate(message.get("tool_calls") or ()):
        function = call.get("function") or {}
        yield {
            "type": "function_call",
            "id": f"fc_{name}_{place}",
            "call_id": call.get("id"),
            "name": function.get("name"),
            "arguments": function.get("arguments") or "",
            "status": "completed",
        }


# Answer requests for embeddings with the harness's own embedder and its cache.

_TOKENS = CharacterCounter()


class Vectorised(Struct, frozen=True):
    """The vectors of one request."""

    rows: Vectors
    tokens: int
    """Tokens as the server counts them, or characters / 4 if no server was called."""
    cached: bool
    """True if nothing was computed."""
    usage: Usage
    request_sha256: str


class Vectoriser:
    """Answers requests one at a time, so that the cost of each is known."""

    def __init__(self, embedder: CachedEmbedder) -> None:
        self.embedder = embedder
        self._lock = Lock()
        self._ready = False

    def get_ready(self) -> None:
        """Load a model that runs in this process, which would otherwise be loaded with the first texts.

        Raises:
            HarnessError: it cannot be loaded.
        """
        with self._lock:
            if not self._ready and not self.embedder.is_metered:
                self.embedder.load()
            self._ready = True

    def embed(self, body: Mapping[str, Any], receipts: Receipts | None) -> Vectorised:
        """Return the vectors, after earlier requests are answered.

        Raises:
            ModelError: the request holds no texts, or wants vectors of another length.
            HarnessError: the embedder failed.
        """
        texts = _texts(body.get("input"))
        request = msgspec.json.encode([self.embedder.fingerprint, texts])
        with self._lock:
            self.embedder.receipts = receipts
            paid, computed = self.embedder.usage, self.embedder.misses
            rows = self.embedder.embed(texts)
            usage, cached = self.embedder.usage - paid, self.embedder.misses == computed
        wanted = body.get("dimensions")
        if wanted and int(wanted) != rows.shape[1]:
            raise ModelError(
                f"The memory system wants vectors of {wanted} numbers, {self.embedder.spec} gives {rows.shape[1]}",
                fix="Set its dimension to that, or give `prepare` another --embedder",
            )
        tokens = usage.prompt_tokens or sum(map(_TOKENS.count, texts))
        if self.embedder.is_metered and cached:
            usage = Usage(calls=1, cached_calls=1, prompt_tokens=tokens)
        return Vectorised(rows, tokens, cached, usage, sha256_bytes(request))


def dimension_of(embedder: CachedEmbedder) -> int:
    """Return the length of a vector if it is known without a call; else 0."""
    return embedder.known_dimension or vector_length(embedder.spec.partition(":")[2]) or 0


def _texts(value: object) -> list[str]:
    """Return the texts of a request; those given as tokens, in OpenAI's own encoding, are decoded."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list) and value:
        if all(isinstance(item, str) for item in value):
            return list(value)
        if all(isinstance(item, int) for item in value):
            return [_from_tokens(value)]
        if all(isinstance(item, list) and all(isinstance(token, int) for token in item) for item in value):
            return [_from_tokens(tokens) for tokens in value]
    raise ModelError("A request for embeddings holds no texts under 'input'")


def _from_tokens(tokens: Sequence[int]) -> str:
    try:
        return encoding_of("cl100k_base").decode(list(tokens))
    except KeyError as error:
        raise ModelError("A request for embeddings holds tokens of an unknown encoding") from error
