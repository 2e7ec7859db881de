"""What differs between two records of settings."""

from collections.abc import Mapping
from typing import Any


def differences(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    prefix: str = "",
    *,
    template: str = "was {old!r}, now {new!r}",
) -> list[str]:
    """Return the differences of two settings, one sentence each: `reading.method: was 'con', now 'direct'`."""
    found = []
    for key in sorted({*before, *after}):
        old, new = before.get(key), after.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            found.extend(differences(old, new, f"{prefix}{key}.", template=template))
        elif isinstance(old or new, Mapping) and old != new and not (old and new):
            found.extend(differences(old or {}, new or {}, f"{prefix}{key}.", template=template))
        elif old != new:
            shown = {"old": _NOT_SET if old is None else old, "new": _NOT_SET if new is None else new}
            found.append(f"{prefix}{key}: {template.format(**shown)}")
    return found


class _NotSet:
    """Placeholder for a setting that is absent."""

    def __repr__(self) -> str:
        return "not set"


_NOT_SET = _NotSet()
