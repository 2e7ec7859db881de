"""What preparing cost a run: the pieces of work in a preparation's journal that made what the run reads."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import lru_cache
from math import ceil
from pathlib import Path

from longmemeval.embedding.registry import is_remote
from longmemeval.errors import HarnessError
from longmemeval.files import safe_name
from longmemeval.memory.configuration import MemoryConfiguration, needs_of
from longmemeval.pipeline.build import EMBEDDINGS, PrepareRecord
from longmemeval.pipeline.embedded_parts import VECTOR_PART
from longmemeval.pipeline.journal import read_journal
from longmemeval.pipeline.manifest import RunManifest
from longmemeval.records import Usage
from longmemeval.retrieval.expansion import is_expansion_part, is_vectors_part

PREPARE_JOURNAL = "prepare.jsonl"
_CACHED = Usage(calls=1, cached_calls=1)


def prepare_usage(manifest: RunManifest, prepared_dir: Path) -> Usage | None:
    """The model calls that made the parts of the fixtures a run reads.

    Only what made the very bytes that were read counts, and all of it, however often it was begun: a part that was made
    again by another recipe is paid for by who reads that. The working memory stands in the part `db`, which others read
    too: they do not pay for it. A call for several haystacks is shared out by their texts. Records that do not tell
    parts or texts apart count whole: of what was paid for unfinished work, and those of earlier versions.

    Args:
        manifest: of the run.
        prepared_dir: where the preparations are.

    Returns:
        None where that is not known: the answers are another system's, or the journal, or what it should say of a part,
        is not there.
    """
    if manifest.kind != "run" or not manifest.fixtures:
        return None
    if not any(manifest.fixtures.values()):
        return Usage()
    root = prepared_dir / safe_name(manifest.dataset["name"]) / safe_name(str(manifest.settings.get("preparation")))
    journal = root / PREPARE_JOURNAL
    if not journal.exists():
        return None
    state = journal.stat()
    return _Bill(manifest).made_by(_records(journal, state.st_mtime_ns, state.st_size))


@lru_cache(maxsize=8)
def _records(journal: Path, changed_ns: int, size: int) -> tuple[PrepareRecord, ...]:
    """The records of a journal, read once for all runs of its preparation."""
    return tuple(read_journal(journal, PrepareRecord))


class _Bill:
    """What a run has to pay for, as a journal is gone through from its beginning."""

    def __init__(self, manifest: RunManifest) -> None:
        self._read: Mapping[str, Mapping[str, str]] = manifest.fixtures
        self._reads_working_memory = _reads_working_memory(manifest)
        self._remote = is_remote((manifest.settings.get("embedder") or {}).get("spec", ""))
        self._usage = Usage()
        self._made: set[tuple[str, str]] = set()
        self._waiting: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
        """Embeddings that are paid for and stand in no part yet: number of the record, and texts in it."""
        self._taken: dict[int, int] = defaultdict(int)
        """Texts of each record that are in parts that are read."""

    def made_by(self, records: Iterable[PrepareRecord]) -> Usage | None:
        """The sum; None where some part that is read was made by none of the records."""
        embeddings: dict[int, PrepareRecord] = {}
        for number, record in enumerate(records):
            if record.work == "unfinished":
                self._usage += record.usage if self._reads_from(record.cache) else Usage()
            elif record.work == "embeddings":
                embeddings[number] = record
                for haystack_id, parts in record.texts.items():
                    for part, texts in parts.items():
                        self._waiting[haystack_id, part].append((number, texts))
            elif record.work == "fixture" and record.haystack_id in self._read:
                self._add(record)
        if any((haystack_id, part) not in self._made for haystack_id, parts in self._read.items() for part in parts):
            return None
        for number, record in embeddings.items():
            texts = sum(sum(parts.values()) for parts in record.texts.values())
            taken = self._taken[number] if texts else int(self._reads_from(EMBEDDINGS))
            self._usage += _share(record.usage, taken, texts or 1)
        return self._usage

    def _reads_from(self, cache: str) -> bool:
        """Whether a part is read that is made of embeddings, or of replies, as `cache` has."""
        parts = {part for parts in self._read.values() for part in parts}
        if cache == EMBEDDINGS:
            return any(map(_is_embedded, parts))
        return self._reads_working_memory or any(map(is_expansion_part, parts))

    def _add(self, record: PrepareRecord) -> None:
        """Count the parts of a fixture that are read as they were made here."""
        read = self._read[record.haystack_id]
        paid_for = False
        for part in record.parts:
            waiting = self._waiting.pop((record.haystack_id, part), [])
            digest = record.part_sha256.get(part)
            if part not in read or (digest is not None and digest != read[part]):
                continue
            self._made.add((record.haystack_id, part))
            for number, texts in waiting:
                self._taken[number] += texts
            if self._remote and _is_embedded(part) and digest is not None and not waiting:
                self._usage += _CACHED
            if part != "db" or self._reads_working_memory:
                self._usage += record.usage_by_part.get(part, Usage())
                paid_for |= part == "db" or is_expansion_part(part)
        if paid_for and not record.usage_by_part:
            self._usage += record.usage


def _is_embedded(part: str) -> bool:
    return part == VECTOR_PART or is_vectors_part(part)


def _reads_working_memory(manifest: RunManifest) -> bool:
    """Whether the working memory is read; where a configuration is not known any more, it may be."""
    try:
        return "working-memory" in needs_of(MemoryConfiguration(**manifest.settings["memory"]))
    except (HarnessError, KeyError, TypeError, ValueError):
        return True


def _share(usage: Usage, part: int, whole: int) -> Usage:
    """So much of `usage`; calls are whole ones."""
    if part == whole or not part:
        return usage if part else Usage()
    share = part / whole
    return Usage(
        calls=ceil(usage.calls * share),
        cached_calls=ceil(usage.cached_calls * share),
        prompt_tokens=round(usage.prompt_tokens * share),
        completion_tokens=round(usage.completion_tokens * share),
        cost_usd=usage.cost_usd * share,
        unpriced_calls=ceil(usage.unpriced_calls * share),
    )
