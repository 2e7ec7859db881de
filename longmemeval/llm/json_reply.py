"""Asking a chat model for a list by shipped prompts, and parsing the reply."""

import json
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from string import Template
from typing import Any

from msgspec import Struct

from longmemeval.core.files import sha256_text
from longmemeval.llm.options import named
from longmemeval.llm.protocol import ChatMessage, ChatModel, ChatRequest
from longmemeval.records import Usage

TEMPERATURE = 0.0
_BRACE = re.compile(r"\{")
_OBJECT = re.compile(r"\{(?=[ \t\n\r]*[\"}])")
"""The beginning of what may be a JSON object."""


class UnreadableReply(ValueError):
    """A reply without a JSON object that has the requested list; the message says what is wrong, for one repair."""


def list_in_reply(reply: str, key: str, ending: str = "") -> list[Any]:
    """Return the list under `key` of the last JSON object of `reply` that has one; its items are not yet checked.

    Prose, code fences and reasoning around the object do not matter. Of a reply that broke off, a list counts only if
    all its JSON parses: half a list is none.

    Args:
        ending: why the reply broke off; empty if it is whole.

    Raises:
        UnreadableReply: there is no such object.
    """
    decoder, items, problem = json.JSONDecoder(), None, ""
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
                items = value[key]
            else:
                problem = problem or f'the JSON object has no list "{key}"'
        # The first problem is told; from then on nothing need be tried that cannot be an object.
        following = (_OBJECT if problem else _BRACE).search(reply, end)
        position = following.start() if following else -1
    if items is None or (ending and problem):
        broken = f"it broke off ({ending}): " if ending else ""
        raise UnreadableReply(broken + (problem or "there is no JSON object in it"))
    return list(items)


class ListReply(Struct, frozen=True):
    """The result of asking a model for a list."""

    items: list[Any] | None
    """The items, not yet checked; None if both replies were unreadable."""
    usage: Usage
    problem: str = ""
    """Error in the second reply."""


async def ask_for_list(
    model: ChatModel, question: Sequence[ChatMessage], key: str, repair: str, *, max_tokens: int
) -> ListReply:
    """Ask for a JSON object with a list under `key`; an unreadable reply is sent back once for repair.

    Args:
        question: messages to send.
        key: key of the list.
        repair: prompt for an unreadable reply; `$error` is what is wrong.
        max_tokens: maximum of each reply.

    Raises:
        ModelError: a call failed.
        FatalModelError: no call can succeed.
    """
    reply = await model.complete(ChatRequest(tuple(question), max_tokens=max_tokens, temperature=TEMPERATURE))
    try:
        return ListReply(list_in_reply(reply.text, key, reply.broke_off), reply.usage)
    except UnreadableReply as error:
        correction = ChatMessage("user", Template(repair).substitute(error=error))
    messages = (*question, ChatMessage("assistant", reply.text), correction)
    again = await model.complete(ChatRequest(messages, max_tokens=max_tokens, temperature=TEMPERATURE))
    usage = reply.usage + again.usage
    try:
        return ListReply(list_in_reply(again.text, key, again.broke_off), usage)
    except UnreadableReply as error:
        return ListReply(None, usage, str(error))


def recipe_of(model: ChatModel, prompts: Mapping[str, str], max_tokens: int) -> dict[str, Any]:
    """Return the recipe of replies, without the texts that the calls are about."""
    _, options = named(model.spec)
    return {
        "prompts_sha256": {name: sha256_text(text) for name, text in prompts.items()},
        "model": model.spec,
        "temperature": TEMPERATURE if options.temperature is None else options.temperature,
        "max_tokens": options.max_tokens or max_tokens,
    }


def prompt_texts(package: str, *names: str) -> dict[str, str]:
    """Return the shipped prompts of a package, by name."""
    folder = resources.files(package).joinpath("prompts")
    return {name: folder.joinpath(f"{name}.txt").read_text(encoding="utf-8").strip() for name in names}


def mark_of(text: str) -> str:
    """Return the mark for both ends of a block of text in a prompt.

    No text can contain its own hash, so none can forge the end of its block.
    """
    return sha256_text(text)[:16]


def one_line(text: str) -> str:
    """Return `text` with single spaces and without unprintable characters."""
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())
