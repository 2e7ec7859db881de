from collections.abc import Callable, Sequence
from fractions import Fraction

class SmoothingFunction:
    def method1(self, p_n: Sequence[Fraction], *args: object, **kwargs: object) -> list[Fraction | float]: ...

def sentence_bleu(
    references: Sequence[Sequence[str]],
    hypothesis: Sequence[str],
    weights: Sequence[float] = (0.25, 0.25, 0.25, 0.25),
    smoothing_function: Callable[..., list[Fraction | float]] | None = None,
) -> float: ...
