"""An embedder in one file: texts by how often each letter occurs in them."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class LetterCounts:
    """Vectors of 26 letter counts, of length 1."""

    spec = "letters"
    fingerprint = "letters 1"
    dimension = 26

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a row for each text."""
        rows = np.zeros((len(texts), self.dimension), np.float32)
        for row, text in zip(rows, texts, strict=True):
            for letter in text.lower():
                if "a" <= letter <= "z":
                    row[ord(letter) - ord("a")] += 1
            row /= max(float(np.linalg.norm(row)), 1e-9)
        return rows
