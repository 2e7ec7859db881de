"""What the page says of runs: every figure as it is printed, and the charts."""

import msgspec
from msgspec import Struct

from longmemeval.core.text.plural import count_of
from longmemeval.judges.official_status import judge_name
from longmemeval.measures.metrics import Score
from longmemeval.pipeline.compare.comparison import Comparison, PairResult, RunFigures
from longmemeval.pipeline.evaluate.agreement import judge_agreements
from longmemeval.report.charts.distributions import milliseconds
from longmemeval.report.charts.svg import RUN_COLOURS
from longmemeval.report.tables.cells import (
    UNKNOWN,
    abstaining_shares,
    corrected_cell,
    cost_text,
    interval,
    percent,
    row_name,
    warned,
)
from longmemeval.report.tables.comparison import detectable_line, shown_recall
from longmemeval.report.tables.effort import effort_notes, kinds, work_line
from longmemeval.report.tables.footnotes import ORACLE_NOTE, deviation_lines, footnotes
from longmemeval.report.tables.layout import letter_of
from longmemeval.report.tables.table import Table
from longmemeval.results.graded.graded_run import Evaluation
from longmemeval.results.manifest import document_of

NOTHING = UNKNOWN


class RunView(Struct, frozen=True):
    """One run in the tables of the page."""

    letter: str
    colour: int
    """From 1: the number of its variable in the style sheet."""
    run_id: str
    name: str
    marks: str
    control: bool
    """Whether it is no memory system but what one is seen beside."""
    facts: tuple[tuple[str, str], ...]
    """What was run and by whom it was judged: name and value."""
    figures: dict[str, str]
    """By column."""
    settings: str
    """The manifest without its list of questions, as JSON."""


def run_names(comparison: Comparison) -> list[str]:
    """Return the name of each run: its memory or a control's model, its id where several have that."""
    names = [row_name(one.summary) for one in comparison.runs]
    return [
        name if names.count(name) == 1 else one.summary.run_id for name, one in zip(names, comparison.runs, strict=True)
    ]


def run_views(comparison: Comparison, graded: list[Evaluation]) -> list[RunView]:
    """Return the runs in the order they are shown."""
    any_check = any(one.summary.judge_check for one in comparison.runs)
    return [
        RunView(
            letter=letter_of(index),
            colour=index % RUN_COLOURS + 1,
            run_id=figures.summary.run_id,
            name=name,
            marks=figures.marks,
            control=figures.summary.control is not None,
            facts=_facts(figures, run),
            figures=figure_cells(figures, any_check),
            settings=_settings(run),
        )
        for index, (name, figures, run) in enumerate(zip(run_names(comparison), comparison.runs, graded, strict=True))
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
        **{name: work_line(one) for name, one in kinds(summary.costs).items()},
        "status": f"{run.manifest.status}, begun {run.manifest.started_at}, ended {run.manifest.ended_at or NOTHING}",
        "settings": figures.settings_sha256[:12],
    }
    return tuple((name, value) for name, value in facts.items() if value)


def figure_cells(figures: RunFigures, any_check: bool) -> dict[str, str]:
    """Return the figures of a run as they are printed, by column; every run has the same columns.

    Args:
        figures: of the run.
        any_check: whether the judge of any of the runs was checked.
    """
    summary, overall = figures.summary, figures.summary.metrics.overall
    abstention, tokens = summary.metrics.abstention, summary.mean_prompt_tokens
    metric = summary.metrics.judge.metric
    return {
        metric: percent(overall.accuracy) + warned(summary),
        "95 % interval": interval(overall),
        **({"corrected for the judge": corrected_cell(summary)} if any_check else {}),
        "correct" if metric == "accuracy" else "full credit": f"{overall.correct:,} of {overall.n:,}",
        "not evaluated": f"{overall.not_evaluated:,}",
        "abstention": percent(abstention.accuracy) if abstention else NOTHING,
        "evidence recall": NOTHING if figures.evidence_recall is None else shown_recall(figures),
        "prompt tokens": NOTHING if tokens is None else f"{tokens:,.0f}",
        "cost": cost_text(summary.costs.total),
        "latency p50": _latency(summary.latency.total.p50),
        "latency p95": _latency(summary.latency.total.p95),
    }


def _latency(value: float | None) -> str:
    return NOTHING if value is None else milliseconds(value)


def _settings(run: Evaluation) -> str:
    document = document_of(run.manifest)
    document["question_ids"] = f"{count_of(len(run.manifest.question_ids), 'question')}, see run.json"
    document["fixtures"] = f"{len(run.manifest.fixtures)} fixtures, see run.json"
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()


class Verdicts(Struct, frozen=True):
    """Every pair of runs, in words first and then in figures."""

    detectable: str
    significant: Table | None
    other: Table | None


def verdicts(comparison: Comparison, letters: list[str]) -> Verdicts | None:
    """Return the pairs by whether their difference is more than noise; None for a single run."""
    if not comparison.pairs:
        return None
    ids = [one.summary.run_id for one in comparison.runs]
    names = {
        run_id: f"{letter} {name}" for run_id, letter, name in zip(ids, letters, run_names(comparison), strict=True)
    }
    tests = " or ".join(dict.fromkeys(pair.test for pair in comparison.pairs))
    return Verdicts(
        detectable=(
            f"Pairs by {tests}, p adjusted for {len(comparison.pairs):,} "
            f"{'pair' if len(comparison.pairs) == 1 else 'pairs'} (Holm). {detectable_line(comparison)}"
        ),
        significant=_pair_table([pair for pair in comparison.pairs if pair.significant], names),
        other=_pair_table([pair for pair in comparison.pairs if not pair.significant], names),
    )


def _pair_table(pairs: list[PairResult], names: dict[str, str]) -> Table | None:
    """Return the largest differences first, each as seen from the run that is ahead."""
    if not pairs:
        return None
    columns = ["pair", "points", "95 % interval", "p", "p (Holm)", "MDE"]
    largest_first = sorted(pairs, key=lambda pair: -abs(pair.difference))
    return Table("", columns, [_pair_row(pair, names) for pair in largest_first])


def _pair_row(pair: PairResult, names: dict[str, str]) -> list[str]:
    (low, high), ahead, behind = pair.interval, pair.a, pair.b
    if pair.difference < 0:
        low, high, ahead, behind = 0.0 - high, 0.0 - low, pair.b, pair.a
    words = "is better than" if pair.significant else "and"
    return [
        f"{names[ahead]} {words} {names[behind]}" + ("" if pair.significant else f": {pair.verdict}"),
        f"{abs(pair.difference) * 100:z.1f}",
        f"[{low * 100:+z.1f}, {high * 100:+z.1f}]",
        f"{pair.p:.2g}",
        f"{pair.p_holm:.2g}",
        NOTHING if pair.detectable is None else f"{pair.detectable * 100:z.1f}",
    ]


def notes(comparison: Comparison) -> list[str]:
    """Warnings first, among them which runs read the gold; then what has to be said under every table of such runs."""
    marks = any(one.marks for one in comparison.runs)
    summaries = [one.summary for one in comparison.runs]
    said = [
        *deviation_lines(comparison),
        *comparison.warnings,
        *(note for note in footnotes(summaries) if note != ORACLE_NOTE),
        *effort_notes(summaries),
        *([f"▲ ▼: significantly better or worse than run {letter_of(0)}."] if marks else []),
    ]
    return list(dict.fromkeys(said))


def abstention_table(comparison: Comparison, letters: list[str]) -> Table | None:
    """Return how each run does on unanswerable questions; None where there are none and no run abstains."""
    rows = []
    for letter, one in zip(letters, comparison.runs, strict=True):
        metrics = one.summary.metrics
        if metrics.abstention is None and metrics.abstaining is None:
            continue
        said = metrics.abstaining
        shares = ("",) * 3 if said is None else abstaining_shares(said).values()
        counts = NOTHING if said is None else f"{said.abstained:,} ({said.right:,} rightly)"
        words = (share or NOTHING for share in shares)
        rows.append([letter, *_score_cells(metrics.abstention), *_score_cells(metrics.answerable)[:2], counts, *words])
    columns = ["run", "unanswerable", "95 % interval", "n", "answerable", "95 % interval", "abstained"]
    return Table("", [*columns, "precision", "recall", "F1"], rows) if rows else None


def _score_cells(score: Score | None) -> tuple[str, str, str]:
    return (NOTHING,) * 3 if score is None else (percent(score.accuracy), interval(score), f"{score.n:,}")


def agreement_tables(graded: list[Evaluation], letters: list[str]) -> list[Table]:
    """Return a table per run that several judges graded."""
    tables = []
    for letter, run in zip(letters, graded, strict=True):
        judges = [one.judge for one in run.files.metrics]
        for pair in judge_agreements(run.files, run.asked, judges):
            groups = {"overall": pair.agreement.overall, **pair.agreement.by_type}
            rows = [
                [
                    name,
                    NOTHING if one.agreed is None else percent(one.agreed),
                    NOTHING if one.kappa is None else f"{one.kappa:.2f}",
                    f"{one.n:,}",
                    f"{one.not_evaluated:,}",
                ]
                for name, one in groups.items()
            ]
            columns = ["", "same label", "Cohen's kappa", "n", "not evaluated by both"]
            disputed = f"{count_of(len(pair.agreement.disputed), 'question')} in dispute"
            tables.append(Table(f"{letter}: {pair.a} and {pair.b}, {disputed}", columns, rows))
    return tables


def repeats_table(comparison: Comparison, letters: list[str]) -> Table | None:
    """Spread of runs that were repeated; None where none were."""
    names = {one.summary.run_id: letter for letter, one in zip(letters, comparison.runs, strict=True)}
    rows = [
        [
            f"{', '.join(names[run_id] for run_id in group.run_ids)}: {group.name}",
            f"{group.spread.n:,}",
            percent(group.spread.mean),
            NOTHING if group.spread.sd is None else f"{group.spread.sd * 100:z.1f}",
            percent(group.spread.lowest),
            percent(group.spread.highest),
        ]
        for group in comparison.repeats
    ]
    return Table("", ["runs", "n", "mean", "sd, points", "lowest", "highest"], rows) if rows else None
