"""Default values, shared by the command line, YAML and Python."""

MAX_ATTEMPTS = 6
"""Attempts per model call, the first included."""
TIMEOUT_S = 120.0
"""Seconds for one attempt of a model call."""
GIVE_UP_AFTER_S = 120.0
"""Seconds of failures without a success after which an endpoint or a store counts as dead."""
CONCURRENCY = 8
"""Model calls in flight."""
EMBED_BATCH = 128
"""Texts in one call of an embedding server."""
