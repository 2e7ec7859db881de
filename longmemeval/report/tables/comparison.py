"""Render a comparison's tables: of runs, types, pairs, losses, costs, repeats. What they hold is decided elsewhere."""

from collections.abc import Callable, Iterator, Sequence

from longmemeval.core.tables.table import Column, Kind, Table, tabulate
from longmemeval.core.text.figures import UNKNOWN, bounds, count_of, in_percent, percent, points, signed, signed_bounds
from longmemeval.judges.template_set import judge_name
from longmemeval.measures.losses import cause_of
from longmemeval.pipeline.claims.catalogue import Claim
from longmemeval.pipeline.compare.baseline import AgainstBaseline
from longmemeval.pipeline.compare.columns import PAIR_COLUMNS, RUN_COLUMNS, Medium, columns_of
from longmemeval.pipeline.compare.comparison import Comparison, LostGroup, QuestionRow, RepeatGroup, RunFigures
from longmemeval.report.tables.budgets import budget_table
from longmemeval.report.tables.effort import cost_table, footprint_table, latency_table
from longmemeval.report.tables.memory_models import memory_model_table

_NARROW = 16
"""The longest name of a question type, in characters, that stays on one line."""


def comparison_tables(comparison: Comparison, *, details: bool = True, pairs: bool = True) -> list[Table]:
    """Return the tables of a comparison that have rows, that of the runs first.

    Args:
        details: include the tables by type and of losses, costs, latencies, memories' models and repeats.
        pairs: include the table of all pairs.
    """
    tables = [runs_table(comparison, "terminal"), budget_table(comparison)]
    if details:
        tables.append(types_table(comparison))
    if pairs:
        tables.append(pairs_table(comparison))
    if details:
        tables += [_lost(comparison), *effort_tables(comparison), repeats_table(comparison)]
    return [table for table in tables if table.rows]


def runs_table(comparison: Comparison, medium: Medium, without: Sequence[str] = ()) -> Table:
    """Return a row per configuration with the columns of a medium, without those of these ids."""
    columns = columns_of(RUN_COLUMNS, comparison, medium, without)
    # A paper's caption is short: the judge is in its notes.
    title = f"{comparison.dataset}, {question_count(comparison)}" if medium == "paper" else title_of(comparison)
    return tabulate(title, columns, comparison.ranked, breaks=comparison.controls_begin)


def title_of(comparison: Comparison) -> str:
    """Return the data, the number of questions and the judge."""
    judge = comparison.rows[0].summary.metrics.judge
    official = "" if judge.official else " (not official)"
    return f"{comparison.dataset}, {question_count(comparison)}, judge {judge_name(judge)}{official}"


def question_count(comparison: Comparison) -> str:
    """Return the number of compared questions; for a part of the data set, also the total and the selection."""
    if comparison.common:
        return count_of(len(comparison.questions), "common question")
    return comparison.rows[0].summary.part or count_of(len(comparison.questions), "question")


def row_names(comparison: Comparison) -> list[str]:
    """Return the names of the rows, in the order shown."""
    return [comparison.names[row.run_id] for row in comparison.ranked]


def effort_tables(comparison: Comparison) -> list[Table]:
    """Return the tables of costs, footprints, latencies and memories' models, some without rows."""
    names, summaries = row_names(comparison), [row.summary for row in comparison.ranked]
    return [
        cost_table(summaries, names, [row.cheaper_from for row in comparison.ranked]),
        footprint_table(summaries, names),
        latency_table(summaries, names),
        memory_model_table(summaries, names),
    ]


def types_table(comparison: Comparison) -> Table:
    """Return the score by question type: a row per run, or a row per type where there are more types than runs."""
    rows = list(zip(row_names(comparison), comparison.ranked, strict=True))
    sizes = {name: score.n for row in comparison.rows for name, score in row.summary.metrics.by_type.items()}

    def score_of(row: RunFigures, name: str) -> str | None:
        score = row.summary.metrics.by_type.get(name)
        return f"{in_percent(score.accuracy)}\n{bounds(score.interval)}" if score else None

    def type_column(name: str) -> Column[tuple[str, RunFigures]]:
        return Column(f"{_broken(name)}\nn {sizes[name]:,}", lambda row: score_of(row[1], name))

    columns: list[Column[tuple[str, RunFigures]]] = [Column("memory", lambda row: row[0], "text")]
    columns += map(type_column, sizes)
    title = f"By question type, {comparison.metric} in percent with 95% CI"
    return tabulate(title, columns, rows, breaks=comparison.controls_begin)


def _broken(name: str) -> str:
    """Return the name, on two lines if it is long."""
    head, hyphen, tail = name.rpartition("-")
    return f"{head}{hyphen}\n{tail}" if hyphen and len(name) > _NARROW else name


def pairs_table(comparison: Comparison) -> Table:
    """Return every pair, adjusted for the number of pairs; no rows for a single run."""
    title = f"All pairs ({count_of(len(comparison.pairs), 'comparison')}, Holm)"
    return tabulate(title, columns_of(PAIR_COLUMNS, comparison, "terminal"), comparison.pairs)


def versus_table(comparison: Comparison) -> Table:
    """Return every other row minus the baseline; no rows for a single run."""
    baseline = comparison.names[comparison.rows[0].run_id]
    title = f"Versus {baseline}, in points ({count_of(len(comparison.against), 'comparison')}, Holm)"
    return tabulate(title, columns_of(PAIR_COLUMNS, comparison, "paper"), comparison.against)


def pairs_line(comparison: Comparison) -> str:
    """Return a line that names the tests by which pairs are compared."""
    tests = " or ".join(dict.fromkeys(pair.test for pair in comparison.pairs))
    return f"{tests}, p adjusted for {count_of(len(comparison.pairs), 'pair')} (Holm); ▲ ▼: significant."


def _lost(comparison: Comparison) -> Table:
    stages = dict.fromkeys(stage for row in comparison.rows for stage in row.lost)

    def column(stage: str) -> Column[tuple[str, RunFigures]]:
        return Column(cause_of(stage), lambda row: row[1].lost.get(stage, 0))

    columns: list[Column[tuple[str, RunFigures]]] = [Column("memory", lambda row: row[0], "text"), *map(column, stages)]
    rows = zip(row_names(comparison), comparison.ranked, strict=True) if stages else ()
    return tabulate("Where questions without full credit were lost", columns, rows)


def digest_table(comparison: Comparison) -> Table:
    """Return the causes of a run's wrong answers; no rows if it has none, or nothing is known."""
    digest = comparison.digest
    columns: list[Column[LostGroup]] = [
        Column("cause", lambda group: group.cause, "text"),
        Column("questions", lambda group: group.count),
        Column("right in\nanother run", lambda group: group.won_elsewhere),
        Column("example", lambda group: group.example, "text"),
        Column("to try", lambda group: group.to_try or None, "prose"),
    ]
    what = "Wrong answers" if comparison.metric == "accuracy" else "Answers below full credit"
    title = f"{what} of {comparison.names[digest.run]} ({digest.lost:,} of {digest.of:,}) by cause"
    return tabulate(title, columns, digest.groups)


def repeats_table(comparison: Comparison) -> Table:
    """Return the spread of repeated runs, a row per configuration; no rows if none was repeated."""
    columns: list[Column[RepeatGroup]] = [
        Column("configuration", lambda group: group.name, "prose"),
        Column("runs", lambda group: ", ".join(group.run_ids), "prose"),
        Column(f"mean\n{comparison.metric}", lambda group: percent(group.spread.mean)),
        Column(
            "SD of runs,\npoints",
            lambda group: None if group.spread.sd is None else f"{group.spread.sd * 100:.2f}",
        ),
        Column("range", lambda group: f"{percent(group.spread.lowest)} to {percent(group.spread.highest)}", drop=1),
        Column("labels that\nchange", lambda group: f"{group.flips.flipped:,} of {group.flips.questions:,}"),
        Column("by the\nanswer", lambda group: group.flips.by_answer, drop=2),
        Column("by the\njudge", lambda group: group.flips.by_judge, drop=3),
    ]
    return tabulate("Repeats: spread between runs of one configuration", columns, comparison.repeats)


FLIPS_NOTE = (
    "Labels that change between repeats: by the judge where one and the same text has both labels, else by the answer; "
    f"{UNKNOWN}: no text was graded twice (`evaluate --rejudge` does)."
)


def question_lists(comparison: Comparison) -> Iterator[tuple[str, list[str]]]:
    """Yield the questions that each run gets better, worse and wrong like the first; ids in the order of the data."""
    first, *others = (run.run_id for run in comparison.runs)
    words = {"won": "better", "lost": "worse", "both wrong": "both wrong"}
    for place, run_id in enumerate(others, start=1):
        by_outcome: dict[str, list[str]] = {name: [] for name in words}
        for row in comparison.questions:
            if result := outcome(row, place):
                by_outcome[result].append(row.question_id)
        for name, ids in by_outcome.items():
            yield f"{comparison.names[run_id]} vs. {comparison.names[first]}, {words[name]}", ids


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
        f"{result.run} vs. {result.baseline}: {signed(result.difference)} points, 95% CI "
        f"{signed_bounds(result.interval)}, margin {points(result.margin)}: {verdict} "
        f"({count_of(len(result.won), 'question')} better, {len(result.lost)} worse{settings})."
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
