"""Answering models that do not understand the question: controls that a memory system, and a judge, must beat.

`offline/refuse` always says that it does not know, `offline/parrot` repeats all that was recalled,
`offline/last-session` the last session of it, and `offline/longest-option` picks the longest of the options offered.
"""

import time
from collections.abc import Callable, Mapping

from longmemeval.llm.protocol import ChatReply, ChatRequest
from longmemeval.records import Usage

REFUSAL = "I don't know. The conversation does not say."
"""Reply of a control with nothing to repeat; every judge here treats it as abstaining."""


class ControlModel:
    """Answers by one rule, whatever the question.

    Args:
        spec: its name.
        answer: returns the text to repeat from a request; empty: it refuses.
    """

    def __init__(self, spec: str, answer: Callable[[ChatRequest], str]) -> None:
        self.spec = spec
        self._answer = answer

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Return the rule's answer, never cut to `max_tokens`."""
        started = time.perf_counter()
        text = self._answer(request).strip() or REFUSAL
        elapsed = (time.perf_counter() - started) * 1000
        return ChatReply(text, "stop", Usage(calls=1), served_model=self.spec, latency_ms=elapsed)


REFUSE, PARROT, LAST_SESSION = "offline/refuse", "offline/parrot", "offline/last-session"
LONGEST_OPTION = "offline/longest-option"
CONTROL_MODELS: Mapping[str, Callable[[ChatRequest], str]] = {
    REFUSE: lambda request: "",
    PARROT: lambda request: "\n".join(request.passages),
    LAST_SESSION: lambda request: "\n".join(request.last_session()),
    # Options begin with their letter: "(a) …".
    LONGEST_OPTION: lambda request: max(request.options, key=len, default="")[:3],
}
"""Functions that return the text to repeat, by spec."""
