"""Key expansions of one prepared history, by unit."""

from collections import defaultdict

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from longmemeval.core.arrays import Vectors
from longmemeval.errors import HarnessError
from longmemeval.ranking.expansion.keys import ExpansionKind, ExpansionLevel
from longmemeval.ranking.expansion.part import keys_part
from longmemeval.ranking.expansion.vectors import key_owners, key_vectors_part
from longmemeval.ranking.history import HistoryView
from longmemeval.storage.fixture import Fixture


class KeyVectors(Struct, frozen=True):
    """Vectors of keys, and the units they belong to."""

    vectors: Vectors
    """Shape (keys, dimension), rows of length 1."""
    units: NDArray[np.int64]
    """Position of each key's unit, shape (keys,)."""


class UnitKeys:
    """The keys of one kind.

    Those of a turn belong to the unit that contains it, those of a session to the session.

    Args:
        fixture: contains the keys and, if used, their vectors.
        level: source of the keys.

    Raises:
        HarnessError: keys of sessions cannot be used for units of this granularity.
    """

    def __init__(self, history: HistoryView, fixture: Fixture, kind: ExpansionKind, level: ExpansionLevel) -> None:
        if level == "session" and history.granularity != "session":
            raise HarnessError(
                f"Keys of sessions cannot find units of granularity '{history.granularity}'",
                fix="Set granularity=session, or expansion_level=turn",
            )
        self._fixture = fixture
        self._keys, self._key_vectors = keys_part(kind, level), key_vectors_part(kind, level)
        self._unit_ids = [unit.unit_id for unit in history.units]
        self._places = (
            {unit.thread_id: place for place, unit in enumerate(history.units)}
            if level == "session"
            else {
                message.message_id: place
                for place, unit in enumerate(history.units)
                for message in history.messages(unit)
            }
        )

    def texts(self) -> dict[str, list[str]]:
        """Return the texts of keys by unit id; units without any are left out."""
        texts: dict[str, list[str]] = defaultdict(list)
        for item in self._fixture.part(self._keys).items:
            if item.texts and item.unit_id in self._places:
                texts[self._unit_ids[self._places[item.unit_id]]] += item.texts
        return texts

    def vectors(self) -> KeyVectors:
        """Return the vectors of all keys that belong to a unit."""
        opened = self._fixture.part(self._key_vectors)
        owners, vectors = key_owners(opened), opened.rows()[1]
        serving = [row for row, owner in enumerate(owners) if owner in self._places]
        units = np.array([self._places[owners[row]] for row in serving], dtype=np.int64)
        return KeyVectors(vectors[serving], units)
