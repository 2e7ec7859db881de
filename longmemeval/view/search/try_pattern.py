"""Search for a pattern in a process of its own: read `[pattern, texts, seconds]`, write indexes or an error."""

import json
import re
import sys
import warnings
from contextlib import suppress

_MEMORY = 1 << 30
"""The most bytes of memory that the process may take, if the system can enforce it."""


def main() -> None:
    """Read the arguments, search the texts, and write the result."""
    warnings.simplefilter("ignore")
    pattern, texts, seconds = json.load(sys.stdin)
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    try:
        search = re.compile(pattern, re.IGNORECASE).search
    except (re.error, OverflowError, RecursionError) as error:
        json.dump(str(error), sys.stdout)
        return
    json.dump([place for place, text in enumerate(texts) if search(text)], sys.stdout)


if __name__ == "__main__":
    main()
