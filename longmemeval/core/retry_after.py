"""Waiting times requested by servers."""

import math
from email.utils import mktime_tz, parsedate_tz
from time import time

LONGEST_REQUESTED_WAIT_S = 600.0
"""Longest `Retry-After` of a server that is honoured, whatever our own limit."""


def retry_after_seconds(value: str | None) -> float | None:
    """Return the seconds to wait by a `Retry-After` header: seconds or an HTTP date (RFC 9110, section 10.2.3).

    Returns:
        At least 0; None if the header is missing or malformed.
    """
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        parsed = parsedate_tz(value)
        if parsed is None:
            return None
        seconds = mktime_tz(parsed) - time()
    return None if math.isnan(seconds) else max(0.0, seconds)
