"""What `compare` shows: tables with their cells ready to print, and the sentences around them."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct

from longmemeval.core.text.plural import count_of
from longmemeval.judges.official_status import judge_name
from longmemeval.measures.metrics import Score
from longmemeval.pipeline.compare.baseline import AgainstBaseline
from longmemeval.pipeline.compare.comparison import (
    Comparison,
    Digest,
    PairResult,
    QuestionRow,
    RunFigures,
    points,
)
from longmemeval.report.published import PublishedFigure
from longmemeval.report.tables.budgets import budget_table
from longmemeval.report.tables.cells import UNKNOWN, apart, corrected_cell, cost_text, interval, percent, warned
from longmemeval.report.tables.effort import cost_table, effort_notes, latency_table, ms
from longmemeval.report.tables.footnotes import ORACLE_NOTE, footnotes
from longmemeval.report.tables.layout import letters
from longmemeval.report.tables.memory_models import memory_model_table
from longmemeval.report.tables.table import Table
from longmemeval.statistics.power import ALPHA, DISCORDANT
from longmemeval.statistics.resampling import smallest_p

_NARROW = 16
"""Longer names of question types take two lines."""
ALIKE = "Minimum detectable difference: not known, as these runs score alike on every question."


def comparison_tables(
    comparison: Comparison, width: int | None = None, *, details: bool = True, pairs: bool = True
) -> list[Table]:
    """Return the tables of a comparison that have rows, that of the runs first.

    Args:
        comparison: what to show.
        width: of the terminal. Where the runs do not fit, as where ids are long, they go by letters (`run_letters`).
        details: whether to have the tables by type, of losses, costs, latencies, memories' models and repeats.
        pairs: whether to have the table of all pairs.
    """
    called = run_letters(comparison, width)
    summaries, names = [run.summary for run in comparison.runs], [_name(run, called) for run in comparison.runs]
    tables = [_runs(comparison, names), budget_table(comparison, shown_recall)]
    if details:
        tables.append(_types(comparison, names))
    if pairs:
        tables.append(_pairs(comparison, called))
    if details:
        tables += [
            _lost(comparison, names),
            cost_table(summaries, names),
            latency_table(summaries, names),
            memory_model_table(summaries, names),
            _repeats(comparison, called),
        ]
    return [table for table in tables if table.rows]


def run_letters(comparison: Comparison, width: int | None) -> dict[str, str]:
    """Return run id to letter; none where the columns that matter fit with the ids."""
    ids = [run.summary.run_id for run in comparison.runs]
    return letters(ids, [_runs(comparison, [_name(run, {}) for run in comparison.runs])], width)


def _metric(comparison: Comparison) -> str:
    return comparison.runs[0].summary.metrics.judge.metric


def _name(run: RunFigures, called: Mapping[str, str]) -> str:
    """Return the run's id or letter, with what makes it another kind of figure below."""
    summary = run.summary
    remarks = ["control"] if summary.control else []
    remarks += ["reads gold"] if summary.reads_gold else []
    remarks += [summary.status] if summary.status != "completed" else []
    return called.get(summary.run_id, summary.run_id) + (f"\n({', '.join(remarks)})" if remarks else "")


class _Column(Struct, frozen=True):
    """One column of the table of runs."""

    heading: str
    text: Callable[[RunFigures], str]
    rank: int | None = None
    """Where space is short, the highest goes first; None: never."""
    left: bool = False


def _runs(comparison: Comparison, names: Sequence[str]) -> Table:
    against = {pair.b: pair.turned for pair in comparison.pairs if pair.a == comparison.runs[0].summary.run_id}
    columns = [_Column("memory", lambda run: run.summary.memory, 1, left=True)]
    columns += [
        _Column(heading, text, rank, left=True)
        for rank, (heading, text) in enumerate(_SETTINGS, start=2)
        if len({text(run) for run in comparison.runs}) > 1
    ]
    columns.append(_Column(f"{_metric(comparison)} in %,\n95 % interval", _score))
    if against:
        columns.append(_Column("against the\nbaseline, points", lambda run: _against(run, against)))
        columns.append(_Column("p,\nHolm", lambda run: _p_against(run, against), 6))
    if any(run.summary.judge_check for run in comparison.runs):
        columns.append(_Column("corrected for\nthe judge", lambda run: corrected_cell(run.summary), 5))
    columns += [
        _Column("not\nevaluated", lambda run: str(run.summary.metrics.overall.not_evaluated), 0),
        _Column("evidence\nrecall", shown_recall, 7),
        _Column("prompt\ntokens", lambda run: _rounded(run.summary.mean_prompt_tokens)),
        _Column("cost", lambda run: cost_text(run.summary.costs.total), 8),
        _Column("latency\np50, ms", lambda run: ms(run.summary.latency.total.p50), 9),
    ]
    rows = [[name, *(column.text(run) for column in columns)] for name, run in zip(names, comparison.runs, strict=True)]
    metrics = comparison.runs[0].summary.metrics
    unofficial = "" if metrics.judge.official else " (NOT the official judge)"
    return Table(
        title=f"{comparison.dataset}, {question_count(comparison)}, judge {judge_name(metrics.judge)}{unofficial}",
        columns=["run", *(column.heading for column in columns)],
        rows=rows,
        left=frozenset({0, *(place for place, column in enumerate(columns, start=1) if column.left)}),
        apart=apart([run.summary for run in comparison.runs]),
        drop=_drop_order(columns, rows),
    )


def _drop_order(columns: Sequence[_Column], rows: Sequence[Sequence[str]]) -> tuple[int, ...]:
    """Return the columns a narrow terminal leaves out: all zero first, then constant ones, then by rank."""

    def first(place: int) -> tuple[bool, bool, int]:
        cells = {row[place] for row in rows}
        return cells != {"0"}, len(rows) > 1 and len(cells) > 1, -(columns[place - 1].rank or 0)

    places = [place for place, column in enumerate(columns, start=1) if column.rank is not None]
    return tuple(sorted(places, key=first))


def _against(run: RunFigures, against: Mapping[str, PairResult]) -> str:
    pair = against.get(run.summary.run_id)
    if pair is None:
        return "baseline"
    return f"{run.marks} {pair.difference * 100:+z.1f} {signed_interval(pair.interval)}".lstrip()


def _p_against(run: RunFigures, against: Mapping[str, PairResult]) -> str:
    pair = against.get(run.summary.run_id)
    return "" if pair is None else _p(pair.p_holm)


def question_count(comparison: Comparison) -> str:
    """Return how many questions are compared; of a part of the data set, of how many and how they were chosen."""
    summary = comparison.runs[0].summary
    if comparison.common:
        return count_of(len(comparison.questions), "common question")
    return summary.part or count_of(len(comparison.questions), "question")


_SETTINGS: tuple[tuple[str, Callable[[RunFigures], str]], ...] = (
    ("model", lambda run: run.summary.model),
    ("reading", lambda run: run.reading or "-"),
    ("embedder", lambda run: run.summary.embedder or "-"),
)
"""Columns that are shown where the runs differ in them."""


def _score(run: RunFigures) -> str:
    overall = run.summary.metrics.overall
    return f"{overall.accuracy * 100:z.1f} {interval(overall)}{warned(run.summary)}"


def _rounded(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.0f}"


def _types(comparison: Comparison, names_of_runs: Sequence[str]) -> Table:
    names = list(dict.fromkeys(name for run in comparison.runs for name in run.summary.metrics.by_type))

    def cell(score: Score | None) -> str:
        return "-" if score is None else f"{score.accuracy * 100:z.1f}\n{interval(score)}"

    sizes = {name: score.n for run in comparison.runs for name, score in run.summary.metrics.by_type.items()}
    return Table(
        title=f"By question type, {_metric(comparison)} in percent",
        columns=["run", *(f"{_broken(name)}\nn {sizes[name]:,}" for name in names)],
        rows=[
            [called, *(cell(run.summary.metrics.by_type.get(name)) for name in names)]
            for called, run in zip(names_of_runs, comparison.runs, strict=True)
        ],
        apart=apart([run.summary for run in comparison.runs]),
    )


def _broken(name: str) -> str:
    """Return a long name on two lines."""
    head, hyphen, tail = name.rpartition("-")
    return f"{head}{hyphen}\n{tail}" if hyphen and len(name) > _NARROW else name


def _pairs(comparison: Comparison, called: Mapping[str, str]) -> Table:
    pairs = comparison.pairs
    labels = any(pair.mcnemar for pair in pairs)
    # Where questions share haystacks another test decides; McNemar's is beside it.
    beside = any(pair.mcnemar and pair.mcnemar.p != pair.p for pair in pairs)
    tests = sorted({pair.test for pair in pairs})
    discordant = ["only a", "only b", *(["McNemar\np"] if beside else [])] if labels else []
    columns = ["a", "b", "a - b,\npoints", "95 %\ninterval", *discordant, "p", "p,\nHolm", "MDE", "verdict"]
    last = len(columns) - 1
    rows = [_pair_row(pair, labels, beside, called) for pair in pairs]
    # What the pair could show, the test beside the one that decides, its counts, then what Holm makes better of.
    drop = (last - 1, *([6] if beside else []), *([4, 5] if labels else []), last - 3)
    title = f"Pairs ({', '.join(tests)})"
    return Table(title, columns, rows, frozenset({0, 1, last}), prose=frozenset({last}), drop=drop)


def _pair_row(pair: PairResult, labels: bool, beside: bool, called: Mapping[str, str]) -> list[str]:
    one = pair.mcnemar
    counts = [str(one.a_only), str(one.b_only), _p(one.p)] if one else ["-", "-", "-"]
    if not beside:
        counts.pop()
    names = called.get(pair.a, pair.a), called.get(pair.b, pair.b)
    return [
        *names,
        f"{pair.difference * 100:+z.1f}",
        signed_interval(pair.interval),
        *(counts if labels else ()),
        _p(pair.p),
        _p(pair.p_holm),
        UNKNOWN if pair.detectable is None else f"{pair.detectable * 100:z.1f}",
        pair.verdict_on(*names),
    ]


def signed_interval(bounds: tuple[float, float]) -> str:
    """Return the interval of a difference in points, such as `[-1.2, +3.4]`; zero is `+0.0`."""
    return f"[{bounds[0] * 100:+z.1f}, {bounds[1] * 100:+z.1f}]"


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _lost(comparison: Comparison, names: Sequence[str]) -> Table:
    lost = [(name, run.lost) for name, run in zip(names, comparison.runs, strict=True)]
    stages = list(dict.fromkeys(stage for _, counts in lost for stage in counts))
    return Table(
        title="Where wrongly answered questions were lost",
        columns=["run", *stages],
        rows=[[name, *(str(counts.get(stage, 0)) for stage in stages)] for name, counts in lost] if stages else [],
    )


def digest_table(digest: Digest) -> Table:
    """Return why the run of the verdict lost its questions; without rows where it lost none, or nothing is known."""
    columns = ["cause", "questions", "another\nrun wins", "example", "to try"]
    rows = [
        [one.cause, str(one.count), str(one.won_elsewhere), one.example, one.to_try or "-"] for one in digest.groups
    ]
    title = f"{digest.run} lost {digest.lost:,} of {count_of(digest.of, 'question')}"
    return Table(title, columns, rows, frozenset({0, 3, 4}), prose=frozenset({4}))


def _repeats(comparison: Comparison, called: Mapping[str, str]) -> Table:
    rows = []
    for group in comparison.repeats:
        spread = group.spread
        sd = "-" if spread.sd is None else f"{spread.sd * 100:.2f}"
        extremes = f"{percent(spread.lowest)} to {percent(spread.highest)}"
        rows.append(
            [group.name, ", ".join(called.get(one, one) for one in group.run_ids), percent(spread.mean), sd, extremes]
        )
    columns = ["configuration", "runs", f"mean\n{_metric(comparison)}", "sd between\nruns, points", "lowest to highest"]
    title = "Repeats: spread between runs, beside the sampling of questions"
    return Table(title, columns, rows, frozenset({0, 1}), prose=frozenset({0, 1}), drop=(4,))


def comparison_notes(comparison: Comparison) -> Iterator[str]:
    """Return all that has to be said under the tables."""
    yield detectable_line(comparison)
    summaries = [run.summary for run in comparison.runs]
    if any(run.provenance == "session" for run in comparison.runs):
        yield BY_SESSION_NOTE
    yield from (note for note in footnotes(summaries) if note != ORACLE_NOTE)
    yield from effort_notes(summaries)
    yield from comparison.warnings


BY_SESSION_NOTE = (
    "(s): evidence recall by session, where the memory does not say which messages it found; it does not compare with "
    "recall by message."
)


def shown_recall(run: RunFigures) -> str:
    """Return the evidence recall, marked where it is by session."""
    if run.evidence_recall is None:
        return UNKNOWN
    return percent(run.evidence_recall) + (" (s)" if run.provenance == "session" else "")


def detectable_line(comparison: Comparison) -> str:
    """Return the smallest difference these questions can show, and what that is based on."""
    metrics = comparison.runs[0].summary.metrics
    n = count_of(metrics.overall.n, "question")
    shared = f" over {metrics.haystacks:,} haystacks" if metrics.haystacks else ""
    if smallest_p(metrics.independent_units) >= ALPHA:
        return f"Minimum detectable difference: none. With {n}{shared} no difference can be shown, however large."
    if comparison.detectable is None:
        return ALIKE
    if not comparison.pairs:
        assumed = f"assuming that two runs disagree on {DISCORDANT * 100:.0f} % of them"
        figure = f"{points(comparison.detectable)} ({n}{shared}, 80 % power, {assumed})"
        return f"Minimum detectable difference (a planning figure): {figure}."
    if len(comparison.pairs) == 1:
        basis = "by how far these runs disagree"
        return (
            f"Minimum detectable difference (MDE): {points(comparison.detectable)} ({n}{shared}, 80 % power, {basis})."
        )
    least = min(pair.detectable for pair in comparison.pairs if pair.detectable is not None)
    between = "" if f"{least:.3f}" == f"{comparison.detectable:.3f}" else f"{least * 100:z.1f} to "
    basis = "by how far the two runs disagree, before adjusting for the number of pairs"
    figure = f"{between}{points(comparison.detectable)}, pair by pair"
    return f"Minimum detectable difference (MDE): {figure} ({n}{shared}, 80 % power, {basis})."


def question_lists(comparison: Comparison) -> Iterator[tuple[str, list[str]]]:
    """Return which questions each run wins, loses and gets wrong like the first; ids in the data's order."""
    first, *others = (run.summary.run_id for run in comparison.runs)
    for place, run_id in enumerate(others, start=1):
        found: dict[str, list[str]] = {"won": [], "lost": [], "both wrong": []}
        for row in comparison.questions:
            if outcome := _outcome(row, place):
                found[outcome].append(row.question_id)
        for outcome, ids in found.items():
            yield f"{run_id} against {first}, {outcome}", ids


def _outcome(row: QuestionRow, place: int) -> str:
    base, own = row.credits[0] or 0.0, row.credits[place] or 0.0
    if own != base:
        return "won" if own > base else "lost"
    return "both wrong" if own < 1 else ""


def against_line(result: AgainstBaseline) -> str:
    """Return one run and its baseline in one sentence."""
    verdict = "worse" if result.worse else "not worse"
    settings = "" if result.same_settings else "; other settings"
    return (
        f"{result.run} against {result.baseline}: {result.difference * 100:+z.1f} points, 95 % interval "
        f"{signed_interval(result.interval)}, margin {points(result.margin)}: {verdict} "
        f"({count_of(len(result.won), 'question')} won, {len(result.lost)} lost{settings})."
    )


def published_table(figures: Sequence[PublishedFigure]) -> Table:
    """Return what others have published, apart from one's own figures; what repeats the row above is left empty."""
    rows = []
    for before, figure in zip((None, *figures), figures, strict=False):
        n = "-" if figure.n is None else f"{figure.n:,}"
        system = figure.system + (f" ({figure.note})" if figure.note else "")
        origin = [n, figure.variant, figure.judge, figure.source]
        if before and _origin(before) == _origin(figure):
            origin = [""] * len(origin)
        rows.append([system, figure.reader or "-", _published_value(figure), *origin])
    return Table(
        title="Published, graded by others, not comparable unless judge and data are the same",
        columns=["system", "reader", "figure", "n", "data", "judge", "source"],
        rows=rows,
        left=frozenset({0, 1, 2, 4, 5, 6}),
        prose=frozenset({0, 1, 2, 4, 5, 6}),
        drop=(5, 3),
    )


def _origin(figure: PublishedFigure) -> tuple[int | None, str, str, str]:
    return figure.n, figure.variant, figure.judge, figure.source


def _published_value(figure: PublishedFigure) -> str:
    whole = "" if figure.value is None else f"{figure.metric} {percent(figure.value)}"
    parts = ", ".join(f"{name} {value * 100:z.1f}" for name, value in figure.by_group.items())
    if not parts:
        return whole
    return f"{whole}\n{parts}" if whole else f"{figure.metric}: {parts}"
