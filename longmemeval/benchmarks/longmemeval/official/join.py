"""LongMemEval's own way of joining expansions with its corpus, faults included; only for its protocol.

Facts: `src/retrieval/index_expansion_utils.py` and `run_retrieval.py` of github.com/xiaowu0162/LongMemEval at 9e0b455,
join modes without `split-`. Differences from `joined_words` that change scores:

- An empty list of facts takes the document out of the corpus (`merge`, `replace`).
- A document relabelled `noans` never matches the id by which it is looked up, and stays as it is; under `separate` its
  expansion is added under the id that counts as gold.
- A session that occurs twice in a haystack is expanded twice, and each pass affects both documents.
- Keys of sessions match no document of turns, nor vice versa; under `separate` they are added anyway.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from longmemeval.core.text_files import decode_json, reading
from longmemeval.errors import DataError, HarnessError
from longmemeval.ranking.expansion.chat import ExpansionKind, ExpansionLevel
from longmemeval.ranking.expansion.part import JoinMode

OfficialExpansion = str | Sequence[object] | None
"""A value of an official cache file: a text, a list of facts, or null for a failed extraction."""

_KINDS: Mapping[ExpansionKind, str] = {"summary": "summ", "keyphrase": "keyphrase", "fact": "userfact"}
_METHODS = ("session-summ", "session-keyphrase", "session-userfact", "turn-keyphrase", "turn-userfact")


class CorpusItem(NamedTuple):
    """A document of the official corpus."""

    corpus_id: str
    text: str
    timestamp: str


def official_method(kind: ExpansionKind, level: ExpansionLevel, granularity: ExpansionLevel) -> str:
    """Return the official name of an expansion, such as `turn-userfact`.

    Args:
        level: level of the expansion.
        granularity: level of the documents in the corpus.

    Raises:
        HarnessError: the official code does not join such an expansion, or not with such a corpus.
    """
    method = f"{level}-{_KINDS.get(kind, kind)}"
    if method not in _METHODS:
        raise HarnessError(
            f"The official protocol has no expansion of kind '{kind}' at level '{level}'",
            fix="Set expansion to keyphrase or fact, or to summary with expansion_level=session",
        )
    # In the official code, facts of sessions escape this check because of a misspelt name.
    if granularity == "turn" and method in ("session-summ", "session-keyphrase"):
        raise HarnessError(
            f"The official protocol joins '{method}' with sessions only",
            fix="Use --granularity session, or another expansion",
        )
    return method


def read_official_cache(path: Path, method: str) -> dict[str, OfficialExpansion]:
    """Read expansions from a file of the official scripts: a JSON object from id to text, list of facts or null.

    Args:
        path: the file; the official code requires the method in its path.
        method: the method that the path must contain.

    Raises:
        HarnessError: the path does not contain the method.
        DataError: the file cannot be read, or is not such an object.
    """
    if method not in str(path):
        raise HarnessError(
            f"By its name, the expansion cache is not for '{method}'",
            where=str(path),
            fix="Name the file of that expansion; the official code looks for its name in the path too",
        )
    fix = "It must be one JSON object: session or turn id to a text, a list of facts, or null"
    with reading(
        "The expansion cache", path, "does not have the form that the official scripts write", kind=DataError, fix=fix
    ):
        cache = decode_json(path.read_bytes(), dict[str, OfficialExpansion])
    for name, value in cache.items():
        if isinstance(value, list) and len(value) != 1 and not method.endswith("userfact"):
            raise DataError(
                f"The entry '{name}' is a list of {len(value)}, but an expansion '{method}' is one text",
                where=str(path),
            )
    return cache


def official_cache(kind: ExpansionKind, texts: Mapping[str, Sequence[str]]) -> dict[str, OfficialExpansion]:
    """Return expansions as in an official cache file.

    Args:
        kind: kind of the expansions; facts stay a list, summaries are joined by spaces, keyphrases by semicolons.
        texts: official id, as in the data (`answer_` included), to the expansion's texts. No text becomes null, but an
            empty list of facts stays one.

    Raises:
        DataError: events, which the official code does not join.
    """
    if kind == "event":
        raise DataError("The official protocol does not join events", fix="Choose summary, keyphrase or fact")
    if kind == "fact":
        return {_cache_key(name): list(items) for name, items in texts.items()}
    separator = " " if kind == "summary" else "; "
    return {_cache_key(name): separator.join(items) or None for name, items in texts.items()}


def official_unit_id(unit_id: str, level: ExpansionLevel) -> str:
    """Return the official id of a stored unit: the thread id of a session; `session_1` for the turn `session:0`."""
    if level == "session":
        return unit_id
    session_id, _, index = unit_id.rpartition(":")
    return f"{session_id}_{int(index) + 1}"


def official_join(
    corpus: Sequence[CorpusItem],
    units: Sequence[tuple[str, str]],
    cache: Mapping[str, OfficialExpansion],
    mode: JoinMode,
) -> list[CorpusItem]:
    """Return the corpus after index expansion.

    Args:
        corpus: the documents in file order, ids relabelled where they are not gold.
        units: id and timestamp of every session, or of every user turn (`{session}_{position from 1}`), in file order,
            each as often as in the haystack; ids as in the data, not relabelled.
        cache: content of an official cache file: id without `answer_` and `noans_`, to the expansion.
        mode: `separate` appends documents, `merge` puts expansion and space before the text, `replace` replaces it.
    """
    if mode == "separate":
        return [
            *corpus,
            *(
                CorpusItem(unit_id, text, timestamp)
                for unit_id, timestamp in units
                for text in _official_texts(cache.get(_cache_key(unit_id)))
            ),
        ]
    passes = Counter(unit_id for unit_id, _ in units)
    joined: list[CorpusItem] = []
    for item in corpus:
        items = [item]
        texts = _official_texts(cache.get(_cache_key(item.corpus_id))) if item.corpus_id in passes else []
        for _ in range(passes[item.corpus_id]):
            items = [_expanded(variant, text, mode) for variant in items for text in texts]
        joined += items
    return joined


def _cache_key(unit_id: str) -> str:
    return unit_id.replace("answer_", "").replace("noans_", "")


def _official_texts(expansion: OfficialExpansion) -> list[str]:
    """Return at most one text; none only for an empty list."""
    if expansion is None:
        return [""]
    if isinstance(expansion, str):
        return [expansion]
    return [" ".join(map(str, expansion))] if expansion else []


def _expanded(item: CorpusItem, text: str, mode: JoinMode) -> CorpusItem:
    return item._replace(text=f"{text} {item.text}" if mode == "merge" else text)
