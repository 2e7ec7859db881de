"""Make the arguments of `run` from names and options."""

from collections.abc import Sequence

from msgspec import Struct, structs

from longmemeval.benchmarks.registry import load_dataset
from longmemeval.benchmarks.specs import benchmark_of
from longmemeval.dataset import Dataset
from longmemeval.memory.configuration import MemoryConfiguration, definition_of, resolve_configuration
from longmemeval.pipeline.run.run import RunOptions
from longmemeval.reading.configuration import configured
from longmemeval.reading.options import ReadingOptions
from longmemeval.results.selection import Selection
from longmemeval.settings import Folders


class RunRequest(Struct, frozen=True):
    """The arguments of `run`."""

    dataset: Dataset
    configuration: MemoryConfiguration
    model: str
    selection: Selection
    options: RunOptions


def run_request(
    dataset: str,
    memory: str,
    model: str,
    *,
    parameters: Sequence[str],
    selection: Selection,
    reading: ReadingOptions,
    options: RunOptions,
    folders: Folders,
) -> RunRequest:
    """Return the run that these names and options describe; the official protocol has a reading of its own.

    Args:
        dataset: a name of the catalogue, or a file.
        memory: a preset, or another name of a memory.
        parameters: parameters of the memory, as `key=value`.
        reading: options of the reading.
        options: all other options.
    """
    configuration = resolve_configuration(memory, parameters)
    data = load_dataset(dataset, folders.data_dir)
    answering, template, texts = benchmark_of(data).answering, reading.template, None
    if answering and answering.load_texts and template and template.suffix in answering.text_endings:
        texts, template = answering.load_texts(template), None
    official = answering if options.protocol == "official" else None
    reading = structs.replace(
        reading,
        method=reading.method or (official.reading if official else definition_of(configuration).reading),
        max_tokens=reading.max_tokens or (official.max_tokens if official else None),
        template=template,
    )
    options = structs.replace(options, reading=configured(reading), protocol_texts=texts, seed=selection.seed)
    return RunRequest(data, configuration, model, selection, options)
