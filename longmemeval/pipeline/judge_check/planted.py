"""The material of a data set's plants, and the way its benchmark makes them."""

from collections.abc import Iterator, Sequence

import msgspec

from longmemeval.benchmarks.catalogue import benchmark_of
from longmemeval.benchmarks.spec import Benchmark
from longmemeval.dataset import Dataset
from longmemeval.errors import HarnessError
from longmemeval.judges.definition import compares_words
from longmemeval.judges.plants.judged import judged_plants
from longmemeval.judges.plants.planting import Ground, Plant, Planting
from longmemeval.judges.protocol import JudgeIdentity
from longmemeval.records import Question


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


def plants_of(dataset: Dataset, ground: Ground, questions: Sequence[Question], judge: JudgeIdentity) -> Iterator[Plant]:
    """Yield the plants that a judge is checked on: made by rules and, if it needs them, labelled by hand."""
    yield from planting_of(benchmark_of(dataset)).plants(ground, questions)
    if compares_words(judge):
        yield from judged_plants(dataset.path, ground.golds, {question.question_id for question in questions})


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
