"""Reasoning that a model writes into its reply: kept apart, so that no judge reads it as part of the answer."""

import re
from collections.abc import Iterable

from msgspec import UNSET, UnsetType

from longmemeval.llm.protocol import ChatReply

_NAMES = "think|thinking|thought|reasoning|seed:think"
_BLOCK = re.compile(
    rf"<(?P<tag>{_NAMES})>.*?</(?P=tag)>|\[THINK\].*?\[/THINK\]|◁think▷.*?◁/think▷"
    rf"|<\|(?:begin_of_thought|START_THINKING)\|>.*?<\|(?:end_of_thought|END_THINKING)\|>"
    rf"|(?:\A|(?<=\n))\s*(?:<(?:{_NAMES})>|\[THINK\]|◁think▷|<\|(?:begin_of_thought|START_THINKING)\|>).*\Z",
    re.DOTALL | re.IGNORECASE,
)
"""A thought, which never ends only if it begins a line: a tag may be quoted."""
_END = re.compile(
    r"</(?:think|thinking|thought|seed:think)>|\[/THINK\]|◁/think▷|<\|(?:end_of_thought|END_THINKING)\|>", re.IGNORECASE
)
"""The end of a thought whose beginning the server took as part of the prompt."""
_TAG = re.compile(
    rf"</?(?:{_NAMES})>|\[/?THINK\]|◁/?think▷|<\|(?:begin_of_thought|end_of_thought|(?:START|END)_THINKING)\|>",
    re.IGNORECASE,
)
_CHANNEL = re.compile(
    r"(?:<\|start\|>assistant)?<\|channel\|>\s*(\w+).*?<\|message\|>(.*?)"
    r"(?:<\|(?:end|return|call)\|>|(?=<\|start\|>|<\|channel\|>)|\Z)",
    re.DOTALL,
)
"""A message of OpenAI's harmony format, which gpt-oss writes: its channel and its text."""
_BARE_CHANNELS = re.compile(r"\Aanalysis(?=[A-Z]|.*?assistantfinal)(.*?)(?:assistantfinal(.*))?\Z", re.DOTALL)
"""The same where a server has dropped the special tokens: `analysisWe need …assistantfinalYes`."""


def split_thoughts(text: str, given: str = "") -> tuple[str, str]:
    """Return what a reply says, and the reasoning before it.

    What counts is what follows the last thought; if nothing does, what stands outside all thoughts. A thought that
    never ends, as at a limit of tokens, is all reasoning. A reply without thoughts is returned as it is.

    Args:
        text: the reply, which may contain `<think>…</think>`, `[THINK]…[/THINK]` or channels.
        given: reasoning that the server has sent apart, as `reasoning_content`.
    """
    said, thoughts = _split(text)
    reasoning = "\n\n".join(part for part in (given.strip(), _TAG.sub("", thoughts).strip()) if part)
    return said.strip() if reasoning else said, reasoning


def _split(text: str) -> tuple[str, str]:
    if channels := _CHANNEL.findall(text):
        final = "".join(words for name, words in channels if name == "final")
        return final.strip(), "\n\n".join(words for name, words in channels if name != "final")
    if bare := _BARE_CHANNELS.match(text):
        return (bare[2] or "").strip(), bare[1]
    blocks = list(_BLOCK.finditer(text))
    if blocks:
        end = blocks[-1].end()
        if said := text[end:].strip():
            return said, text[:end]
        return _BLOCK.sub("", text).strip(), "\n\n".join(block[0] for block in blocks)
    if ends := list(_END.finditer(text)):
        return text[ends[-1].end() :].strip(), text[: ends[-1].end()]
    return text, ""


def joined_reasoning(parts: Iterable[str]) -> str | UnsetType:
    """Return reasoning as records hold it: all parts, in order; `UNSET` if there is none."""
    return "\n\n".join(filter(None, parts)) or UNSET


def reasoning_in(replies: Iterable[ChatReply]) -> str | UnsetType:
    """Return the reasoning of all calls for one record."""
    return joined_reasoning(reply.reasoning for reply in replies)
