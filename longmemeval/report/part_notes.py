"""What has to be said of parts that another system made: by which versions, what it can do, and what it lost."""

from collections.abc import Iterator, Mapping
from typing import Any


def part_notes(memory: str, parts: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Sentences on each part that a run reads.

    Args:
        memory: how tables call it.
        parts: what is told of them, by name: `parts` in the settings of a manifest.
    """
    for told in parts.values():
        if "service" in told:
            yield _service_note(memory, told)
        if failed := told["failed_haystacks"]:
            yield (
                f"{memory}: {failed:,} of {told['haystacks']:,} haystacks could not be ingested; their questions "
                "count, and have no answer."
            )


def _service_note(memory: str, told: Mapping[str, Any]) -> str:
    """By which versions, what it can do, and what it lost."""
    packages, can = (", ".join(" ".join(pair) for pair in told[key][0].items()) for key in ("packages", "capabilities"))
    differ = "" if len(told["packages"]) == 1 else " (VERSIONS DIFFER between haystacks)"
    lost = f"{told['failed_batches']:,} of {told['batches']:,} batches failed"
    return f"{memory}: {packages or 'versions not told'}{differ}; {can}; {lost}."
