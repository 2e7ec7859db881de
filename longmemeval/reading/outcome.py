"""The outcome of reading one question."""

from msgspec import Struct

from longmemeval.errors import EmptyReplyError, ModelError, RecallError
from longmemeval.llm.protocol import ChatReply
from longmemeval.reading.prompts import EncodedPrompt
from longmemeval.records import Answer

REDACTED = "the server repeated a secret, which was taken out of its reply"
UNKNOWN_REASON = "unknown"
"""Finish reason of a reply that gives none."""


class Reading(Struct, frozen=True):
    """The outcome for one question."""

    answer: Answer
    prompts: tuple[EncodedPrompt, ...]
    failure: ModelError | RecallError | None = None
    """Reason why there is no answer; its type says whether other questions will fail too."""


def empty_reply(reply: ChatReply, finish_reason: str) -> EmptyReplyError:
    """Return the failure of a call whose reply has no text."""
    tries = f"{reply.attempts} attempts" if reply.attempts > 1 else "1 attempt"
    spent = "Begin a new run with a higher --max-tokens: the model used them up, in reasoning perhaps, before answering"
    return EmptyReplyError(
        f"The reply is empty (finish reason: {finish_reason}; {tries})",
        fix=spent if finish_reason == "length" else "",
    )
