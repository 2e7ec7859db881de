"""Build the report as one self-contained page."""

import re
from collections.abc import Sequence
from typing import TypeVar

import msgspec
from msgspec import Struct

from longmemeval.core.tables.table import Column, Table, tabulate
from longmemeval.core.text.figures import UNKNOWN, bounds, count_of, listed, percent
from longmemeval.core.text.paths import document_without_places, without_places
from longmemeval.judges.template_set import judge_name
from longmemeval.measures.abstention import Abstaining
from longmemeval.measures.metrics import Score
from longmemeval.pipeline.claims.catalogue import Claim
from longmemeval.pipeline.compare.comparison import ComparedRun, Comparison
from longmemeval.pipeline.evaluate.agreement import judge_agreements
from longmemeval.report.charts import of_comparison as charts
from longmemeval.report.charts.charts import Chart, budget_charts
from longmemeval.report.charts.grids import grid_charts
from longmemeval.report.charts.svg import Look, need_report_libraries, shown_rows, shown_runs
from longmemeval.report.page.question_data import details, rows
from longmemeval.report.page.question_records import Row
from longmemeval.report.page.summary import Pattern, among, pair_rows, patterns_of, scores_of
from longmemeval.report.page.templates import page_file, written_page
from longmemeval.report.tables.abilities import ability_legend, ability_notes, ability_table
from longmemeval.report.tables.comparison import (
    audit_tables,
    caution_lines,
    comparison_notes,
    digest_table,
    effort_tables,
    marks_line,
    pairs_line,
    published_table,
    question_count,
    repeats_table,
    row_names,
    runs_table,
)
from longmemeval.report.tables.runs import COST, FOOTPRINT, abstaining_shares, kinds, work_line
from longmemeval.results.graded.graded_run import Evaluation
from longmemeval.results.manifest import document_of
from longmemeval.statistics.paired import Concordance

# Prepare the figures of runs for the page, each as it is printed.


class RunHeader(Struct, frozen=True):
    """One run in the tables of the page."""

    run_id: str
    name: str
    look: Look
    facts: tuple[tuple[str, str], ...]
    """The setup of the run and its judge, as pairs of name and value."""
    settings: str
    """The manifest without its list of questions, as JSON."""


def run_views(comparison: Comparison, graded: list[Evaluation]) -> list[RunHeader]:
    """Return the runs in the order they are shown."""
    return [
        RunHeader(
            run_id=figures.summary.run_id,
            name=shown.name,
            look=shown.look,
            facts=_facts(figures, run),
            settings=_settings(run),
        )
        for shown, figures, run in zip(shown_runs(comparison), comparison.runs, graded, strict=True)
    ]


def _facts(figures: ComparedRun, run: Evaluation) -> tuple[tuple[str, str], ...]:
    summary, judge = figures.summary, figures.summary.metrics.judge
    votes = summary.metrics.votes
    facts = {
        "run": summary.run_id,
        "memory": summary.memory + (" (reads the gold evidence: a ceiling)" if summary.reads_gold else ""),
        "model": summary.model,
        "reading": figures.reading,
        "embedder": summary.embedder or "none",
        "judge": f"{judge_name(judge)}: {'official' if judge.official else 'NOT official'}",
        "judge id": judge.id,
        "votes": f"{votes.votes} per answer, unanimous on {percent(votes.unanimous)}" if votes else "",
        **{name: work_line(cost) for name, cost in kinds(summary.costs).items()},
        "status": f"{run.manifest.status}, begun {run.manifest.started_at}, ended {run.manifest.ended_at or UNKNOWN}",
        "settings": figures.settings_sha256[:12],
    }
    return tuple((name, value) for name, value in facts.items() if value)


def _accuracy(score: Score | None) -> str:
    return percent(score.accuracy if score else None)


def _settings(run: Evaluation) -> str:
    document = document_without_places(document_of(run.manifest))
    document["question_ids"] = f"{count_of(len(run.manifest.question_ids), 'question')}, see run.json"
    document["fixtures"] = f"{len(run.manifest.fixtures)} fixtures, see run.json"
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()


NamedRun = tuple[str, ComparedRun]


def abstention_table(comparison: Comparison) -> Table | None:
    """Return how each run does on unanswerable questions; None if there are none and no run abstains."""

    def share(name: str) -> Column[NamedRun]:
        return Column(name, lambda row: _abstaining(row).get(name) or None)

    columns: list[Column[NamedRun]] = [
        Column("run", lambda row: row[0], "text"),
        Column("unanswerable", lambda row: _accuracy(row[1].summary.metrics.abstention)),
        Column("95% CI", lambda row: _interval(row[1].summary.metrics.abstention)),
        Column("n", lambda row: _n(row[1].summary.metrics.abstention)),
        Column("answerable", lambda row: _accuracy(row[1].summary.metrics.answerable)),
        Column("95% CI", lambda row: _interval(row[1].summary.metrics.answerable)),
        Column("abstained", lambda row: _abstained(row[1].summary.metrics.abstaining)),
        *map(share, ("precision", "recall", "F1")),
    ]
    rows = [
        (name, run)
        for name, run in zip(row_names(comparison), comparison.ranked, strict=True)
        if run.summary.metrics.abstention or run.summary.metrics.abstaining
    ]
    return tabulate("", columns, rows) if rows else None


def _n(score: Score | None) -> int | None:
    return score.n if score else None


def _interval(score: Score | None) -> str:
    return bounds(score.interval if score else None)


def _abstained(abstaining: Abstaining | None) -> str | None:
    return f"{abstaining.abstained:,} ({abstaining.right:,} rightly)" if abstaining else None


def _abstaining(row: NamedRun) -> dict[str, str]:
    abstaining = row[1].summary.metrics.abstaining
    return abstaining_shares(abstaining) if abstaining else {}


def agreement_tables(graded: list[Evaluation], names: Sequence[str]) -> list[Table]:
    """Return a table for each pair of judges that graded the same run."""
    columns: list[Column[tuple[str, Concordance]]] = [
        Column("", lambda row: row[0], "text"),
        Column("same label", lambda row: percent(row[1].agreed)),
        Column("Cohen's kappa", lambda row: None if row[1].kappa is None else f"{row[1].kappa:.2f}"),
        Column("n", lambda row: row[1].n),
        Column("not evaluated by both", lambda row: row[1].not_evaluated),
    ]
    tables = []
    for name, run in zip(names, graded, strict=True):
        for pair in judge_agreements(run.files, run.asked, [metrics.judge for metrics in run.files.metrics]):
            groups = {"overall": pair.agreement.overall, **pair.agreement.by_type}
            disputed = f"{count_of(len(pair.agreement.disputed), 'question')} in dispute"
            tables.append(tabulate(f"{name}: {pair.a} and {pair.b}, {disputed}", columns, groups.items()))
    return tables


T = TypeVar("T")

# Characters that could end the element around the JSON, and those that an editor or a browser obeys without showing.
_UNSAFE = re.compile("[<>&\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]")


class Section(Struct, frozen=True):
    """One part of the page between the summary and the settings."""

    id: str
    title: str
    words: str = ""
    charts: tuple[Chart, ...] = ()
    tables: tuple[Table, ...] = ()
    narrow: bool = False
    """True if the charts stand side by side where there is room."""
    short: str = ""
    """The title in the links at the top, if it differs from `title`."""
    by_run: bool = False
    """True if the charts draw every run, not rows of pooled repeats."""
    keyed: bool = True
    """True if the marks of the runs need a key."""


class _PageRun(Struct, frozen=True):
    name: str
    look: Look
    path: str
    """The SVG path of the run's mark."""


class _PageData(Struct, frozen=True):
    """The data that the script of the page reads first."""

    runs: tuple[_PageRun, ...]
    rows: list[Row]
    among: list[int]
    """Indexes of the runs that patterns are about."""
    patterns: list[Pattern]


def html_page(
    comparison: Comparison, graded: list[Evaluation], *, full: bool = False, published: Sequence[Claim] = ()
) -> str:
    """Return the page: the same bytes for the same files.

    Args:
        graded: the same runs, in the same order.
        full: cut no text, whatever the size of the page.
        published: figures that others have published, shown last.

    Raises:
        HarnessError: the extra `report` is not installed.
    """
    need_report_libraries()
    from markupsafe import Markup

    runs = run_views(comparison, graded)
    table = rows(comparison.questions, graded[0].asked)
    below, left_out = details([row.id for row in table], graded, full=full)
    first = _PageData(
        tuple(_PageRun(run.name, run.look, run.look.path) for run in runs),
        table,
        among(comparison),
        patterns_of(comparison),
    )
    marks = marks_line(comparison)  # The caption of the scores says it.
    main = [without_places(line) for line in caution_lines(comparison) if line != marks]
    return written_page(
        "page.html.j2",
        script=page_file("page.js"),
        number=len(runs),
        title=f"{comparison.dataset}: {_named(runs)}",
        verdict=comparison.verdict,
        lead=_lead(comparison),
        scores=scores_of(comparison),
        metric=comparison.metric,
        all_figures=runs_table(comparison, "paper").with_title(""),
        main_notes=main,
        runs=runs,
        drawn=shown_rows(comparison),
        notes=[line for line in map(without_places, comparison_notes(comparison)) if line not in main],
        question_filter=lambda kind, row: "" if kind == "same" or row.place < 0 else f"#?pattern={kind}-{row.place}",
        pairs=pair_rows(comparison),
        pairs_line=pairs_line(comparison) if comparison.pairs else "",
        sections=[*_sections(comparison, graded), *_published(published)],
        left_out=left_out,
        page_json=Markup(_embedded(first)),
        detail_json=Markup(_embedded(below)),
    )


def across_page(graded: Sequence[Evaluation]) -> str:
    """Return the page of runs on different datasets: the table by ability with its legend; nothing is compared.

    Raises:
        HarnessError: the extra `report` is not installed.
    """
    sets = len({run.manifest.dataset["content_sha256"] for run in graded})
    table = ability_table(graded)
    return written_page(
        "across.html.j2",
        style="\ntd, thead th { white-space: pre-line; }\n",
        number=len(graded),
        title=table.title,
        table=table,
        lead=f"{count_of(len(graded), 'run')}, {count_of(sets, 'dataset')}",
        legend=ability_legend(graded),
        notes=ability_notes(graded),
    )


def page_charts(comparison: Comparison, graded: list[Evaluation]) -> list[Chart]:
    """Return the charts of the page in order; the arguments are those of `html_page`."""
    overall = _some(charts.overall_chart(comparison, shown_rows(comparison)))
    return [*overall, *(chart for section in _sections(comparison, graded) for chart in section.charts)]


def _lead(comparison: Comparison) -> str:
    """Return the line below the title: data, number of questions, models and judge."""
    first = comparison.rows[0].summary
    models = list(dict.fromkeys(run.summary.model for run in comparison.rows if not run.summary.control))
    judge = first.metrics.judge
    official = "" if judge.official else " (not official)"
    model, judged_by = listed(models, 2) or first.model, f"judge {judge_name(judge)}{official}"
    parts = [comparison.dataset, question_count(comparison), comparison.budget]
    return " · ".join(filter(None, [*parts, model, judged_by]))


def _named(runs: list[RunHeader]) -> str:
    return listed([run.name for run in runs], 4)


def _embedded(document: object) -> str:
    """Return JSON that cannot end the element around it."""
    text = msgspec.json.encode(document).decode()
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _sections(comparison: Comparison, graded: list[Evaluation]) -> list[Section]:
    """Return the sections that have something to show."""
    shown, members = shown_rows(comparison), shown_runs(comparison)
    by_type = charts.group_chart("types", "By question type", comparison, shown, lambda metrics: metrics.by_type)
    by_ability = charts.group_chart("abilities", "By ability", comparison, shown, lambda metrics: metrics.by_ability)
    effort = tuple(charts.tradeoff_charts(comparison, shown))
    losses = charts.loss_chart(comparison, shown)
    calibration = tuple(charts.calibration_charts(graded, members))
    agreement = tuple(agreement_tables(graded, [run.name for run in members]))
    judges, missing = charts.judges_chart(graded, members)
    on_judges = without_places(f"{_AGREEMENT} {missing}")
    ability_words = "All benchmarks share these abilities; unanswerable questions test abstention."
    lost = digest_table(comparison)
    recall = charts.recall_curves(graded, members)
    latencies = charts.latency_ridges([run.answers for run in graded], members)
    costs, footprint, latency, model_use = map(_with_rows, effort_tables(comparison))
    budgets, grids = tuple(budget_charts(comparison, shown)), tuple(grid_charts(comparison, shown))
    sections = [
        Section("types", "Question types", charts=_some(by_type), short="Types"),
        Section("audits", "Disputed labels", tables=tuple(audit_tables(comparison)), short="Audits"),
        Section("abilities", "Abilities", ability_words, _some(by_ability)),
        Section("abstention", "Abstention", _ABSTENTION, tables=_some(abstention_table(comparison))),
        Section("grids", "Two settings", charts=grids, narrow=True, short="Grid", keyed=False),
        Section("budgets", "Equal tokens", charts=budgets, narrow=True, short="Budgets"),
        Section("effort", "Score vs. effort", charts=effort, narrow=True, short="Effort"),
        Section("recall", "Evidence recall", charts=_some(recall), short="Recall", by_run=True),
        Section("losses", "Wrong answers by cause", "", _some(losses), (lost,) if lost.rows else (), short="Wrong"),
        Section("calibration", "Calibration", _CALIBRATION, calibration, narrow=True, by_run=True),
        Section("cost", COST, tables=costs, short="Cost"),
        Section("footprint", FOOTPRINT, tables=footprint, short="Footprint"),
        Section("memory-models", "Model calls made by memories", tables=model_use, short="Memories' models"),
        Section("latency", "Latency", charts=_some(latencies), tables=latency, by_run=True),
        Section("judges", "Judge agreement", on_judges, _some(judges), agreement, short="Judges", by_run=True),
        Section("repeats", "Repeats", _REPEATS, tables=_with_rows(repeats_table(comparison))),
    ]
    return [section for section in sections if section.charts or section.tables]


def _published(figures: Sequence[Claim]) -> list[Section]:
    return [Section("published", "Published scores", tables=(published_table(figures),))] if figures else []


_ABSTENTION = (
    "Abstentions are recognised by the phrases of the offline judge. Precision: share of abstentions that were right; "
    "recall: share of unanswerable questions on which the run abstained."
)
_CALIBRATION = "Accuracy by the best retrieval score of a question: ten groups of questions, lowest scores first."
_AGREEMENT = "Judges of one run on the same answers. Cohen's kappa: 1 is perfect agreement, 0 is chance."
_REPEATS = "Repeats of the same configuration: how much the score varies by chance."


def _with_rows(table: Table) -> tuple[Table, ...]:
    """Return the table without its title, which the section shows; nothing if it has no rows."""
    return (table.with_title(""),) if table.rows else ()


def _some(item: T | None) -> tuple[T, ...]:
    return () if item is None else (item,)
