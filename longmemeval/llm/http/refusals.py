"""What a server refuses of a request: it is asked without that, or by the other name for it.

The name behind an alias (`openai/my-gpt5`, `azure/prod-gpt5`) is unknown, so the refusal is the only hint.
"""

import logging
import re
from collections.abc import Mapping
from typing import Any

from longmemeval.core.secrets.redaction import redact
from longmemeval.errors import ContextOverflowError, FatalModelError
from longmemeval.llm.http.errors import meaning_of, refusal_of
from longmemeval.llm.options import ModelOptions

_LOG = logging.getLogger(__name__)

_LIMITS = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
"""Two names of the same limit."""
_SYSTEM = "system role"
_OF_SYSTEM = re.compile(
    r"messages\[\d+\]\.role|(?:system|developer) (?:role|message|prompt|instruction)|roles? .{0,20}\bsystem\b", re.I
)
_REFUSES = re.compile(
    r"n[o']t (?:be )?(?:support|permit|allow|compatible|specif)|unsupported|unrecogni[sz]ed|unknown|unexpected|extra|"
    r"only (?:the )?(?:default|supports?|be set)|deprecated|cannot|invalid|requires --|(?:must|should) be",
    re.I,
)
_STATUS = frozenset((400, 422))
_NEEDED = frozenset(("tools",))
"""What a request is pointless without."""
_BUDGETS = {"thinking", "reasoning"}
_FLAGS = {"seed": "--model-seed"} | dict.fromkeys(_BUDGETS, "--reasoning-budget")


class Refusals:
    """What one model's server refused so far; shared by the calls of a run.

    Args:
        where: the model and its address, for messages.
        options: what the user asked for: it is never left out silently.
    """

    def __init__(self, where: str, options: ModelOptions) -> None:
        self._where, self._asked = where, {*options.given, *options.more}
        self._asked |= set() if options.reasoning_budget is None else _BUDGETS
        self._refused: dict[str, str] = {}

    @property
    def notes(self) -> tuple[str, ...]:
        """What is sent otherwise than planned, in words."""
        return tuple(self._refused.values())

    def applied(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters of a request without what was refused."""
        sent = {name: value for name, value in parameters.items() if name not in self._refused or name in _LIMITS}
        limit = next((name for name in reversed(self._refused) if name in _LIMITS), None)
        if limit and (value := sent.pop("max_tokens", None)) is not None:
            sent[_LIMITS[limit]] = value
        if _SYSTEM in self._refused:
            sent["messages"] = _without_system(sent["messages"])
        return sent

    @property
    def exact(self) -> frozenset[str]:
        """Names of fields that are sent as they are, whatever the model's name suggests."""
        return frozenset(self._asked | {_LIMITS[name] for name in self._refused if name in _LIMITS})

    def learn(self, error: Exception, sent: Mapping[str, Any]) -> bool:
        """Return whether a failure refuses a field that can be left out or named otherwise, and remember it.

        Raises:
            FatalModelError: it refuses what the user asked for, or what the request needs.
        """
        status, text, param = refusal_of(error)
        if status not in _STATUS or not _REFUSES.search(text) or _is_overflow(error, self._where):
            return False
        name = _refused_field(text, param, sent)
        if name is None:
            return False
        if name in self._asked or name in _NEEDED:
            flag = _FLAGS.get(name, f"--{name.replace('_', '-')}" if name in ("temperature", "top_p") else "")
            flag = flag or ("--reasoning-effort" if name == "reasoning_effort" else f"--model-option {name}=…")
            fix = "Use another --reading, without tools" if name in _NEEDED else f"Leave out {flag}"
            raise FatalModelError(f"The server refuses '{name}': {redact(text)[:300]}", where=self._where, fix=fix)
        if name in self._refused:
            return True  # Another call has learnt it meanwhile; this one was sent before.
        self._refused[name] = _note(name)
        _LOG.warning("%s: %s", self._where, self._refused[name])
        return True


def _note(name: str) -> str:
    if name == _SYSTEM:
        return "the server refuses the system role: its text is sent as the user's"
    if name in _LIMITS:
        return f"the server refuses {name}: the limit is sent as {_LIMITS[name]}"
    return f"the server refuses {name}: it is not sent"


def _is_overflow(error: Exception, where: str) -> bool:
    return isinstance(meaning_of(error, where), ContextOverflowError)


def _refused_field(text: str, param: str, sent: Mapping[str, Any]) -> str | None:
    """Return the field that a message names first, among those that were sent."""
    names = {*sent, *sent.get("extra_body", {})} - {"messages", "model", "extra_body"}
    names |= set(_LIMITS) if names & set(_LIMITS) else set()
    if param in names:
        return param
    has_system = any(message.get("role") == "system" for message in sent.get("messages", ()))
    if has_system and (_OF_SYSTEM.search(text) or param.endswith(".role")):
        return _SYSTEM
    found = {name: match.start() for name in names if (match := _pattern(name).search(text))}
    return min(found, key=lambda name: found[name], default=None)


def _pattern(name: str) -> re.Pattern[str]:
    if len(name) == 1:  # Otherwise any word could be meant.
        return re.compile(rf"['\"`]{name}['\"`]|(?:parameter|argument|supplied):? {name}\b")
    words = {"tool_choice": rf"{name}|tool choice"}.get(name, re.escape(name))
    return re.compile(rf"(?<![\w]){words}(?![\w])", re.I)


def _without_system(messages: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return messages in which the user says what the system said, in one message with what follows."""
    said, merged = "", list[Mapping[str, Any]]()
    for message in messages:
        if message["role"] == "system":
            said += f"{message['content']}\n\n"
        elif said and message["role"] == "user":
            merged.append({**message, "content": said + message["content"]})
            said = ""
        else:
            merged.append(message)
    return [*merged, {"role": "user", "content": said.strip()}] if said else merged
