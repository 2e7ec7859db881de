"""What `probe` shows: a row per memory, a column per probe."""

from longmemeval.measures.aggregate import Mean
from longmemeval.pipeline.probe.probe import Probed, ProbeReport
from longmemeval.report.tables.cells import UNKNOWN
from longmemeval.report.tables.table import Table

_CONTROLS = {"floor": " (cannot pass)", "ceiling": " (must pass)"}


def probe_table(report: ProbeReport) -> Table:
    """Return the table: questions passed of those put, by probe, or unknown."""
    probes = list(dict.fromkeys(name for one in report.memories for name in one.probes))
    rows = [_row(one, probes) for one in report.memories]
    columns = ["memory", "passed, %", "95 % interval", *probes, "same twice, %"]
    return Table(
        f"{report.questions:,} questions about made-up lives, seed {report.seed}",
        columns,
        rows,
        apart=sum(one.control is not None for one in report.memories),
        drop=(len(columns) - 1, 2),
    )


def _row(one: Probed, probes: list[str]) -> list[str]:
    overall, twice = one.overall, one.same_twice
    interval = overall.interval
    return [
        one.memory + (_CONTROLS[one.control] if one.control else ""),
        UNKNOWN if overall.mean is None else f"{overall.mean * 100:.1f}",
        UNKNOWN if overall.mean is None or interval is None else f"[{interval[0] * 100:.1f}, {interval[1] * 100:.1f}]",
        *(_passed(one.probes.get(name)) for name in probes),
        UNKNOWN if twice is None else f"{twice * 100:.1f}",
    ]


def _passed(mean: Mean | None) -> str:
    return UNKNOWN if mean is None or mean.mean is None else f"{round(mean.mean * mean.n)}/{mean.n}"
