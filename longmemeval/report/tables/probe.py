"""Show the result of `probe`: a row per memory, a column per probe."""

from longmemeval.core.tables.table import Column, Table, tabulate
from longmemeval.core.text.figures import (
    UNKNOWN,
    bounds,
    count_of,
    in_percent,
    ms,
)
from longmemeval.measures.notation import Mean
from longmemeval.pipeline.probe.lifecycle import Lifecycle
from longmemeval.pipeline.probe.probe import Probed, ProbeReport

_CONTROLS = {"floor": " (lower bound)", "ceiling": " (upper bound)"}


def probe_table(report: ProbeReport) -> Table:
    """Return the table: questions passed out of those asked, by probe, or unknown."""
    probes = list(dict.fromkeys(name for probed in report.memories for name in probed.probes))
    columns = [
        Column("memory", row_name, "text"),
        Column("passed\n%", lambda probed: in_percent(probed.overall.mean)),
        Column("95% CI", lambda probed: bounds(probed.overall.interval), drop=1),
        *map(_probe, probes),
        Column("dele-\ntion", lambda probed: passed(probed.lifecycle.deletion)),
        Column("read after\nwrite", lambda probed: passed(probed.lifecycle.read_after_write)),
        Column("until\nfound", lambda probed: until_found(probed.lifecycle), drop=3),
        Column("same\ntwice %", lambda probed: in_percent(probed.same_twice), drop=2),
    ]
    memories = sum(probed.control is None for probed in report.memories)
    title = f"{report.questions:,} questions on synthetic user histories, seed {report.seed}"
    return tabulate(title, columns, report.memories, breaks=[memories])


def row_name(probed: Probed) -> str:
    """Return the name of a memory, with what it is a control for."""
    return probed.memory + (_CONTROLS[probed.control] if probed.control else "")


def _probe(name: str) -> Column[Probed]:
    # Two lines let all probes fit into 80 columns.
    return Column(name.replace(" ", "\n", 1), lambda probed: passed(probed.probes.get(name)))


def until_found(lifecycle: Lifecycle) -> str:
    """Return how long a statement takes to be found: time, or the messages that must follow it."""
    if not lifecycle.read_after_write:
        return UNKNOWN
    if lifecycle.further_messages is None:
        return "never"
    if lifecycle.further_messages:
        return count_of(lifecycle.further_messages, "message")
    return f"{ms(lifecycle.found_after_ms)} ms"


def passed(mean: Mean | None) -> str:
    """Return how many questions were passed out of how many."""
    return UNKNOWN if mean is None or mean.mean is None else f"{round(mean.mean * mean.n)}/{mean.n}"
