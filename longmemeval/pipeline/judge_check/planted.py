"""What plants of a data set are made from, and how its benchmark has them made."""

from collections.abc import Sequence

import msgspec

from longmemeval.benchmarks.spec import Benchmark
from longmemeval.benchmarks.specs import benchmark_of
from longmemeval.dataset import Dataset
from longmemeval.errors import HarnessError
from longmemeval.judges.plants.plant import Plant
from longmemeval.judges.plants.planting import Ground, Planting


def encoded_plants(plants: Sequence[Plant]) -> bytes:
    """Return plants as they are in their file."""
    return b"".join(msgspec.json.encode(plant) + b"\n" for plant in plants)


def planting_of(benchmark: Benchmark) -> Planting:
    """Return how a benchmark has plants made.

    Raises:
        HarnessError: it says nothing of it.
    """
    if benchmark.planting is None:
        raise HarnessError(
            f"No judge can be checked on {benchmark.title}: it does not say how answers of known truth are made",
            where=f"benchmark {benchmark.name}",
            fix="Give its `Benchmark` a `planting` (docs/add-a-benchmark.md)",
        )
    return benchmark.planting


def ground_of(dataset: Dataset, seed: int) -> Ground:
    """Return what the plants of a data set are made from.

    Args:
        dataset: all of it is read but its haystacks.
        seed: another seed takes other numbers, names and questions.

    Raises:
        DataError: it is not as its format demands.
    """
    questions = tuple(dataset.questions())
    return Ground(
        questions=questions,
        golds={one.question_id: dataset.gold(one.question_id) for one in questions},
        ability=benchmark_of(dataset).types.ability_of,
        haystack=lambda question: dataset.haystack(question.haystack_id),
        seed=seed,
    )
