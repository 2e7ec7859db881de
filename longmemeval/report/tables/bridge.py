"""Show a bridge between two judges: the answer, a table, and the verdicts that change."""

from collections.abc import Iterator

from longmemeval.core.tables.table import Column, Table, tabulate
from longmemeval.core.text.figures import (
    UNKNOWN,
    count_of,
    in_percent,
    p_value,
    percent,
    signed,
    signed_bounds,
)
from longmemeval.pipeline.compare.bridge import Bridge, BridgedGroup, BridgedPair
from longmemeval.pipeline.compare.comparison import PairResult


def bridge_answer(bridge: Bridge) -> Iterator[str | Table]:
    """Yield the sentences and tables of a bridge, the answer first."""
    (old, new), group = bridge.judges, bridge.overall
    figures = f"{signed(group.shift)} points, 95% CI {signed_bounds(group.interval)}, p {_p(group.p)}"
    scores = f"{new} ({percent(group.new)}) and {old} ({percent(group.old)})"
    if group.p < 0.05:
        side = "higher" if group.shift > 0 else "lower"
        yield f"{new} scores the same answers significantly {side} than {old}: {figures}."
    else:
        yield f"No significant shift between {scores}: {figures}. Shifts inside this interval remain possible."
    agreed = group.agreement
    if agreed.kappa is not None:
        kappa = f"Cohen's kappa {agreed.kappa:.2f}, 95% CI {_kappa_bounds(group)}"
        yield f"They agree on {percent(agreed.agreed)} of {count_of(agreed.n, 'answer')}: {kappa}."
    if bridge.old.metric == "accuracy" and agreed.not_evaluated:
        missing = count_of(agreed.not_evaluated, "answer")
        yield f"{missing} without a label by one of them or both: a missing label counts as wrong."
    yield ""
    columns: list[Column[tuple[str, BridgedGroup]]] = [
        Column("", lambda row: row[0], "text"),
        Column("old\n%", lambda row: in_percent(row[1].old)),
        Column("new\n%", lambda row: in_percent(row[1].new)),
        Column("shift, points\n[95% CI]", lambda row: f"{signed(row[1].shift)} {signed_bounds(row[1].interval)}"),
        Column("agreed\n%", lambda row: in_percent(row[1].agreement.agreed), drop=2),
        Column("Cohen's\nkappa", lambda row: None if (kappa := row[1].agreement.kappa) is None else f"{kappa:.2f}"),
        Column("95% CI", lambda row: _kappa_bounds(row[1]), drop=3),
        Column("n", lambda row: row[1].agreement.n, drop=1),
    ]
    runs = bridge.by_run if len(bridge.runs) > 1 else {}
    rows = [("overall", group), *bridge.by_type.items(), *runs.items()]
    title = f"{bridge.dataset['name']}, {count_of(bridge.questions, 'question')}, {count_of(len(bridge.runs), 'run')}"
    yield tabulate(title, columns, rows)
    yield f"old: {old}; new: {new}. CIs are per row, uncorrected."
    yield from _differences(bridge)


def _differences(bridge: Bridge) -> Iterator[str | Table]:
    """Yield which differences between runs have another verdict under the new judge."""
    changed = [pair for pair in bridge.pairs if pair.changed]
    pairs = count_of(len(bridge.pairs), "pair")
    if not bridge.pairs:
        yield "One run, so no differences between runs were compared."
    elif not changed:
        yield f"No difference between runs changes its verdict ({pairs}, Holm)."
    else:
        yield ""
        columns: list[Column[BridgedPair]] = [
            Column("difference", lambda pair: f"{pair.old.a} - {pair.old.b}", "text"),
            Column("old,\npoints", lambda pair: signed(pair.old.difference)),
            Column("new,\npoints", lambda pair: signed(pair.new.difference)),
            Column("old verdict", lambda pair: _verdict(pair.old), "text"),
            Column("new verdict", lambda pair: _verdict(pair.new), "text"),
        ]
        yield tabulate(f"Differences with another verdict: {len(changed)} of {pairs}, Holm", columns, changed)


def _verdict(pair: PairResult) -> str:
    return "not significant" if not pair.significant else "better" if pair.is_better else "worse"


def _p(p: float) -> str:
    return text if (text := p_value(p)).startswith("<") else f"= {text}"


def _kappa_bounds(group: BridgedGroup) -> str:
    found = group.kappa_interval
    return UNKNOWN if found is None else f"[{found[0]:z.2f}, {found[1]:z.2f}]"
