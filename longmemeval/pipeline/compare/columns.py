"""The columns of a comparison's tables: one entry says what a figure is, how it is headed and written, and where.

Whoever shows a table (terminal, page, Markdown, LaTeX, data frame, `--json`) takes the columns of its medium and
decides nothing. A new column is one entry of `RUN_COLUMNS` or `PAIR_COLUMNS`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Literal, TypeVar

from msgspec import Struct

from longmemeval.core.tables.table import Column, Kind, Value, shown
from longmemeval.core.text.figures import (
    UNKNOWN,
    bounds,
    count,
    in_percent,
    milliseconds,
    ms,
    p_value,
    percent,
    signed,
    signed_bounds,
)
from longmemeval.measures.metrics import Score
from longmemeval.pipeline.compare.comparison import AuditedRow, ComparedRun, Comparison, PairResult
from longmemeval.results.graded.graded_run import GradedRun, cost_text
from longmemeval.results.graded.judge_checks import CheckedScore
from longmemeval.results.scores.warnings import WARNED

Medium = Literal["terminal", "page", "paper", "frame"]
"""A terminal or notebook; the first table of a page; Markdown, LaTeX and a page's table of all figures; data."""
CONTROLS = "controls"
"""The heading above the controls at the end of a terminal's table of runs."""
R = TypeVar("R")


class ShownColumn(Struct, Generic[R], frozen=True):
    """One column: its value is not rounded, its form is text."""

    id: str
    headings: Mapping[Medium, str]
    """The heading in each medium that shows the column; `{metric}` and `{baseline}` are filled in."""
    value: Callable[[Comparison, R], Any]
    form: Callable[[Any], str] = shown
    kind: Kind = "figure"
    drop: int = 0
    """Rank for leaving out in a narrow terminal: the highest number goes first; 0 stays."""
    when: Callable[[Comparison], bool] = lambda comparison: True
    absent: str = UNKNOWN
    """The text where there is no value; empty where none can be, as for the baseline itself."""

    def of(self, comparison: Comparison, medium: Medium) -> Column[R]:
        """Return the column for a table of this medium: text, or for data the plain value."""
        baseline = comparison.names[comparison.rows[0].run_id]
        title = self.headings[medium].format(metric=comparison.metric, baseline=baseline)
        if medium == "frame":
            return Column(title, lambda record: self.value(comparison, record), self.kind)
        return Column(title, lambda record: self.text(comparison, record), self.kind, self.drop)

    def text(self, comparison: Comparison, record: R) -> str:
        """Return the text of one cell."""
        value = self.value(comparison, record)
        return self.absent if value is None else self.form(value)


def columns_of(
    every: Sequence[ShownColumn[R]], comparison: Comparison, medium: Medium, without: Sequence[str] = ()
) -> list[Column[R]]:
    """Return the columns of a medium, in their order, without those of these ids."""
    return [
        column.of(comparison, medium)
        for column in every
        if medium in column.headings and column.id not in without and column.when(comparison)
    ]


def _with_pair(value: Callable[[PairResult], Value]) -> Callable[[Comparison, ComparedRun], Value]:
    """Return a column's value that is read from the row's test against the baseline; None for the baseline."""

    def of_row(comparison: Comparison, row: ComparedRun) -> Value:
        pair = comparison.from_baseline.get(row.run_id)
        return None if pair is None else value(pair)

    return of_row


def _of(value: Callable[[Any], Any]) -> Callable[[Comparison, ComparedRun], Any]:
    return lambda comparison, row: value(row.summary)


def _several(comparison: Comparison) -> bool:
    return len(comparison.rows) > 1


def _reasons(comparison: Comparison) -> bool:
    return any(row.summary.reasoning_tokens for row in comparison.rows)


def _checked(comparison: Comparison) -> bool:
    return any(row.summary.judge_check for row in comparison.rows)


def _named(comparison: Comparison, row: ComparedRun) -> tuple[str, str]:
    return comparison.names[row.run_id], ", ".join(remarks(comparison, row))


def _named_in_group(comparison: Comparison, row: ComparedRun) -> tuple[str, str]:
    """Return the name and the remarks of a row whose table has the controls under a heading of their own."""
    grouped = any(row in comparison.ranked[start:] for start in comparison.controls_begin)
    return comparison.names[row.run_id], ", ".join(
        word for word in remarks(comparison, row) if not (grouped and word == "control")
    )


def _with_remarks(value: tuple[str, str]) -> str:
    return f"{value[0]} ({value[1]})" if value[1] else value[0]


def kind_words(summary: GradedRun) -> list[str]:
    """Return what sets a run apart from memories that are completed, in a word or two each."""
    return [
        *(["control"] if summary.control else []),
        *(["reads gold"] if summary.reads_gold else []),
        *([summary.status] if summary.status != "completed" else []),
    ]


def remarks(comparison: Comparison, row: ComparedRun) -> list[str]:
    """Return what sets a row apart from the others, in a word or two each."""
    overall = row.summary.metrics.overall
    is_baseline = _several(comparison) and row.run_id == comparison.rows[0].run_id
    return [
        *(["baseline"] if is_baseline else []),
        *(word for word in kind_words(row.summary) if not (is_baseline and word == "control")),
        *([f"{len(row.run_ids)} repeats"] if len(row.run_ids) > 1 else []),
        *([f"{overall.not_evaluated:,} not graded"] if overall.not_evaluated else []),
    ]


def _difference(comparison: Comparison, row: ComparedRun) -> tuple[str, float, tuple[float, float]] | str | None:
    pair = comparison.from_baseline.get(row.run_id)
    if pair is None:
        return None
    if row.changes is not None and row.changes[:2] == (0, 0):
        return "0.0 identical"
    return row.marks, pair.difference, pair.interval


def _written_difference(value: tuple[str, float, tuple[float, float]] | str) -> str:
    if isinstance(value, str):
        return value
    mark, difference, interval = value
    return f"{mark} {signed(difference)} {signed_bounds(interval)}".lstrip()


def _recall(comparison: Comparison, row: ComparedRun) -> tuple[float, bool] | None:
    return None if row.evidence_recall is None else (row.evidence_recall, row.provenance == "session")


def _written_recall(value: tuple[float, bool]) -> str:
    return percent(value[0]) + (" (s)" if value[1] else "")


def _score(comparison: Comparison, row: ComparedRun) -> tuple[Score, bool]:
    return row.summary.metrics.overall, row.warned


def _written_score(value: tuple[Score, bool]) -> str:
    score, warned = value
    return f"{in_percent(score.accuracy)} {bounds(score.interval)}" + (f" {WARNED}" if warned else "")


def _marked_score(comparison: Comparison, row: ComparedRun) -> tuple[float, str]:
    return row.summary.metrics.overall.accuracy, row.marks


def _written_marked_score(value: tuple[float, str]) -> str:
    return " ".join(filter(None, [percent(value[0]), value[1]]))


def corrected_text(check: CheckedScore) -> str:
    """Return a score corrected for the judge's errors, with its interval.

    An asterisk marks a correction by the rates of another dataset; the note below the table explains it.
    """
    corrected, elsewhere = check.corrected, "*" if check.other_data else ""
    written = "not possible" if corrected is None else f"{percent(corrected.value)} {bounds(corrected.interval)}"
    return written + elsewhere


def _accuracy(score: Score | None) -> float | None:
    return score.accuracy if score else None


RUN_COLUMNS: tuple[ShownColumn[ComparedRun], ...] = (
    ShownColumn("grouped_name", {"terminal": "memory"}, _named_in_group, _with_remarks, "text"),
    ShownColumn("name", {"page": "memory", "paper": "memory"}, _named, _with_remarks, "text"),
    ShownColumn("run", {"frame": "run"}, _of(lambda run: run.run_id), kind="text"),
    ShownColumn("memory", {"frame": "memory"}, _of(lambda run: run.memory), kind="text"),
    ShownColumn("model", {"frame": "model", "paper": "model"}, _of(lambda run: run.model), kind="text"),
    ShownColumn("embedder", {"frame": "embedder"}, _of(lambda run: run.embedder or None), kind="text"),
    ShownColumn("dataset", {"frame": "dataset"}, lambda comparison, row: comparison.dataset, kind="text"),
    ShownColumn("repeats", {"frame": "repeats"}, lambda comparison, row: len(row.run_ids)),
    ShownColumn("status", {"frame": "status"}, _of(lambda run: run.status), kind="text"),
    ShownColumn("reads_gold", {"frame": "reads_gold"}, _of(lambda run: run.reads_gold)),
    ShownColumn("control", {"frame": "control"}, _of(lambda run: run.control), kind="text"),
    ShownColumn("judge", {"frame": "judge"}, _of(lambda run: run.metrics.judge.id), kind="text"),
    ShownColumn("official", {"frame": "official"}, _of(lambda run: run.metrics.judge.official)),
    ShownColumn("metric", {"frame": "metric"}, _of(lambda run: run.metrics.judge.metric), kind="text"),
    ShownColumn("questions", {"frame": "questions"}, _of(lambda run: run.metrics.overall.n)),
    ShownColumn("score_interval", {"terminal": "{metric} %,\n95% CI"}, _score, _written_score),
    ShownColumn(
        "score",
        {"frame": "score", "page": "{metric}"},
        _of(lambda run: run.metrics.overall.accuracy),
        percent,
    ),
    ShownColumn("marked_score", {"paper": "{metric}"}, _marked_score, _written_marked_score),
    ShownColumn(
        "interval", {"page": "95% CI", "paper": "95% CI"}, _of(lambda run: run.metrics.overall.interval), bounds
    ),
    ShownColumn("low", {"frame": "low"}, _of(lambda run: run.metrics.overall.interval[0])),
    ShownColumn("high", {"frame": "high"}, _of(lambda run: run.metrics.overall.interval[1])),
    ShownColumn(
        "versus",
        {"terminal": "vs. {baseline},\npoints", "page": "vs. {baseline}, points"},
        _difference,
        _written_difference,
        when=_several,
        absent="",
    ),
    ShownColumn(
        "changes",
        {"page": "questions better\n/ worse / same"},
        lambda comparison, row: row.changes,
        lambda value: f"+{value[0]} -{value[1]} ={value[2]}",
        when=_several,
        absent="",
    ),
    ShownColumn("difference", {"frame": "difference"}, _with_pair(lambda pair: pair.difference)),
    ShownColumn("difference_low", {"frame": "difference_low"}, _with_pair(lambda pair: pair.interval[0])),
    ShownColumn("difference_high", {"frame": "difference_high"}, _with_pair(lambda pair: pair.interval[1])),
    ShownColumn("p", {"frame": "p"}, _with_pair(lambda pair: pair.p)),
    ShownColumn(
        "p_holm",
        {"frame": "p_holm", "terminal": "p\n(Holm)"},
        _with_pair(lambda pair: pair.p_holm),
        p_value,
        drop=7,
        when=_several,
        absent="",
    ),
    ShownColumn("significant", {"frame": "significant"}, _with_pair(lambda pair: pair.significant)),
    ShownColumn(
        "corrected",
        {"terminal": "judge-\ncorrected", "paper": "judge-corrected"},
        _of(lambda run: run.judge_check),
        corrected_text,
        drop=6,
        when=_checked,
    ),
    ShownColumn(
        "correct",
        {"paper": "full credit"},
        _of(lambda run: (run.metrics.overall.correct, run.metrics.overall.n)),
        lambda value: f"{value[0]:,} of {value[1]:,}",
    ),
    ShownColumn(
        "not_evaluated",
        {"frame": "not_evaluated", "terminal": "not\ngraded", "paper": "not graded"},
        _of(lambda run: run.metrics.overall.not_evaluated),
        drop=1,
    ),
    ShownColumn("abstention", {"paper": "abstention"}, _of(lambda run: _accuracy(run.metrics.abstention)), percent),
    ShownColumn("evidence_recall", {"frame": "evidence_recall"}, lambda comparison, row: row.evidence_recall),
    ShownColumn(
        "evidence",
        {"terminal": "evidence\nrecall", "paper": "evidence recall", "page": "evidence recall"},
        _recall,
        _written_recall,
        drop=8,
    ),
    ShownColumn(
        "prompt_tokens",
        {"frame": "prompt_tokens", "terminal": "prompt\ntokens", "page": "prompt tokens", "paper": "prompt tokens"},
        _of(lambda run: run.mean_prompt_tokens),
        count,
    ),
    ShownColumn(
        "reasoning_tokens",
        {"frame": "reasoning_tokens", "paper": "reasoning tokens"},
        _of(lambda run: run.reasoning_tokens),
        count,
        when=_reasons,
    ),
    ShownColumn("cost_usd", {"frame": "cost_usd"}, _of(lambda run: run.costs.total.usd)),
    ShownColumn("prepare_usd", {"frame": "prepare_usd"}, _of(lambda run: run.costs.prepare.usd)),
    ShownColumn(
        "cost",
        {"terminal": "cost", "page": "cost", "paper": "cost"},
        _of(lambda run: run.costs.total),
        cost_text,
        drop=9,
    ),
    ShownColumn("preparing", {"page": "of which preparing"}, _of(lambda run: run.costs.prepare), cost_text),
    ShownColumn(
        "latency_p50_ms",
        {"frame": "latency_p50_ms", "terminal": "latency\np50 ms"},
        _of(lambda run: run.latency.total.p50),
        ms,
        drop=10,
    ),
    ShownColumn("median", {"page": "median time"}, _of(lambda run: run.latency.total.p50), milliseconds),
    ShownColumn("latency_p95_ms", {"frame": "latency_p95_ms"}, _of(lambda run: run.latency.total.p95)),
)
"""The columns of a table of runs, a row for each configuration."""


def _name(which: str) -> Callable[[Comparison, PairResult], str]:
    return lambda comparison, pair: comparison.names[getattr(pair, which)]


def _pair(value: Callable[[PairResult], Any]) -> Callable[[Comparison, PairResult], Any]:
    return lambda comparison, pair: value(pair)


def _discordant(value: Callable[[Any], Any]) -> Callable[[Comparison, PairResult], Any]:
    return lambda comparison, pair: value(pair.mcnemar) if pair.mcnemar else None


def _labels(comparison: Comparison) -> bool:
    return any(pair.mcnemar for pair in comparison.pairs)


PAIR_COLUMNS: tuple[ShownColumn[PairResult], ...] = (
    ShownColumn("a", {"terminal": "a", "paper": "memory"}, _name("a"), kind="text"),
    ShownColumn("b", {"terminal": "b"}, _name("b"), kind="text"),
    ShownColumn(
        "difference",
        {"terminal": "a \u2212 b\n(points)", "paper": "points"},
        _pair(lambda pair: pair),
        lambda pair: signed(pair.difference) + ((" ▲" if pair.difference > 0 else " ▼") if pair.significant else ""),
    ),
    ShownColumn(
        "interval", {"terminal": "95% CI", "paper": "95% CI"}, _pair(lambda pair: pair.interval), signed_bounds
    ),
    ShownColumn("a_only", {"terminal": "only a"}, _discordant(lambda found: found.a_only), drop=3, when=_labels),
    ShownColumn("b_only", {"terminal": "only b"}, _discordant(lambda found: found.b_only), drop=2, when=_labels),
    ShownColumn("p", {"terminal": "p", "paper": "p"}, _pair(lambda pair: pair.p), p_value, drop=1),
    ShownColumn("p_holm", {"terminal": "p\n(Holm)", "paper": "p (Holm)"}, _pair(lambda pair: pair.p_holm), p_value),
    ShownColumn(
        "detectable",
        {"terminal": "80% power\nto detect", "paper": "80% power to detect"},
        _pair(lambda pair: pair.detectable),
        in_percent,
        drop=5,
    ),
    ShownColumn("test", {"terminal": "test"}, _pair(lambda pair: pair.test), kind="prose", drop=4),
)
"""The columns of a table of pairs; papers show each row minus the baseline."""


def _audited(value: Callable[[AuditedRow], Any]) -> Callable[[Comparison, AuditedRow], Any]:
    return lambda comparison, row: value(row)


AUDIT_COLUMNS: tuple[ShownColumn[AuditedRow], ...] = (
    ShownColumn(
        "without",
        {"terminal": "without", "paper": "without"},
        _audited(lambda row: f"{row.left_out:,} {row.kind}"),
        kind="prose",
    ),
    ShownColumn(
        "memory",
        {"terminal": "memory", "paper": "memory"},
        lambda comparison, row: comparison.names[row.run_id],
        kind="text",
    ),
    ShownColumn(
        "with", {"terminal": "{metric}", "paper": "{metric}"}, _audited(lambda row: row.score.mean), percent, drop=2
    ),
    ShownColumn(
        "score",
        {"terminal": "{metric}\nwithout", "paper": "{metric} without"},
        _audited(lambda row: row.score.undisputed_mean),
        percent,
    ),
    ShownColumn(
        "versus",
        {"terminal": "vs. {baseline},\npoints", "paper": "vs. {baseline}, points"},
        _audited(lambda row: row.versus),
        lambda pair: f"{signed(pair.difference)} {signed_bounds(pair.interval)}",
        when=_several,
        absent="",
    ),
    ShownColumn(
        "p_holm",
        {"terminal": "p\n(Holm)", "paper": "p (Holm)"},
        _audited(lambda row: row.versus and row.versus.p_holm),
        p_value,
        drop=1,
        when=_several,
        absent="",
    ),
)
"""The columns of a table without disputed labels, a row for each kind of dispute and configuration."""
