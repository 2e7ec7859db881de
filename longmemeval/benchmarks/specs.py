"""All benchmarks: those of this package and those of plugins."""

from collections.abc import Iterable
from functools import lru_cache

from longmemeval.benchmarks.spec import Benchmark
from longmemeval.dataset import Dataset
from longmemeval.errors import HarnessError
from longmemeval.plugins import BENCHMARKS, Registry
from longmemeval.records import Question

BENCHMARK_SPECS = Registry(BENCHMARKS, "benchmark", Benchmark)


def benchmark_of(dataset: Dataset) -> Benchmark:
    """Return the specification of a data set's benchmark.

    Raises:
        HarnessError: no benchmark of this name is installed, or it cannot be loaded.
    """
    return BENCHMARK_SPECS.get(dataset.benchmark)


def units_of(dataset: Dataset, questions: Iterable[Question]) -> dict[str, str]:
    """Return the group with which each question is resampled: its haystack, unless the benchmark has other groups."""
    unit = benchmark_of(dataset).unit
    return {question.question_id: unit(dataset, question) if unit else question.haystack_id for question in questions}


def benchmarks() -> tuple[Benchmark, ...]:
    """Return all benchmarks that can be loaded: this package's, then plugins' by name; broken plugins are skipped."""
    return _loaded(tuple(BENCHMARK_SPECS.names()))


@lru_cache(maxsize=8)
def _loaded(names: tuple[str, ...]) -> tuple[Benchmark, ...]:
    loaded = []
    for name in names:
        try:
            loaded.append(BENCHMARK_SPECS.get(name))
        except HarnessError:
            if name in BENCHMARK_SPECS.built_in:
                raise
    return tuple(loaded)


def broken_benchmarks() -> list[str]:
    """Return a sentence for each benchmark of a plugin that cannot be used, with the reason; empty if all can."""
    return [plugin.problem for plugin in BENCHMARK_SPECS.plugins() if plugin.problem]
