"""How the keys of a unit and its own text are put together. No unit ever loses all its keys."""

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from longmemeval.ranking.lexical import UnitWords
from longmemeval.ranking.word_counts import count_words

JoinMode = Literal["separate", "merge", "replace"]


def joined_words(
    own: UnitWords, unit_ids: Sequence[str], keys: Mapping[str, Sequence[str]], mode: JoinMode
) -> list[list[UnitWords]]:
    """What units are found by, for each index over them: a unit's score is its best of all indexes.

    Args:
        own: the words of the units' messages.
        unit_ids: the id of each unit.
        keys: unit id to the texts of its keys; a unit that is missing or has only blank ones keeps its own words. Ids
            that are not a unit's are passed over.
        mode: `merge` adds the words of the keys, each text once, to the unit's own, `replace` puts them in their place,
            `separate` puts them in an index of their own.
    """
    if mode == "separate":
        alone = count_words(["\n".join(keys.get(unit_id, ())) for unit_id in unit_ids])
        return [[own], [UnitWords(alone, np.arange(len(unit_ids)))]]
    texts = ["\n".join(text for text in dict.fromkeys(keys.get(unit_id, ())) if text.strip()) for unit_id in unit_ids]
    if mode == "replace":
        keyed = np.flatnonzero([bool(text) for text in texts])
        own = UnitWords(own.words, np.where(np.isin(own.units, keyed), -1, own.units))
    return [[own, UnitWords(count_words(texts), np.arange(len(unit_ids)))]]
