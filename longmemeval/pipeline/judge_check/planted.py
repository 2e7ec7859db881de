"""The material of a data set's plants, and the way its benchmark makes them."""

from collections.abc import Sequence

import msgspec

from longmemeval.benchmarks.spec import Benchmark
from longmemeval.benchmarks.specs import benchmark_of
from longmemeval.dataset import Dataset
from longmemeval.errors import HarnessError
from longmemeval.judges.plants.plant import Plant
from longmemeval.judges.plants.planting import Ground, Planting


def encoded_plants(plants: Sequence[Plant]) -> bytes:
    """Return the bytes of a file of plants."""
    return b"".join(msgspec.json.encode(plant) + b"\n" for plant in plants)


def planting_of(benchmark: Benchmark) -> Planting:
    """Return the way in which a benchmark makes plants.

    Raises:
        HarnessError: the benchmark does not define it.
    """
    if benchmark.planting is None:
        raise HarnessError(
            f"No judge can be checked on {benchmark.title}: it does not define how answers are planted",
            where=f"benchmark {benchmark.name}",
            fix="Give its `Benchmark` a `planting` (docs/add-a-benchmark.md)",
        )
    return benchmark.planting


def ground_of(dataset: Dataset, seed: int) -> Ground:
    """Return the material of a data set's plants.

    Args:
        dataset: everything but its haystacks is read.
        seed: another seed chooses other numbers, names and questions.

    Raises:
        DataError: the data do not match their format.
    """
    questions = tuple(dataset.questions())
    return Ground(
        questions=questions,
        golds={question.question_id: dataset.gold(question.question_id) for question in questions},
        ability=benchmark_of(dataset).types.ability_of,
        haystack=lambda question: dataset.haystack(question.haystack_id),
        seed=seed,
    )
