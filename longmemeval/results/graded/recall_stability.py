"""What is known of memories that were asked the same question twice (`retrieval --twice`)."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from longmemeval.core.text.plural import count_of
from longmemeval.errors import HarnessError
from longmemeval.measures.rankings import Difference, Ranking
from longmemeval.results.lines import RANKINGS
from longmemeval.results.manifest import RunManifest, stored_manifest
from longmemeval.results.settings import MemorySettings, RetrievalSettings

ASKED_TWICE = "asked_twice"
"""Where the totals of a manifest tell of it."""
_WORDS: dict[Difference, str] = {
    "ids": "other items",
    "order": "another order",
    "text": "another text",
    "error": "one of the two failed",
}


class Repeatability(Struct, frozen=True):
    """How often the second recall was another one."""

    n: int
    """Questions asked twice."""
    changed: int
    """Of these, those that differed in anything."""
    by_difference: dict[str, int]
    """Questions by what differed; one may differ in several."""

    @property
    def sentence(self) -> str:
        """What was found."""
        asked = count_of(self.n, "question")
        if not self.changed:
            return f"Asked twice, the memory recalled the same for each of {asked}."
        kinds = "; ".join(f"{words}: {self.by_difference[one]:,}" for one, words in _WORDS.items()
                          if one in self.by_difference)  # fmt: skip
        share = f"{self.changed / self.n * 100:.1f} %"
        return f"Asked twice, the memory recalled something else for {self.changed:,} of {asked}, {share} ({kinds})."


def repeatability(rankings: Iterable[Ranking]) -> Repeatability | None:
    """The sums over the questions that were asked twice; None where none was."""
    found = [one.second for one in rankings if one.second is not None]
    if not found:
        return None
    counts = {str(kind): count for kind in _WORDS if (count := sum(kind in one for one in found))}
    return Repeatability(len(found), sum(map(bool, found)), counts)


def repeatability_of(manifest: RunManifest) -> Repeatability | None:
    """What a manifest tells."""
    told = manifest.totals.get(ASKED_TWICE)
    return msgspec.convert(told, Repeatability) if told else None


class RecallStability:
    """The runs of `retrieval --twice` among the results; read when first asked for.

    Args:
        results_dir: where the runs are.
    """

    def __init__(self, results_dir: Path) -> None:
        self._results_dir = results_dir
        self._found: list[tuple[RunManifest, Repeatability]] | None = None

    def of(self, memory: MemorySettings | None, content_sha256: str) -> Repeatability | None:
        """What is known of a memory on the same data; of several runs the one with most questions.

        Args:
            memory: what it is; its name does not count.
            content_sha256: of the data.
        """
        if self._found is None:
            self._found = list(self._read())
        fitting = [
            found
            for manifest, found in self._found
            if memory
            and manifest.dataset.get("content_sha256") == content_sha256
            and (other := manifest.settings.memory_asked)
            and _same(memory) == _same(other)
        ]
        return max(fitting, key=lambda one: one.n, default=None)

    def _read(self) -> Iterable[tuple[RunManifest, Repeatability]]:
        for path in sorted(self._results_dir.glob(f"*/{RANKINGS}")):
            try:
                manifest = stored_manifest(path.parent)
                if isinstance(manifest.settings, RetrievalSettings) and (found := repeatability_of(manifest)):
                    yield manifest, found
            except (HarnessError, OSError, msgspec.ValidationError):
                continue  # `verify` says what is wrong with it.


def _same(memory: MemorySettings) -> tuple[str, dict[str, Any], object]:
    return memory.preset, memory.parameters, memory.source
