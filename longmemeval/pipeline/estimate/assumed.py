"""Assumptions of estimates if earlier work has recorded nothing: these figures are here and nowhere else."""

SAMPLED = 20
"""Number of questions whose prompts are made; the others are assumed to be like them."""
REPLY_SHARE = 0.2
"""Length of an expected reply as a share of the longest."""
LABEL_TOKENS, LABEL_ROOM = 3, 20
"""Tokens of a judge's label, usually yes or no, and the reply limit up to which they are assumed."""
CALL_S, TOKENS_PER_SECOND = 1.0, 50.0
"""Seconds of any call, and tokens of its reply per second."""
BATCH_S = 86_400.0
"""Seconds within which providers answer a batch."""
MESSAGE_S = 0.0001
"""Seconds of processor time to make one part of one message: 0.02 to 0.2 ms in the built-in memories."""
TEXT_S = 0.02
"""Seconds to embed a text with a model on this machine."""
START_S = 2.0
"""Seconds until worker processes have started."""
LEAST, MOST = 1 / 3, 3.0
"""The range of an assumed time, as shares of it."""
TOKEN_BYTES, ANSWER_BYTES = 4.5, 1500
"""Bytes of a stored prompt's token, and of an answer's line."""


def call_seconds(tokens: float) -> float:
    """Return the assumed seconds of a call with a reply of `tokens` tokens."""
    return CALL_S + tokens / TOKENS_PER_SECOND


CALLS_ASSUMED = f"{CALL_S:.0f} s and {TOKENS_PER_SECOND:.0f} tokens a second"
"""The assumption of `call_seconds` in words."""
