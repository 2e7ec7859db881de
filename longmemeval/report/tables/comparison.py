"""Show the result of `compare`: tables with their cells ready to print, and the sentences around them."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from longmemeval.core.tables.layout import letter_of, letters
from longmemeval.core.tables.table import Column, Kind, Table, tabulate
from longmemeval.core.text.figures import (
    UNKNOWN,
    bounds,
    count,
    count_of,
    in_percent,
    ms,
    p_value,
    percent,
    points,
    signed,
    signed_bounds,
)
from longmemeval.judges.official_status import judge_name
from longmemeval.measures.losses import cause_of
from longmemeval.measures.metrics import Score
from longmemeval.pipeline.claims.catalogue import Claim
from longmemeval.pipeline.compare.baseline import AgainstBaseline
from longmemeval.pipeline.compare.comparison import (
    Comparison,
    Digest,
    LostGroup,
    PairResult,
    QuestionRow,
    RepeatGroup,
    RunFigures,
)
from longmemeval.pipeline.compare.shared import marked_runs
from longmemeval.report.tables.budgets import budget_table
from longmemeval.report.tables.cells import WARNED, controls_apart, corrected_cell, cost_text, remarks, row_names
from longmemeval.report.tables.effort import Named, cost_table, effort_notes, footprint_table, latency_table
from longmemeval.report.tables.footnotes import footnotes
from longmemeval.report.tables.memory_models import memory_model_table
from longmemeval.statistics.power import ALPHA, DISCORDANT
from longmemeval.statistics.resampling import smallest_p

_NARROW = 16
"""The longest name of a question type, in characters, that stays on one line."""
ALIKE = "Minimum detectable difference: not known, as these runs score alike on every question."


def comparison_tables(
    comparison: Comparison,
    width: int | None = None,
    *,
    details: bool = True,
    pairs: bool = True,
    called: Mapping[str, str] | None = None,
) -> list[Table]:
    """Return the tables of a comparison that have rows, that of the runs first.

    Args:
        width: width of the terminal. If long ids do not fit, runs go by names or letters (`run_letters`).
        details: include the tables by type and of losses, costs, latencies, memories' models and repeats.
        pairs: include the table of all pairs.
        called: run id -> display name; None: chosen by the width.
    """
    called = run_letters(comparison, width) if called is None else called
    summaries, names = [run.summary for run in comparison.runs], [_name(run, called) for run in comparison.runs]
    tables = [_runs(comparison, names), budget_table(comparison, shown_recall)]
    if details:
        tables.append(_types(comparison, names))
    if pairs:
        tables.append(_pairs(comparison, called))
    if details:
        tables += [
            _lost(comparison, names),
            cost_table(summaries, names, [run.cheaper_from for run in comparison.runs]),
            footprint_table(summaries, names),
            latency_table(summaries, names),
            memory_model_table(summaries, names),
            repeats_table(comparison, called),
        ]
    return [table for table in tables if table.rows]


def run_names(comparison: Comparison) -> dict[str, str]:
    """Return run id -> a name that tells the run from the others (`row_names`)."""
    summaries = [run.summary for run in comparison.runs]
    return {summary.run_id: name for summary, name in zip(summaries, row_names(summaries), strict=True)}


def run_letters(comparison: Comparison, width: int | None) -> dict[str, str]:
    """Return run id -> name if ids are too long, or letter if names are too; empty if the ids fit."""

    def assign_letters(called: Mapping[str, str]) -> dict[str, str]:
        ids = [called.get(run.summary.run_id, run.summary.run_id) for run in comparison.runs]
        return letters(ids, [_runs(comparison, [_name(run, called) for run in comparison.runs])], width)

    if not assign_letters({}):
        return {}
    names = run_names(comparison)
    by_id = {run_id: letter_of(place) for place, run_id in enumerate(names)}
    return by_id if any(name == run_id for run_id, name in names.items()) or assign_letters(names) else names


def _metric(comparison: Comparison) -> str:
    return comparison.runs[0].summary.metrics.judge.metric


def _name(run: RunFigures, called: Mapping[str, str]) -> str:
    """Return the run's name, with its remarks below."""
    summary = run.summary
    words = ", ".join(remarks(summary))
    return called.get(summary.run_id, summary.run_id) + (f"\n({words})" if words else "")


def _runs(comparison: Comparison, names: Sequence[str]) -> Table:
    against = comparison.from_baseline
    called = {run.summary.run_id: name for run, name in zip(comparison.runs, names, strict=True)}
    marked = marked_runs([run.summary for run in comparison.runs])
    columns: list[Column[RunFigures]] = [
        Column("run", lambda run: called[run.summary.run_id], "text"),
        Column("memory", lambda run: run.summary.memory, "text", drop=2),
        *(column for column in _SETTINGS if len({column.value(run) for run in comparison.runs}) > 1),
        Column(f"{_metric(comparison)} in %,\n95 % interval", lambda run: _score(run, marked)),
    ]
    if against:
        columns.append(Column("against the\nbaseline, points", lambda run: _against(run, against)))
        columns.append(Column("p,\nHolm", lambda run: _p_against(run, against), drop=7))
    if any(run.summary.judge_check for run in comparison.runs):
        columns.append(Column("corrected for\nthe judge", lambda run: corrected_cell(run.summary), drop=6))
    columns += [
        Column("not\nevaluated", lambda run: run.summary.metrics.overall.not_evaluated, drop=1),
        Column("evidence\nrecall", shown_recall, drop=8),
        Column("prompt\ntokens", lambda run: count(run.summary.mean_prompt_tokens)),
        Column("cost", lambda run: cost_text(run.summary.costs.total), drop=9),
        Column("latency\np50, ms", lambda run: ms(run.summary.latency.total.p50), drop=10),
    ]
    metrics = comparison.runs[0].summary.metrics
    unofficial = "" if metrics.judge.official else " (NOT the official judge)"
    title = f"{comparison.dataset}, {question_count(comparison)}, judge {judge_name(metrics.judge)}{unofficial}"
    summaries = [run.summary for run in comparison.runs]
    return tabulate(title, columns, comparison.runs, breaks=controls_apart(summaries))


def _against(run: RunFigures, against: Mapping[str, PairResult]) -> str:
    pair = against.get(run.summary.run_id)
    if pair is None:
        return "baseline"
    return f"{run.marks} {signed(pair.difference)} {signed_bounds(pair.interval)}".lstrip()


def _p_against(run: RunFigures, against: Mapping[str, PairResult]) -> str:
    pair = against.get(run.summary.run_id)
    return "" if pair is None else p_value(pair.p_holm)


def question_count(comparison: Comparison) -> str:
    """Return the number of compared questions; for a part of the data set, also the total and the selection."""
    summary = comparison.runs[0].summary
    if comparison.common:
        return count_of(len(comparison.questions), "common question")
    return summary.part or count_of(len(comparison.questions), "question")


_SETTINGS: tuple[Column[RunFigures], ...] = (
    Column("model", lambda run: run.summary.model, "text", drop=3),
    Column("reading", lambda run: run.reading or None, "text", drop=4),
    Column("embedder", lambda run: run.summary.embedder or None, "text", drop=5),
)
"""Columns that are shown only if the runs differ in them."""


def _score(run: RunFigures, marked: Collection[str]) -> str:
    overall, mark = run.summary.metrics.overall, f" {WARNED}" if run.summary.run_id in marked else ""
    return f"{in_percent(overall.accuracy)} {bounds(overall.interval)}{mark}"


def _types(comparison: Comparison, names_of_runs: Sequence[str]) -> Table:
    sizes = {name: score.n for run in comparison.runs for name, score in run.summary.metrics.by_type.items()}

    def column(name: str, n: int) -> Column[Named]:
        return Column(f"{_broken(name)}\nn {n:,}", lambda row: _type_cell(row[1].metrics.by_type.get(name)))

    summaries = [run.summary for run in comparison.runs]
    columns: list[Column[Named]] = [Column("run", lambda row: row[0], "text"), *map(column, sizes, sizes.values())]
    rows = zip(names_of_runs, summaries, strict=True)
    title = f"By question type, {_metric(comparison)} in percent"
    return tabulate(title, columns, rows, breaks=controls_apart(summaries))


def _type_cell(score: Score | None) -> str | None:
    return f"{in_percent(score.accuracy)}\n{bounds(score.interval)}" if score else None


def _broken(name: str) -> str:
    """Return the name, on two lines if it is long."""
    head, hyphen, tail = name.rpartition("-")
    return f"{head}{hyphen}\n{tail}" if hyphen and len(name) > _NARROW else name


def _pairs(comparison: Comparison, called: Mapping[str, str]) -> Table:
    pairs = comparison.pairs
    columns: list[Column[PairResult]] = [
        Column("a", lambda pair: called.get(pair.a, pair.a), "text"),
        Column("b", lambda pair: called.get(pair.b, pair.b), "text"),
        Column("a - b,\npoints", lambda pair: signed(pair.difference)),
        Column("95 %\ninterval", lambda pair: signed_bounds(pair.interval)),
    ]
    # A narrow table drops the detectable difference first, then McNemar's p and counts, then p without Holm.
    if any(pair.mcnemar for pair in pairs):
        columns.append(Column("only a", lambda pair: pair.mcnemar.a_only if pair.mcnemar else None, drop=3))
        columns.append(Column("only b", lambda pair: pair.mcnemar.b_only if pair.mcnemar else None, drop=2))
    # If questions share haystacks, another test decides; McNemar's is shown beside it.
    if any(pair.mcnemar and pair.mcnemar.p != pair.p for pair in pairs):
        columns.append(Column("McNemar\np", lambda pair: p_value(pair.mcnemar.p) if pair.mcnemar else None, drop=4))
    columns += [
        Column("p", lambda pair: p_value(pair.p), drop=1),
        Column("p,\nHolm", lambda pair: p_value(pair.p_holm)),
        Column("MDE", lambda pair: in_percent(pair.detectable), drop=5),
        Column(
            "verdict", lambda pair: pair.verdict_on(called.get(pair.a, pair.a), called.get(pair.b, pair.b)), "prose"
        ),
    ]
    return tabulate(f"Pairs ({', '.join(sorted({pair.test for pair in pairs}))})", columns, pairs)


def _lost(comparison: Comparison, names: Sequence[str]) -> Table:
    stages = dict.fromkeys(stage for run in comparison.runs for stage in run.lost)

    def column(stage: str) -> Column[tuple[str, RunFigures]]:
        return Column(cause_of(stage), lambda row: row[1].lost.get(stage, 0))

    columns: list[Column[tuple[str, RunFigures]]] = [Column("run", lambda row: row[0], "text"), *map(column, stages)]
    rows = zip(names, comparison.runs, strict=True) if stages else ()
    return tabulate("Where wrongly answered questions were lost", columns, rows)


_FLIPS: tuple[Column[RepeatGroup], ...] = (
    Column("labels that\nchange", lambda group: f"{group.flips.flipped:,} of {group.flips.questions:,}"),
    Column("by the\nanswer", lambda group: group.flips.by_answer, drop=2),
    Column("by the\njudge", lambda group: group.flips.by_judge, drop=3),
)
"""The columns on labels that change between repeats."""
FLIPS_NOTE = (
    "Labels that change between repeats: by the judge where one and the same text has both labels, else by the answer; "
    f"{UNKNOWN}: no text was graded twice (`evaluate --rejudge` does)."
)


def digest_table(digest: Digest, called: Mapping[str, str] = {}) -> Table:
    """Return the causes of a run's wrong answers; no rows if it has none, or nothing is known."""
    columns: list[Column[LostGroup]] = [
        Column("cause", lambda group: group.cause, "text"),
        Column("questions", lambda group: group.count),
        Column("another\nrun wins", lambda group: group.won_elsewhere),
        Column("example", lambda group: group.example, "text"),
        Column("to try", lambda group: group.to_try or None, "prose"),
    ]
    name = called.get(digest.run, digest.run)
    return tabulate(f"Wrong answers of {name}: {digest.lost:,} of {digest.of:,}, by cause", columns, digest.groups)


def repeats_table(comparison: Comparison, called: Mapping[str, str]) -> Table:
    """Return the spread of repeated runs, a row per configuration; no rows if none was repeated."""
    columns: list[Column[RepeatGroup]] = [
        Column("configuration", lambda group: group.name, "prose"),
        Column("runs", lambda group: ", ".join(called.get(run_id, run_id) for run_id in group.run_ids), "prose"),
        Column(f"mean\n{_metric(comparison)}", lambda group: percent(group.spread.mean)),
        Column(
            "sd between\nruns, points",
            lambda group: None if group.spread.sd is None else f"{group.spread.sd * 100:.2f}",
        ),
        Column(
            "lowest to highest",
            lambda group: f"{percent(group.spread.lowest)} to {percent(group.spread.highest)}",
            drop=1,
        ),
        *_FLIPS,
    ]
    title = "Repeats: spread between runs, beside the sampling of questions"
    return tabulate(title, columns, comparison.repeats)


def comparison_notes(comparison: Comparison) -> Iterator[str]:
    """Yield all notes below the tables."""
    yield detectable_line(comparison)
    summaries = [run.summary for run in comparison.runs]
    if any(run.provenance == "session" for run in comparison.runs):
        yield BY_SESSION_NOTE
    if comparison.repeats:
        yield FLIPS_NOTE
    yield from footnotes(summaries)
    yield from effort_notes(summaries)
    yield from comparison.warnings


BY_SESSION_NOTE = (
    "(s): evidence recall by session, where the memory does not say which messages it found; it does not compare with "
    "recall by message."
)


def shown_recall(run: RunFigures) -> str:
    """Return the evidence recall, marked if it is by session."""
    by_session = run.evidence_recall is not None and run.provenance == "session"
    return percent(run.evidence_recall) + (" (s)" if by_session else "")


def detectable_line(comparison: Comparison) -> str:
    """Return the smallest difference that these questions can show, and the basis of that figure."""
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
    between = "" if f"{least:.3f}" == f"{comparison.detectable:.3f}" else f"{in_percent(least)} to "
    basis = "by how far the two runs disagree, before adjusting for the number of pairs"
    figure = f"{between}{points(comparison.detectable)}, pair by pair"
    return f"Minimum detectable difference (MDE): {figure} ({n}{shared}, 80 % power, {basis})."


def question_lists(comparison: Comparison) -> Iterator[tuple[str, list[str]]]:
    """Yield the questions that each run wins, loses and gets wrong like the first; ids in the order of the data."""
    first, *others = (run.summary.run_id for run in comparison.runs)
    for place, run_id in enumerate(others, start=1):
        by_outcome: dict[str, list[str]] = {"won": [], "lost": [], "both wrong": []}
        for row in comparison.questions:
            if result := outcome(row, place):
                by_outcome[result].append(row.question_id)
        for words, ids in by_outcome.items():
            yield f"{run_id} against {first}, {words}", ids


def outcome(row: QuestionRow, place: int) -> str:
    """Return `won`, `lost` or `both wrong` for the run at index `place` against the first; empty if both are right."""
    base, own = row.credits[0] or 0.0, row.credits[place] or 0.0
    if own != base:
        return "won" if own > base else "lost"
    return "both wrong" if own < 1 else ""


def against_line(result: AgainstBaseline) -> str:
    """Return a sentence that compares a run with its baseline."""
    verdict = "worse" if result.worse else "not worse"
    settings = "" if result.same_settings else "; other settings"
    return (
        f"{result.run} against {result.baseline}: {signed(result.difference)} points, 95 % interval "
        f"{signed_bounds(result.interval)}, margin {points(result.margin)}: {verdict} "
        f"({count_of(len(result.won), 'question')} won, {len(result.lost)} lost{settings})."
    )


def published_table(figures: Sequence[Claim]) -> Table:
    """Return the figures that others have published; a cell that repeats the row above is left empty."""
    repeated = [
        before is not None and _origin(before) == _origin(figure)
        for before, figure in zip((None, *figures), figures, strict=False)
    ]

    def column(
        title: str, value: Callable[[Claim], str | int | None], kind: Kind = "prose", drop: int = 0
    ) -> Column[tuple[Claim, bool]]:
        return Column(title, lambda row: "" if row[1] else value(row[0]), kind, drop)

    columns: list[Column[tuple[Claim, bool]]] = [
        Column("system", lambda row: row[0].system + (f" ({row[0].note})" if row[0].note else ""), "prose"),
        Column("reader", lambda row: row[0].reader or None, "prose"),
        Column("figure", lambda row: _published_value(row[0]), "prose"),
        column("n", lambda figure: figure.n, "figure", drop=1),
        column("data", lambda figure: figure.variant),
        column("judge", lambda figure: figure.judge, drop=2),
        column("source", lambda figure: figure.source.cited),
    ]
    title = "Published, graded by others, not comparable unless judge and data are the same"
    return tabulate(title, columns, zip(figures, repeated, strict=True))


def _origin(figure: Claim) -> tuple[int | None, str, str, str]:
    return figure.n, figure.variant, figure.judge, figure.source.cited


def _published_value(figure: Claim) -> str:
    whole = "" if figure.value is None else f"{figure.metric} {percent(figure.value)}"
    parts = ", ".join(f"{name} {in_percent(value)}" for name, value in figure.by_group.items())
    if not parts:
        return whole
    return f"{whole}\n{parts}" if whole else f"{figure.metric}: {parts}"
