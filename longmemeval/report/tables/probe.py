"""What `probe` shows: a row per memory, a column per probe."""

from longmemeval.core.tables.table import Column, Table, tabulate
from longmemeval.core.text.figures import UNKNOWN, bounds, count_of, in_percent, ms
from longmemeval.measures.aggregate import Mean
from longmemeval.pipeline.probe.lifecycle import Lifecycle
from longmemeval.pipeline.probe.probe import Probed, ProbeReport

_CONTROLS = {"floor": " (floor)", "ceiling": " (ceiling)"}


def probe_table(report: ProbeReport) -> Table:
    """Return the table: questions passed of those put, by probe, or unknown."""
    probes = list(dict.fromkeys(name for one in report.memories for name in one.probes))
    columns = [
        Column("memory", row_name, "text"),
        Column("passed,\n%", lambda one: in_percent(one.overall.mean)),
        Column("95 % interval", lambda one: bounds(one.overall.interval), drop=1),
        *map(_probe, probes),
        Column("dele-\ntion", lambda one: passed(one.lifecycle.deletion)),
        Column("read after\nwrite", lambda one: passed(one.lifecycle.read_after_write)),
        Column("until\nfound", lambda one: until_found(one.lifecycle), drop=3),
        Column("same\ntwice, %", lambda one: in_percent(one.same_twice), drop=2),
    ]
    memories = sum(one.control is None for one in report.memories)
    title = f"{report.questions:,} questions about made-up lives, seed {report.seed}"
    return tabulate(title, columns, report.memories, breaks=[memories])


def row_name(one: Probed) -> str:
    """Return the name of a memory, with what it is a control for."""
    return one.memory + (_CONTROLS[one.control] if one.control else "")


def _probe(name: str) -> Column[Probed]:
    # In two lines: all probes fit into 80 columns.
    return Column(name.replace(" ", "\n", 1), lambda one: passed(one.probes.get(name)))


def until_found(one: Lifecycle) -> str:
    """Return how long a statement takes to be found: time, or the messages that must follow it."""
    if not one.read_after_write:
        return UNKNOWN
    if one.further_messages is None:
        return "never"
    if one.further_messages:
        return count_of(one.further_messages, "message")
    return f"{ms(one.found_after_ms)} ms"


def passed(mean: Mean | None) -> str:
    """Return questions passed, of how many."""
    return UNKNOWN if mean is None or mean.mean is None else f"{round(mean.mean * mean.n)}/{mean.n}"
