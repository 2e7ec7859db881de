"""The same run several times: how far the answers of one configuration vary by themselves."""

from msgspec import structs

from longmemeval.datasets.base import Dataset
from longmemeval.memory.configuration import MemoryConfiguration, as_configuration
from longmemeval.pipeline.answering import RunReport
from longmemeval.pipeline.manifest import default_run_id
from longmemeval.pipeline.run import RunOptions, run
from longmemeval.pipeline.selection import Selection
from longmemeval.settings import Folders, folders


def run_repeats(
    dataset: Dataset,
    memory: MemoryConfiguration | str,
    model_spec: str,
    repeats: int,
    *,
    selection: Selection = Selection(),
    options: RunOptions = RunOptions(),
    where: Folders | None = None,
) -> list[RunReport]:
    """Make `repeats` runs that differ in nothing but the model's own variation, `<run id>-r1` and on.

    `compare` recognises them and tells how far they lie apart. Arguments and errors are those of `run`.
    """
    where = where or folders()
    configuration = as_configuration(memory)
    base = options.run_id or default_run_id(where.results_dir, dataset.name, configuration.name, model_spec)
    return [
        run(
            dataset,
            configuration,
            model_spec,
            selection=selection,
            options=structs.replace(
                options, run_id=f"{base}-r{number}", repeat=number, tell=options.tell if number == 1 else None
            ),
            where=where,
        )
        for number in range(1, repeats + 1)
    ]
