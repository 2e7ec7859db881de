"""Pool runs that repeat one configuration: they differ in nothing but the number of the repeat."""

from collections.abc import Sequence

from longmemeval.results.graded.graded_run import Evaluation
from longmemeval.results.index import settings_sha256


def pool_repeats(graded: Sequence[Evaluation]) -> list[list[Evaluation]]:
    """Return the runs with repeats of one configuration together, each other run by itself, in the order given."""
    alike: dict[str, list[Evaluation]] = {}
    for run in graded:
        alike.setdefault(settings_sha256(run.manifest), []).append(run)
    pools: list[list[Evaluation]] = []
    for runs in alike.values():
        numbers = {run.manifest.settings.plain.get("repeat") for run in runs}
        pools += [runs] if len(numbers) > 1 else [[run] for run in runs]
    return sorted(pools, key=lambda pool: graded.index(pool[0]))
