"""Combining the keys of a unit with its own text. Every unit keeps some words by which it is found."""

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from longmemeval.ranking.lexical import UnitWords
from longmemeval.ranking.word_counts import count_words

JoinMode = Literal["separate", "merge", "replace"]


def joined_words(
    own: UnitWords, unit_ids: Sequence[str], keys: Mapping[str, Sequence[str]], mode: JoinMode
) -> list[list[UnitWords]]:
    """Return the words to find units by, for each index; a unit's score is its best of all indexes.

    Args:
        own: words of the units' messages.
        unit_ids: id of each unit.
        keys: texts of keys by unit id; a unit that is missing or has only blank ones keeps its own words. Unknown ids
            are ignored.
        mode: `merge` adds the words of the keys, each text once, to the unit's own, `replace` uses them instead,
            `separate` puts them in a separate index.
    """
    if mode == "separate":
        separate = count_words(["\n".join(keys.get(unit_id, ())) for unit_id in unit_ids])
        return [[own], [UnitWords(separate, np.arange(len(unit_ids)))]]
    texts = ["\n".join(text for text in dict.fromkeys(keys.get(unit_id, ())) if text.strip()) for unit_id in unit_ids]
    if mode == "replace":
        keyed = np.flatnonzero([bool(text) for text in texts])
        own = UnitWords(own.words, np.where(np.isin(own.units, keyed), -1, own.units))
    return [[own, UnitWords(count_words(texts), np.arange(len(unit_ids)))]]
