"""The embedder of the example."""

import numpy as np
from longmemeval_example.letters import LetterCounts


def test_texts_of_the_same_letters_are_equal() -> None:
    first, second, other = LetterCounts().embed(["Listen", "silent", "zebra"])
    assert np.allclose(first, second)
    assert float(first @ other) < 0.5
