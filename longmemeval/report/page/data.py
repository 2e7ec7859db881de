"""Prepare the figures of runs for the page, each as it is printed."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from longmemeval.core.tables.table import Column, Table, tabulate
from longmemeval.core.text.figures import UNKNOWN, bounds, count_of, percent
from longmemeval.core.text.paths import document_without_places
from longmemeval.judges.template_set import judge_name
from longmemeval.measures.abstention import Abstaining
from longmemeval.measures.metrics import Score
from longmemeval.pipeline.compare.comparison import Comparison, RunFigures
from longmemeval.pipeline.evaluate.agreement import judge_agreements
from longmemeval.report.charts.palette import Look, shown_runs
from longmemeval.report.tables.cells import abstaining_shares
from longmemeval.report.tables.comparison import row_names
from longmemeval.report.tables.effort import kinds, work_line
from longmemeval.results.graded.graded_run import Evaluation
from longmemeval.results.manifest import document_of
from longmemeval.statistics.paired import Concordance


class RunView(Struct, frozen=True):
    """One run in the tables of the page."""

    run_id: str
    name: str
    look: Look
    facts: tuple[tuple[str, str], ...]
    """The setup of the run and its judge, as pairs of name and value."""
    settings: str
    """The manifest without its list of questions, as JSON."""


def run_views(comparison: Comparison, graded: list[Evaluation]) -> list[RunView]:
    """Return the runs in the order they are shown."""
    return [
        RunView(
            run_id=figures.summary.run_id,
            name=shown.name,
            look=shown.look,
            facts=_facts(figures, run),
            settings=_settings(run),
        )
        for shown, figures, run in zip(shown_runs(comparison), comparison.runs, graded, strict=True)
    ]


def _facts(figures: RunFigures, run: Evaluation) -> tuple[tuple[str, str], ...]:
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


NamedRun = tuple[str, RunFigures]


def abstention_table(comparison: Comparison) -> Table | None:
    """Return how each run does on unanswerable questions; None if there are none and no run abstains."""

    def share(name: str) -> Column[NamedRun]:
        return Column(name, lambda row: _abstaining(row).get(name) or None)

    columns: list[Column[NamedRun]] = [
        Column("run", lambda row: row[0], "text"),
        Column("unanswerable", lambda row: _accuracy(row[1].summary.metrics.abstention)),
        Column("95 % interval", lambda row: _interval(row[1].summary.metrics.abstention)),
        Column("n", lambda row: _n(row[1].summary.metrics.abstention)),
        Column("answerable", lambda row: _accuracy(row[1].summary.metrics.answerable)),
        Column("95 % interval", lambda row: _interval(row[1].summary.metrics.answerable)),
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
