"""Asking a chat model for a list, and parsing the reply."""

import json
from collections.abc import Sequence
from string import Template
from typing import Any

from msgspec import Struct

from longmemeval.llm.protocol import ChatMessage, ChatModel, ChatRequest
from longmemeval.records import Usage


class UnreadableReply(ValueError):
    """A reply has no JSON object with the requested list; the message says what is wrong, for one repair."""


def list_in_reply(reply: str, key: str) -> list[Any]:
    """Return the list under `key` of the last JSON object of `reply` that has one; its items are not yet checked.

    Prose, code fences and reasoning around the object do not matter.

    Raises:
        UnreadableReply: there is no such object.
    """
    decoder, found, problem = json.JSONDecoder(), None, ""
    position = reply.find("{")
    while position >= 0:
        try:
            value, end = decoder.raw_decode(reply, position)
        except RecursionError:
            raise UnreadableReply("the JSON is nested too deeply") from None
        except ValueError as error:
            problem, end = problem or f"the JSON does not parse: {error}", position + 1
        else:
            if isinstance(value.get(key), list):
                found = value[key]
            else:
                problem = problem or f'the JSON object has no list "{key}"'
        position = reply.find("{", end)
    if found is None:
        raise UnreadableReply(problem or "there is no JSON object in it")
    return list(found)


class ListReply(Struct, frozen=True):
    """The result of asking for a list."""

    items: list[Any] | None
    """Not yet checked; None when both replies were unreadable."""
    usage: Usage
    problem: str = ""
    """Error in the second reply."""


async def ask_for_list(
    model: ChatModel, question: Sequence[ChatMessage], key: str, repair: str, *, max_tokens: int, temperature: float
) -> ListReply:
    """Ask for a JSON object with a list under `key`; an unreadable reply is sent back once for repair.

    Args:
        question: messages to send.
        key: key of the list.
        repair: prompt for an unreadable reply; `$error` is what is wrong.
        max_tokens: maximum of each reply.
        temperature: temperature of each call.

    Raises:
        ModelError: a call failed.
        FatalModelError: no call can succeed.
    """
    reply = await model.complete(ChatRequest(tuple(question), max_tokens=max_tokens, temperature=temperature))
    try:
        return ListReply(list_in_reply(reply.text, key), reply.usage)
    except UnreadableReply as error:
        correction = ChatMessage("user", Template(repair).substitute(error=error))
    messages = (*question, ChatMessage("assistant", reply.text), correction)
    again = await model.complete(ChatRequest(messages, max_tokens=max_tokens, temperature=temperature))
    usage = reply.usage + again.usage
    try:
        return ListReply(list_in_reply(again.text, key), usage)
    except UnreadableReply as error:
        return ListReply(None, usage, str(error))
