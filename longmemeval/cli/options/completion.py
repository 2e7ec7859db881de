"""Complete data sets, presets, judges, runs and sweeps in the shell, without the network."""

from collections.abc import Callable


def complete_dataset(incomplete: str) -> list[str]:
    """Return names of the catalogue; the shell itself completes files."""
    from longmemeval.benchmarks.catalogue import catalogue

    return [name for name in catalogue() if name.startswith(incomplete)]


def complete_memory(incomplete: str) -> list[str]:
    """Return names of presets, including those of plug-ins."""
    from longmemeval.memory.configuration import MEMORIES

    return [name for name in MEMORIES.names() if name.startswith(incomplete)]


def complete_judge(incomplete: str) -> list[str]:
    """Return the judges that need no model."""
    from longmemeval.judges.definition import rule_names

    return [name for name in rule_names() if name.startswith(incomplete)]


def complete_sweep(incomplete: str) -> list[str]:
    """Return the sweeps that have runs in the results folder of the environment."""
    from longmemeval.results.listing import sweep_names
    from longmemeval.settings import Folders

    return [name for name in sweep_names(Folders().results_dir) if name.startswith(incomplete)]


def complete_run(incomplete: str) -> list[str]:
    """Return the runs in the results folder of the environment, newest first."""
    from longmemeval.results.manifest import runs_by_change
    from longmemeval.settings import Folders

    return [name for name in runs_by_change(Folders().results_dir) if name.startswith(incomplete)]


COMPLETIONS: dict[str, Callable[[str], list[str]]] = {
    "DATA": complete_dataset,
    "MEMORY": complete_memory,
    "JUDGE": complete_judge,
    "RUN": complete_run,
    "RUN|FILE": complete_run,
    "SWEEP": complete_sweep,
}
"""Functions that complete a value, by the value's name in the help."""
