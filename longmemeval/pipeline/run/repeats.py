"""Repeat the same run, to measure how much the answers of one configuration vary by themselves."""

from msgspec import structs

from longmemeval.dataset import Dataset
from longmemeval.llm.costs.spending import SPENDING, limit_beside
from longmemeval.llm.options import SpendingLimit
from longmemeval.memory.configuration import MemoryConfiguration, as_configuration
from longmemeval.pipeline.run.answering import RunReport
from longmemeval.pipeline.run.run import RunOptions, run
from longmemeval.results.manifest import default_run_id
from longmemeval.results.selection import Selection
from longmemeval.results.shards import sharded_id
from longmemeval.settings import Folders


def run_repeats(
    dataset: Dataset,
    memory: MemoryConfiguration | str,
    model_spec: str,
    repeats: int,
    *,
    selection: Selection = Selection(),
    options: RunOptions = RunOptions(),
    folders: Folders | None = None,
) -> list[RunReport]:
    """Make `repeats` runs that differ only by the model's own variation, `<run id>-r1` and on.

    `compare` recognises them and reports their spread. Arguments and errors are those of `run`; a spending
    limit applies to all of them together.
    """
    folders = folders or Folders()
    configuration = as_configuration(memory)
    base = options.run_id or default_run_id(folders.results_dir, dataset.name, configuration.name, model_spec)
    run_ids = [sharded_id(f"{base}-r{number}", selection.shard) for number in range(1, repeats + 1)]

    def spending(run_id: str) -> SpendingLimit | None:
        """Return the limit of all repeats together, as it applies to one of them."""
        others = (folders.results_dir / other / SPENDING for other in run_ids if other != run_id)
        return limit_beside(options.spending, others)

    return [
        run(
            dataset,
            configuration,
            model_spec,
            selection=selection,
            options=structs.replace(
                options,
                run_id=run_id,
                repeat=number,
                spending=spending(run_id),
                tell=options.tell if number == 1 else None,
            ),
            folders=folders,
        )
        for number, run_id in enumerate(run_ids, start=1)
    ]
