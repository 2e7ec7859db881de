"""Stability of the recall of memories when the same question is put twice (`retrieval --twice`)."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from longmemeval.core.text.figures import count_of
from longmemeval.errors import HarnessError
from longmemeval.measures.notation import Difference, Ranking
from longmemeval.results.lines import RANKINGS
from longmemeval.results.manifest import RunManifest, stored_manifest
from longmemeval.results.settings import MemorySettings, RetrievalSettings

ASKED_TWICE = "asked_twice"
"""Key of the figures in the totals of a manifest."""
_WORDS: dict[Difference, str] = {
    "ids": "other items",
    "order": "another order",
    "text": "another text",
    "error": "one of the two failed",
}


class Repeatability(Struct, frozen=True):
    """Numbers of second recalls that differed from the first."""

    n: int
    """Number of questions put twice."""
    changed: int
    """Number of these that differed in anything."""
    by_difference: dict[str, int]
    """Number of questions by difference; one may differ in several ways."""

    @property
    def sentence(self) -> str:
        """The result in a sentence."""
        questions = count_of(self.n, "question")
        if not self.changed:
            return f"Asked twice, the memory recalled the same for each of {questions}."
        kinds = "; ".join(f"{words}: {self.by_difference[kind]:,}" for kind, words in _WORDS.items()
                          if kind in self.by_difference)  # fmt: skip
        share = f"{self.changed / self.n * 100:.1f} %"
        return (
            f"Asked twice, the memory recalled something else for {self.changed:,} of {questions}, {share} ({kinds})."
        )


def repeatability(rankings: Iterable[Ranking]) -> Repeatability | None:
    """Return the counts over the questions that were put twice; None if none was."""
    found = [ranking.second for ranking in rankings if ranking.second is not None]
    if not found:
        return None
    counts = {str(kind): count for kind in _WORDS if (count := sum(kind in differences for differences in found))}
    return Repeatability(len(found), sum(map(bool, found)), counts)


def repeatability_of(manifest: RunManifest) -> Repeatability | None:
    """Return the figures in a manifest; None if it has none."""
    stored = manifest.totals.get(ASKED_TWICE)
    return msgspec.convert(stored, Repeatability) if stored else None


class RecallStability:
    """The runs of `retrieval --twice` among the results; read at the first query.

    Args:
        results_dir: folder of the runs.
    """

    def __init__(self, results_dir: Path) -> None:
        self._results_dir = results_dir
        self._found: list[tuple[RunManifest, Repeatability]] | None = None

    def of(self, memory: MemorySettings | None, content_sha256: str) -> Repeatability | None:
        """Return the figures of a memory on the same data; of several runs, those of the one with most questions.

        Args:
            memory: settings of the memory; its name does not count.
            content_sha256: content hash of the data.
        """
        if self._found is None:
            self._found = list(self._read())
        fitting = [
            found
            for manifest, found in self._found
            if memory
            and manifest.dataset.get("content_sha256") == content_sha256
            and (other := manifest.settings.memory)
            and _same(memory) == _same(other)
        ]
        return max(fitting, key=lambda figures: figures.n, default=None)

    def _read(self) -> Iterable[tuple[RunManifest, Repeatability]]:
        for path in sorted(self._results_dir.glob(f"*/{RANKINGS}")):
            try:
                manifest = stored_manifest(path.parent)
                if isinstance(manifest.settings, RetrievalSettings) and (found := repeatability_of(manifest)):
                    yield manifest, found
            except (HarnessError, OSError, msgspec.ValidationError):
                continue  # `verify` reports the damage.


def _same(memory: MemorySettings) -> tuple[str, dict[str, Any], object]:
    return memory.preset, memory.parameters, memory.source
