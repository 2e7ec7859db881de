"""Limits that count the visible reply: what a model that reasons is sent, so that its reply is not cut before it."""

from collections.abc import Mapping
from typing import Any

from longmemeval.errors import FatalModelError
from longmemeval.llm.options import ModelOptions, is_offline
from longmemeval.llm.protocol import ChatReply
from longmemeval.llm.providers import table_entry

ROOM: Mapping[str, int] = {
    **{"none": 0, "minimal": 4096, "low": 8192, "medium": 16384},
    **{"high": 32768, "xhigh": 65536, "max": 65536},
}
"""Tokens of room for reasoning, by effort: a limit, of which only what the model uses is paid."""
RULE = {"room": "reasoning"}
"""What the parameters of a judge say whose limit counts the visible reply alone."""
MARGIN_TOKENS = 1000
"""Tokens of a context window that are left free, for what a provider adds to a prompt.

The official reader keeps the same margin: limit = window - generation length - 1000 (src/generation/run_generation.py).
"""
_STARVED = 3
"""Calls in a row that gave no visible reply, even with room, after which no more are sent."""


def reasons(spec: str, options: ModelOptions) -> bool:
    """Return whether a model is known to reason before it replies: by the options, or by LiteLLM's table.

    Models that reason only where they are told to (Claude, GPT-5.1 and later) do so by an option alone.
    """
    if options.reasoning_budget is not None or options.reasoning_effort is not None:
        return bool(options.reasoning_budget) or options.reasoning_effort not in (None, "none")
    entry = {} if is_offline(spec) else table_entry(spec) or {}
    is_told = "claude" in spec or entry.get("default_reasoning_effort") == "none"
    return bool(entry.get("supports_reasoning")) and not is_told


class ReplyLimits:
    """The limits that one model is sent, for limits of its visible reply; learns from replies that it reasons."""

    def __init__(self, spec: str, options: ModelOptions) -> None:
        self._spec, self._visible = spec, options.max_tokens
        self._reasons = reasons(spec, options)
        budget = options.reasoning_budget
        self._room = ROOM[options.reasoning_effort or "medium"] if budget is None else budget
        self._room = self._room or ROOM["minimal"]
        self._most: int | None = None if is_offline(spec) else (table_entry(spec) or {}).get("max_output_tokens")
        self.window: int | None = None
        """Tokens of prompt and reply together, where a server or the user says so."""
        self._starved = 0

    def first(self, visible: int, prompt: int = 0) -> int:
        """Return the limit to send first, for the limit of a request and a prompt of so many tokens."""
        visible = self._visible or visible
        return self._capped(visible + self._room, visible, prompt) if self._reasons else visible

    def wider(self, visible: int, sent: int, prompt: int = 0) -> int | None:
        """Return the limit to send once more after an empty reply; None if there is no wider one."""
        visible = self._visible or visible
        wanted = visible + self._room if sent == visible else visible + 2 * (sent - visible)
        wider = self._capped(wanted, visible, prompt)
        return wider if wider > sent else None

    def _capped(self, limit: int, visible: int, prompt: int) -> int:
        left = self.window - prompt - MARGIN_TOKENS if self.window else limit
        return max(min(limit, left, self._most or limit), visible)

    def learn(self, reply: ChatReply, sent: int) -> None:
        """Learn from the last reply to a request.

        Raises:
            FatalModelError: some calls in a row gave no visible reply.
        """
        self._reasons |= bool(reply.asked and reply.asked.reasoning_tokens)
        self._starved = self._starved + 1 if reply.is_starved else 0
        if self._starved >= _STARVED:
            raise FatalModelError(
                f"The model spent its whole limit ({sent:,} tokens) without a visible reply, {self._starved} times "
                "in a row",
                where=self._spec,
                fix="Give more room with --reasoning-budget TOKENS, or a lower --reasoning-effort",
            )


def judge_rule(spec: str, options: ModelOptions) -> Mapping[str, Any]:
    """Return what the parameters of a judge say of the options of its model, and of the room for its reasoning."""
    if is_offline(spec):
        return {}
    return options.recorded | (RULE if reasons(spec, options) else {})
