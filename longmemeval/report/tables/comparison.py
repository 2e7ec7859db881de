"""Render a comparison's tables: of runs, types, pairs, losses, costs, repeats. What they hold is decided elsewhere."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Any

from longmemeval.core.tables.table import Column, Kind, Table, tabulate
from longmemeval.core.text.figures import (
    UNKNOWN,
    bounds,
    count,
    count_of,
    in_percent,
    listed,
    percent,
    points,
    signed,
    signed_bounds,
)
from longmemeval.embedding.registry import is_offline_fallback
from longmemeval.judges.protocol import JudgeIdentity
from longmemeval.judges.template_set import grading, judge_name
from longmemeval.llm.offline import CONTROL_MODELS
from longmemeval.measures.losses import cause_of
from longmemeval.measures.metrics import Metrics
from longmemeval.memory.products.profiles import is_amount
from longmemeval.pipeline.claims.catalogue import Claim
from longmemeval.pipeline.compare.baseline import AgainstBaseline
from longmemeval.pipeline.compare.columns import (
    AUDIT_COLUMNS,
    CONTROLS,
    PAIR_COLUMNS,
    RUN_COLUMNS,
    Medium,
    columns_of,
    corrected_text,
)
from longmemeval.pipeline.compare.comparison import (
    BudgetCurve,
    ComparedRun,
    Comparison,
    LostGroup,
    QuestionRow,
    RepeatGroup,
    budget_curves,
)
from longmemeval.pipeline.compare.naming import Grid
from longmemeval.pipeline.compare.verdict import missing_sentences, score_sentence
from longmemeval.report.tables.runs import (
    abstention_lines,
    both,
    cost_table,
    effort_notes,
    footprint_line,
    footprint_table,
    latency_line,
    latency_table,
    memory_model_notes,
    memory_model_table,
    score_table,
    task_average_note,
    work_table,
)
from longmemeval.results.graded.graded_run import Evaluation, GradedRun
from longmemeval.results.graded.judge_checks import CheckedScore
from longmemeval.results.scores.warnings import Gradings, ScoreWarning

# Compare memories under several token budgets: the score, evidence recall and prompt tokens under each.


def budget_table(comparison: Comparison) -> Table:
    """Return a row per memory and a column per budget; no rows if no memory has several budgets."""
    curves = budget_curves(comparison.rows)
    recall = next(column for column in RUN_COLUMNS if column.id == "evidence")
    budgets = sorted({budget for curve in curves for budget in curve.budgets})

    def cell(curve: BudgetCurve, budget: int) -> str:
        runs = [run for place in curve.runs if (run := comparison.rows[place]).budget == budget]
        if not runs:
            return UNKNOWN
        tokens, score = runs[0].summary.mean_prompt_tokens, fmean(run.summary.metrics.overall.accuracy for run in runs)
        return f"{percent(score)}\n{recall.text(comparison, runs[0])} found\n{count(tokens)} tokens"

    def column(budget: int) -> Column[BudgetCurve]:
        return Column(f"{budget:,}", lambda curve: cell(curve, budget))

    metric = comparison.metric
    columns: list[Column[BudgetCurve]] = [Column("memory", lambda curve: curve.name, "text"), *map(column, budgets)]
    return tabulate(f"Token budgets: {metric}, evidence recall, prompt tokens", columns, curves)


def grid_table(comparison: Comparison, grid: Grid) -> Table:
    """Return the scores of runs that vary in two settings, in percent, with the marks of significant differences."""
    rows = {row.run_id: row for row in comparison.rows}
    lines = list(zip(grid.down_values, grid.cells, strict=True))

    def score(place: int, line: tuple[str, tuple[str, ...]]) -> str:
        row = rows[line[1][place]]
        return f"{row.marks} {in_percent(row.summary.metrics.overall.accuracy)}".lstrip()

    parameter = grid.across not in ("model", "reading", "embedder")
    columns: list[Column[tuple[str, tuple[str, ...]]]] = [Column(grid.down, lambda line: line[0], "text")]
    columns += [
        Column(f"{grid.across}={value}" if parameter else value, partial(score, place))
        for place, value in enumerate(grid.across_values)
    ]
    return tabulate(f"{comparison.metric[:1].upper()}{comparison.metric[1:]} in percent, {grid.title}", columns, lines)


_NARROW = 16
"""The longest name of a question type, in characters, that stays on one line."""


def comparison_tables(comparison: Comparison, *, details: bool = True, pairs: bool = True) -> list[Table]:
    """Return the tables of a comparison that have rows, that of the runs first.

    Args:
        details: include the tables by type and of losses, costs, latencies, memories' models and repeats.
        pairs: include the table of all pairs.
    """
    grids = (grid_table(comparison, grid) for grid in comparison.grids)
    tables = [runs_table(comparison, "terminal"), *audit_tables(comparison), *grids, budget_table(comparison)]
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
    title = ", ".join(_subject(comparison)) if medium == "paper" else title_of(comparison)
    return tabulate(title, columns, comparison.ranked, breaks=comparison.controls_begin, last_group=CONTROLS)


def title_of(comparison: Comparison) -> str:
    """Return the data, the number of questions, the budget and the judge."""
    judge = comparison.rows[0].summary.metrics.judge
    official = "" if judge.official else " (not official)"
    return ", ".join([*_subject(comparison), f"judge {judge_name(judge)}{official}"])


def _subject(comparison: Comparison) -> list[str]:
    """Return what all rows share, short enough for a caption."""
    return list(filter(None, [comparison.dataset, question_count(comparison), comparison.budget]))


def question_count(comparison: Comparison) -> str:
    """Return the number of compared questions; for a part of the dataset, also the total and the selection."""
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

    def score_of(row: ComparedRun, name: str) -> str | None:
        score = row.summary.metrics.by_type.get(name)
        return f"{in_percent(score.accuracy)}\n{bounds(score.interval)}" if score else None

    def type_column(name: str) -> Column[tuple[str, ComparedRun]]:
        return Column(f"{_broken(name)}\nn {sizes[name]:,}", lambda row: score_of(row[1], name))

    columns: list[Column[tuple[str, ComparedRun]]] = [Column("memory", lambda row: row[0], "text")]
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


def audit_tables(comparison: Comparison) -> list[Table]:
    """Return for each audit the scores without each kind of disputed labels, and its ceilings by question type."""
    tables = []
    for audit in comparison.audits:
        title = f"Without the labels that audit {audit.audit} disputes"
        tables.append(tabulate(title, columns_of(AUDIT_COLUMNS, comparison, "terminal"), audit.rows))
        bounds = {"overall": audit.ceiling.overall, **audit.ceiling.by_type}
        above = {name or "overall": [comparison.names[run_id] for run_id in ids] for name, ids in audit.above.items()}
        lines = [(name, bound, ", ".join(above.get(name, ()))) for name, bound in bounds.items() if audit.disputed]
        columns: list[Column[tuple[str, float | None, str]]] = [
            Column("questions", lambda line: line[0], "text"),
            Column("ceiling", lambda line: percent(line[1])),
            Column("above it", lambda line: line[2], "prose"),
        ]
        tables.append(tabulate(f"Ceilings by audit {audit.audit}", columns, lines))
    return [table for table in tables if table.rows]


def pairs_line(comparison: Comparison) -> str:
    """Return a line that names the tests by which pairs are compared."""
    tests = " or ".join(dict.fromkeys(pair.test for pair in comparison.pairs))
    return f"{tests}, p adjusted for {count_of(len(comparison.pairs), 'pair')} (Holm); ▲ ▼: significant."


def _lost(comparison: Comparison) -> Table:
    stages = dict.fromkeys(stage for row in comparison.rows for stage in row.lost)

    def column(stage: str) -> Column[tuple[str, ComparedRun]]:
        return Column(cause_of(stage), lambda row: row[1].lost.get(stage, 0))

    columns: list[Column[tuple[str, ComparedRun]]] = [
        Column("memory", lambda row: row[0], "text"),
        *map(column, stages),
    ]
    rows = zip(row_names(comparison), comparison.ranked, strict=True) if stages else ()
    return tabulate("Questions without full credit, by cause", columns, rows)


def digest_table(comparison: Comparison) -> Table:
    """Return the causes of a run's wrong answers; no rows if it has none, or nothing is known."""
    digest = comparison.digest
    columns: list[Column[LostGroup]] = [
        Column("cause", lambda group: group.cause, "text"),
        Column("questions", lambda group: group.count),
        Column("right in\nanother run", lambda group: group.won_elsewhere),
        Column("example", lambda group: group.example, "text", drop=1),
        Column("suggestion", lambda group: group.to_try or None, "prose"),
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
        Column("labels\nchanged", lambda group: f"{group.flips.flipped:,} of {group.flips.questions:,}"),
        Column("by the\nanswer", lambda group: group.flips.by_answer, drop=2),
        Column("by the\njudge", lambda group: group.flips.by_judge, drop=3),
    ]
    return tabulate("Repeats: spread between runs of one configuration", columns, comparison.repeats)


FLIPS_NOTE = (
    "Labels changed between repeats: by the judge where the same text has both labels, otherwise by the answer; "
    f"{UNKNOWN}: no text was graded twice (use `evaluate --rejudge`)."
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


_MOST_PUBLISHED = 60
"""The number of published figures up to which all are shown; above it, `_OF_A_FILE` of each file of claims."""
_OF_A_FILE = 4


def published_table(figures: Sequence[Claim]) -> Table:
    """Return the figures that others have published; a cell that repeats the row above is left empty.

    Of many, the first of each file of claims are shown, and the title says how to list the others.
    """
    title, number = "Published scores (comparable only with the same judge and data)", len(figures)
    if number > _MOST_PUBLISHED:
        seen = Counter[str]()
        every, figures = figures, []
        for figure in every:
            seen[file := figure.id.partition("/")[0]] += 1
            figures += [figure] if seen[file] <= _OF_A_FILE else []
        title += f"; {number - len(figures)} more: longmemeval claims list --all --benchmark {every[0].benchmark}"
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
        column("judge", lambda figure: figure.told_judge, drop=2),
        column("source", lambda figure: figure.source.cited),
    ]
    return tabulate(title, columns, zip(figures, repeated, strict=True))


def _origin(figure: Claim) -> tuple[int | None, str, str, str]:
    return figure.n, figure.variant, figure.judge, figure.source.cited


def _published_value(figure: Claim) -> str:
    whole = "" if figure.value is None else f"{figure.metric} {percent(figure.value)}"
    parts = ", ".join(f"{name} {in_percent(value)}" for name, value in figure.by_group.items())
    if not parts:
        return whole
    return f"{whole}\n{parts}" if whole else f"{figure.metric}: {parts}"


# Build the notes below tables of runs.

_MAX_LISTED = 4
"""The number of run ids named in one line before the rest is counted."""
_MAX_SETTINGS = 2
"""The number of settings up to which their values are shown below the table."""
ORACLE_NOTE = "oracle is given the gold evidence: an upper bound, not a memory system."
CONTROL_NOTE = (
    "Control models ignore the question: offline/refuse always abstains, offline/parrot repeats the retrieved text, "
    "offline/last-session repeats the last session. A high score for one suggests a lenient judge."
)
FALLBACK_NOTE = (
    "Embedder: hashing (offline fallback). For meaningful scores: prepare --embedder "
    "fastembed:BAAI/bge-small-en-v1.5, fastembed:FOLDER or openai:text-embedding-3-small."
)


def official_status(judge: JudgeIdentity) -> str:
    """Say whether the figures of a judge can be compared with published ones."""
    if judge.official:
        return "Official."
    return "Not the official judge; scores are not comparable with published ones."


def footnotes(summaries: list[GradedRun], *, warnings: bool = True) -> list[str]:
    """Return the notes that belong below any table of these runs.

    Args:
        warnings: include the warnings about scores; a comparison has them as sentences.
    """
    notes: list[str] = []
    if warnings:
        notes += warning_lines([(summary.run_id, summary.warnings) for summary in summaries])
    judges = [summary.metrics.judge for summary in summaries]
    notes += dict.fromkeys(f"Judge: {judge_name(judge)}. {official_status(judge)}" for judge in judges)
    checked = [(check, summary) for summary in summaries if (check := summary.judge_check)]
    notes += dict.fromkeys(_check_note(check, summary.metrics) for check, summary in checked)
    notes += [
        f"{run.run_id}: the score cannot be corrected for judge errors: {check.reason}."
        for check, run in checked
        if check.reason
    ]
    notes.extend(
        f"The questions share {haystacks} histories; CIs are bootstrapped over histories."
        for haystacks in dict.fromkeys(summary.metrics.haystacks for summary in summaries)
        if haystacks
    )
    notes += dict.fromkeys(f"Subset: {summary.part}." for summary in summaries if summary.part)
    notes += dict.fromkeys(summary.protocol_note for summary in summaries if summary.protocol_note)
    notes += dict.fromkeys(note for summary in summaries for note in summary.type_notes)
    if any(summary.model in CONTROL_MODELS for summary in summaries):
        notes.append(CONTROL_NOTE)
    if any(summary.reads_gold for summary in summaries):
        notes.append(ORACLE_NOTE)
    notes += dict.fromkeys(
        f"{summary.memory} uses parts that are not reproducible: {', '.join(summary.not_reproducible)}."
        for summary in summaries
        if summary.not_reproducible
    )
    notes += dict.fromkeys(note for summary in summaries for note in part_notes(summary.memory, summary.parts_told))
    if any(summary.embedder and is_offline_fallback(summary.embedder) for summary in summaries):
        notes.append(FALLBACK_NOTE)
    for summary in summaries:
        if summary.gradings:
            notes.append(_gradings_note(summary, summary.gradings))
        if cached := summary.memory_calls.cached_calls:
            calls = f"{cached:,} of {summary.memory_calls.calls:,} model calls during search"
            notes.append(f"{summary.run_id}: {calls} came from the cache, so recall latency is too low.")
        if summary.memory_calls.failed_calls:
            failed = count_of(summary.memory_calls.failed_calls, "model call")
            notes.append(f"{summary.run_id}: {failed} failed during search; see the notes of the answers.")
        if summary.memory_calls.cut_calls:
            cut = count_of(summary.memory_calls.cut_calls, "reply", "replies")
            notes.append(f"{summary.run_id}: {cut} to the memory's model calls during search broke off.")
        if summary.shortened:
            shortened = count_of(summary.shortened, "context was", "contexts were")
            notes.append(f"{summary.run_id}: {shortened} truncated to fit the model's context window.")
        if summary.truncated:
            truncated = count_of(summary.truncated, "prompt")
            notes.append(f"{summary.run_id}: the server probably truncated {truncated}, which no setting asked for.")
        if summary.undated:
            undated = count_of(summary.undated, "answer uses", "answers use")
            notes.append(f"{summary.run_id}: {undated} undated items.")
    return notes


def warning_lines(runs: Sequence[tuple[str, Sequence[ScoreWarning]]]) -> Iterator[str]:
    """Yield the warnings about scores, each once, naming the runs it is about unless it is about all.

    Args:
        runs: the name of each run, with its warnings.
    """
    about: dict[str, list[str]] = {}
    for name, warnings in runs:
        for warning in warnings:
            about.setdefault(warning.text, []).append(name)
    for text, names in about.items():
        yield text if len(names) == len(runs) else f"{listed(names, _MAX_LISTED)}: {text}"


def comparison_notes(comparison: Comparison) -> list[str]:
    """Return everything the figures of a comparison rest on: cautions first, each note once."""
    summaries = [row.summary for row in comparison.rows]
    notes = [*deviation_lines(comparison), *comparison.texts("caution", "note")]
    if any(row.provenance == "session" for row in comparison.rows):
        notes.append(BY_SESSION_NOTE)
    if comparison.repeats:
        notes.append(FLIPS_NOTE)
    return list(dict.fromkeys([*notes, *footnotes(summaries, warnings=False), *effort_notes(summaries)]))


def caution_lines(comparison: Comparison) -> list[str]:
    """Return the lines below the table: cautions, deviations of products, and other settings that differ."""
    lines = [*comparison.texts("caution"), *deviation_lines(comparison)]
    if len(comparison.differing) > _MAX_SETTINGS:
        lines.append(f"Other settings that differ: {', '.join(comparison.differing)}.")
    else:
        lines += comparison.differing.values()
    return [line for line in lines if line]


def marks_line(comparison: Comparison) -> str:
    """Return the meaning of the marks; empty if no run has one."""
    marked = any(row.marks for row in comparison.rows)
    return "▲ ▼ significantly better/worse (p < 0.05, Holm). CIs are per pair, uncorrected." if marked else ""


BY_SESSION_NOTE = (
    "(s): evidence recall by session, because the memory does not name the messages it retrieved; not comparable "
    "with recall by message."
)


def deviation_lines(comparison: Comparison) -> Iterator[str]:
    """Yield a line per product: the profile by which it was measured, and what that leaves out.

    Runs that differ only in their budgets share a line.
    """
    about: dict[tuple[str, ...], list[ComparedRun]] = {}
    for run in comparison.rows:
        if run.deviations:
            about.setdefault(tuple("" if is_amount(text) else text for text in run.deviations), []).append(run)
    for shared, runs in about.items():
        amounts = " or ".join(dict.fromkeys(text for run in runs for text in run.deviations if is_amount(text)))
        names = [comparison.names[run.run_id] for run in runs]
        yield f"{listed(names, _MAX_LISTED)}: {', '.join(deviation or amounts for deviation in shared)}."


def _check_note(check: CheckedScore, metrics: Metrics) -> str:
    """Return a note on what the check of a judge found and how scores are corrected by it."""
    rates = f"{percent(check.right_passed)} of correct and {percent(check.wrong_passed)} of incorrect"
    verb = "accepts" if metrics.judge.metric == "accuracy" else "gives on average"
    what = "human-labelled answers" if check.judged else "test answers"
    elsewhere = f" * These {what} come from another dataset, so the judge's error rates may differ here."
    return (
        f"Judge check: {judge_name(metrics.judge)} {verb} {rates} {what} (n = {check.plants:,}, {check.of}). "
        "Corrected scores use Rogan\u2013Gladen and supplement the raw scores."
        + (elsewhere if check.other_data else "")
    )


def _gradings_note(summary: GradedRun, gradings: Gradings) -> str:
    """Return a note on the spread of a run's gradings by one judge, and on which of them is the score."""
    judge = summary.metrics.judge
    first = f"the first is the score, {percent(gradings.accuracies[0])}"
    shown = "" if grading(judge) == 1 else f", and this is number {grading(judge)}"
    return (
        f"{summary.run_id}: {gradings.n} gradings by this judge, {judge.metric} {percent(gradings.lowest)} to "
        f"{percent(gradings.highest)}; {first}{shown}."
    )


def part_notes(memory: str, parts: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield sentences on each part that a run reads.

    Args:
        memory: name of the memory in tables.
        parts: the recorded facts on each part, by its name: `parts` in the settings of a manifest.
    """
    for stats in parts.values():
        if "service" in stats:
            yield _service_note(memory, stats)
            yield from memory_model_notes(memory, stats)
        if failed := stats["failed_haystacks"]:
            yield (
                f"{memory}: {failed:,} of {stats['haystacks']:,} histories could not be ingested; their questions "
                "count as wrong."
            )


def _service_note(memory: str, stats: Mapping[str, Any]) -> str:
    """Return the versions, what is not as the tables assume, and the losses of a service; run.json has all of it."""
    packages = ", ".join(" ".join(pair) for pair in stats["packages"][0].items()) or "versions not given"
    differ = "" if len(stats["packages"]) == 1 else " (VERSIONS DIFFER between haystacks)"
    failed = stats["failed_batches"]
    lost = f"; {failed:,} of {stats['batches']:,} batches failed" if failed else ""
    capabilities = stats["capabilities"][0].items()
    amiss = "".join(f"; {text}" for key, value in capabilities if (text := _AMISS.get(f"{key}: {value}")))
    remarks = "".join(f" {text[:1].upper()}{text[1:]}." for text in stats.get("remark", ()))
    return f"{memory}: {packages}{differ}{amiss}{lost}.{remarks}"


_AMISS = {
    "dates: text": "session dates are passed as text only",
    "dates: none": "session dates are lost",
    "usual provenance: session": "recall is scored by session",
    "usual provenance: none": "it does not name the sources of its results",
    "persistence: none": "it is not persistent: every run ingests all sessions again",
    "telemetry: on": "it sends telemetry",
}
"""Capabilities of a service that a reader of the tables has to know about."""


# Show an evaluation or a comparison in a terminal, in a notebook and in `str()`: the answer first.

Answer = Iterator[str | Table]
"""Lines and tables from top to bottom; the first line is the answer, an empty line separates."""


def comparison_answer(
    comparison: Comparison,
    *,
    tables: bool = False,
    pairs: bool = False,
    notes: bool = False,
    questions: bool = False,
) -> Answer:
    """Yield the verdict, the table of runs with its main notes, the lost questions, and whatever else is requested.

    Args:
        tables: show all tables.
        pairs: show every pair of runs.
        notes: show all notes.
        questions: list the questions on which runs differ.
    """
    yield comparison.verdict.whole
    yield ""
    first, *others = comparison_tables(comparison, details=tables, pairs=pairs)
    yield first
    yield from filter(None, [marks_line(comparison)])
    yield from caution_lines(comparison)
    yield from others
    if questions:
        for heading, ids in question_lists(comparison):
            yield f"{heading} ({len(ids)}): {', '.join(ids) or 'none'}"
    lost = digest_table(comparison)
    if lost.rows:
        yield ""
        yield lost
    if tables or notes:
        yield from run_id_lines(comparison)
    if notes:
        yield from (note for note in comparison_notes(comparison) if note not in caution_lines(comparison))


def run_id_lines(comparison: Comparison) -> Iterator[str]:
    """Yield the ids behind the names, where they differ from them."""
    for row in comparison.rows:
        if (name := comparison.names[row.run_id]) != row.run_id:
            yield f"{name}: {', '.join(row.run_ids)}"


def evaluation_answer(evaluation: Evaluation) -> Answer:
    """Yield the score in a sentence, scores by type, costs, latencies, and the notes below them."""
    metrics, manifest, summary = evaluation.metrics, evaluation.manifest, evaluation.summary
    yield from (sentence.text({}) for sentence in missing_sentences(summary))
    yield score_sentence(metrics).text({})
    data = ", ".join(filter(None, [manifest.dataset["name"], summary.part]))
    title = f"{metrics.run}: {summary.memory}, {summary.model}, {data}, judged by {judge_name(metrics.judge)}"
    yield score_table(title, summary)
    yield from filter(None, [task_average_note(metrics, evaluation.asked.benchmark)])
    if summary.judge_check and not summary.judge_check.reason:
        corrected = corrected_text(summary.judge_check)
        yield f"{metrics.judge.metric.capitalize()} after correction for judge errors: {corrected}"
    yield from abstention_lines(metrics)
    yield work_table(summary.costs)
    model_use = memory_model_table([summary], [metrics.run])
    if model_use.rows:
        yield model_use
    yield latency_line(summary.latency)
    yield footprint_line(summary.footprint)
    if metrics.latency_ms.p50 is not None:
        yield f"Latency of the judge's calls, p50 / p95: {both(metrics.latency_ms)} ms"
    now = evaluation.grading
    also = "" if now.judge == metrics.judge else f" ({now.judge.metric} {percent(now.overall.accuracy)})"
    yield f"Newly graded: {evaluation.newly_judged}; judge id: {now.judge.id}{also}"
    yield from footnotes([summary])
    yield from effort_notes([summary], shows_costs=True)
