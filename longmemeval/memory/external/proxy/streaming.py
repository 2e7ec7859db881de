"""Turn a complete reply into the stream of events that a client requested."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

_DONE = b"data: [DONE]\n\n"


def chat_events(document: Mapping[str, Any], options: Mapping[str, Any]) -> Iterator[bytes]:
    """Yield the chunks of a chat completion: the message, the finish reason, and the tokens if requested.

    Args:
        document: the completion.
        options: `stream_options` of the request.
    """
    frame = {key: document.get(key) for key in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    choices: Sequence[Mapping[str, Any]] = document.get("choices") or ()
    for choice in choices:
        delta = dict(choice.get("message") or {})
        if calls := delta.get("tool_calls"):
            delta["tool_calls"] = [{"index": place} | dict(call) for place, call in enumerate(calls)]
        yield _data(frame | {"choices": [{"index": choice.get("index", 0), "delta": delta, "finish_reason": None}]})
    for choice in choices:
        end = {"index": choice.get("index", 0), "delta": {}, "finish_reason": choice.get("finish_reason")}
        yield _data(frame | {"choices": [end]})
    if options.get("include_usage"):
        yield _data(frame | {"choices": [], "usage": document.get("usage")})
    yield _DONE


def response_events(document: Mapping[str, Any]) -> Iterator[bytes]:
    """Yield the events of a response, each part in one piece."""
    for number, event in enumerate(_response_documents(document)):
        yield f"event: {event['type']}\n".encode() + _data(event | {"sequence_number": number})


def _response_documents(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    started = dict(document) | {"status": "in_progress", "output": [], "usage": None}
    yield {"type": "response.created", "response": started}
    yield {"type": "response.in_progress", "response": started}
    for place, item in enumerate(document.get("output") or ()):
        at = {"output_index": place, "item_id": item.get("id")}
        empty = dict(item) | {key: type(item[key])() for key in ("content", "arguments") if item.get(key)}
        yield {"type": "response.output_item.added", "output_index": place, "item": empty | {"status": "in_progress"}}
        for index, part in enumerate(item.get("content") or ()):
            if part.get("type") != "output_text":
                continue
            inside = at | {"content_index": index}
            yield {"type": "response.content_part.added", "part": dict(part) | {"text": ""}} | inside
            yield {"type": "response.output_text.delta", "delta": part["text"], "logprobs": []} | inside
            yield {"type": "response.output_text.done", "text": part["text"], "logprobs": []} | inside
            yield {"type": "response.content_part.done", "part": part} | inside
        if arguments := item.get("arguments"):
            yield {"type": "response.function_call_arguments.delta", "delta": arguments} | at
            yield {"type": "response.function_call_arguments.done", "arguments": arguments} | at
        yield {"type": "response.output_item.done", "output_index": place, "item": item}
    last = "response.completed" if document.get("status") != "incomplete" else "response.incomplete"
    yield {"type": last, "response": document}


def _data(document: Mapping[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(document) + b"\n\n"
