"""Index expansion under the official protocol: the source of the expansions, and the corpus with them."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from longmemeval.benchmarks.longmemeval.loader import Record
from longmemeval.benchmarks.longmemeval.official.join import (
    CorpusItem,
    OfficialExpansion,
    official_cache,
    official_join,
    official_method,
    official_unit_id,
    read_official_cache,
)
from longmemeval.benchmarks.longmemeval.official.measures import OfficialDocument
from longmemeval.benchmarks.retrieval_protocols import RankingRequest
from longmemeval.core.files import sha256_file
from longmemeval.errors import HarnessError
from longmemeval.memory.configuration import resolve_configuration
from longmemeval.ranking.expansion.chat import ExpansionKind, ExpansionLevel
from longmemeval.ranking.expansion.part import JoinMode, keys_part

PARAMETERS = ("expansion", "expansion_level", "expansion_join")
"""Parameters of a memory that the official protocol supports."""

_Cache = Mapping[str, OfficialExpansion]


@dataclass(frozen=True)
class OfficialExpansions:
    """Expansions to join with each question's corpus."""

    level: ExpansionLevel
    mode: JoinMode
    cache_of: Callable[[str], _Cache]
    """Function from a haystack id to the expansions, as in an official cache file."""
    settings: dict[str, Any]
    """Settings of the expansions for the run's manifest."""
    fixtures: dict[str, dict[str, str]] = field(default_factory=dict)
    """Hashes (sha256) of the parts that hold them, by haystack id and part."""

    def join(self, record: Record, corpus: list[OfficialDocument]) -> list[OfficialDocument]:
        """Return the corpus of one question with the expansions, as the official code builds it."""
        items = [CorpusItem(document.corpus_id, document.text, document.timestamp) for document in corpus]
        units = list(_units(record, self.level))
        joined = official_join(items, units, self.cache_of(record.question_id), self.mode)
        return [OfficialDocument(*item) for item in joined]


def official_expansions(request: RankingRequest) -> OfficialExpansions | None:
    """Return the expansions that a configuration asks for; None when it asks for none.

    Args:
        request: its configuration has `expansion`, `expansion_level` and `expansion_join`; the expansions are read from
            its preparation or its file in the official format.

    Raises:
        HarnessError: the official code does not join such expansions, or they are missing or damaged.
    """
    parameters, cache_file = request.configuration.parameters, request.expansion_cache
    kind: ExpansionKind | None = parameters.get("expansion")
    if kind is None:
        if cache_file:
            raise HarnessError(
                "--expansion-cache names expansions, but the memory does not use any",
                fix=f"Add --set expansion=KIND ({', '.join(get_args(ExpansionKind)[:3])})",
            )
        return None
    level: ExpansionLevel = parameters["expansion_level"]
    mode: JoinMode = parameters["expansion_join"]
    method = official_method(kind, level, request.level)
    if cache_file:
        cache = read_official_cache(cache_file, method)
        settings = {"method": method, "join": mode, "cache_sha256": sha256_file(cache_file)}
        return OfficialExpansions(level, mode, lambda _: cache, settings)
    # Only the expansions are read, for any memory.
    reader = resolve_configuration("bm25", [f"expansion={kind}", f"expansion_level={level}"])
    fixtures = request.fixtures(reader)
    part = keys_part(kind, level)

    def cache_of(haystack_id: str) -> _Cache:
        texts = fixtures.open(haystack_id).part(part).texts
        return official_cache(kind, {official_unit_id(unit_id, level): own for unit_id, own in texts.items()})

    settings = {"method": method, "join": mode, "preparation": request.prepared}
    return OfficialExpansions(level, mode, cache_of, settings, fixtures.hashes(request.questions))


def _units(record: Record, level: ExpansionLevel) -> Iterator[tuple[str, str]]:
    """Yield id and timestamp of every session, or every user turn, as in the data."""
    columns = zip(record.haystack_session_ids, record.haystack_sessions, record.haystack_dates, strict=True)
    for session_id, session, date in columns:
        if level == "session":
            yield session_id, date
        else:
            for number, turn in enumerate(session, start=1):
                if turn.role == "user":
                    yield f"{session_id}_{number}", date
