"""What `--dry-run` prints: one table of stages for every verb."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import structs

from longmemeval.cli.output import out, print_lines, print_table, printable
from longmemeval.core.text.plural import count_of
from longmemeval.report.tables.layout import fits, legend, lettered
from longmemeval.report.tables.table import Table

if TYPE_CHECKING:
    from longmemeval.pipeline.estimate.stages import StageEstimate
    from longmemeval.pipeline.evaluate.estimate import GradingEstimate
    from longmemeval.pipeline.prepare.prepare import PrepareReport
    from longmemeval.pipeline.prepare.timing import Duration
    from longmemeval.pipeline.run.estimate import RunEstimate
    from longmemeval.pipeline.run.sample_size import Amount, SampleSize
    from longmemeval.pipeline.sweep.estimate import PlannedRunEstimate, SweepEstimate

Rows = Sequence[tuple[Sequence[str], "StageEstimate"]]
"""Stages, each behind the first cells of its row."""


def show_stages(columns: Sequence[str], rows: Rows, *, of_runs: bool = False) -> None:
    """Print one row per stage, how to read the ranges, and where the expected replies are from.

    Args:
        columns: titles of the first cells.
        rows: the stages.
        of_runs: whether the first cell is a run, which gets a letter where the table is too wide.
    """
    first = len(columns)
    titles = [*columns, "calls", "prompt\ntokens", "reply\ntokens", "USD", "time", "known by"]
    cells = [[*before, *_cells(stage)] for before, stage in rows]
    text, last = frozenset({*range(2 if of_runs else 1), first + 5}), first + 5
    table = Table("", titles, cells, left=text, prose=text - {0} if of_runs else text, drop=(last,))
    called = {} if not of_runs or fits(table, out.width) else lettered([row[0] for row in cells if row[0]])
    print_table(structs.replace(table, rows=[[called.get(row[0], row[0]), *row[1:]] for row in cells]))
    stages = [stage for _, stage in rows if stage.work.calls is None or stage.work.calls]
    by_batch = dict.fromkeys(stage.name for stage in stages if stage.by_batch)
    bases: dict[str, dict[str, None]] = {}
    for stage in stages:
        bases.setdefault(stage.replies, {})[stage.name] = None
    print_lines(
        [
            *legend(called),
            *([RANGES] if stages else ()),
            *([BY_BATCH.format(", ".join(by_batch))] if by_batch else ()),
            *(printable(f"Expected replies, {', '.join(names)}: {basis}.") for basis, names in bases.items()),
        ]
    )


RANGES = "Ranges: from replies as expected to all as long as they may be; times are with replies as expected."
BY_BATCH = (
    "By batch, at the price of batches: {}. Providers answer a batch within 24 hours; it begins when all prompts are "
    "made."
)


def show_run(estimate: "RunEstimate", *, runs: int = 1) -> None:
    """Print what a run would take, stage by stage.

    Args:
        estimate: of one run.
        runs: how many there would be (--repeat).
    """
    from longmemeval.pipeline.prepare.disk import shown_bytes

    times = f", {runs} times" if runs > 1 else ""
    out.print(
        f"Would answer {estimate.left:,} of {count_of(estimate.questions, 'question')}{times}. Nothing was called."
    )
    if report := estimate.preparation:
        out.print(
            printable(f"First `longmemeval prepare`: {report.prepared:,} of {count_of(report.haystacks, 'haystack')}")
        )
        show_preparation(report)
    show_stages(["stage"], [([stage.name], stage) for stage in estimate.stages])
    disk = "-" if estimate.disk_bytes is None else f"about {shown_bytes(estimate.disk_bytes)}"
    print_lines([f"Disk of the run: {disk}.", *(f"Note: {note}." for note in estimate.notes)])


def show_sample_size(size: "SampleSize") -> None:
    """Print how many questions tell a difference from noise, what they take, and what that assumes."""
    points = f"{size.points:g} {'point' if size.points == 1 else 'points'}"
    if size.needed is None:
        first = f"To tell {points} from noise, two runs need more than ten million questions."
    else:
        first = f"To tell {points} from noise, two runs need {_amount(size.needed)}."
    there = size.available
    shows = "show no difference" if there.points >= 100 else f"show {there.points:.1f} points"
    lines = [first, f"The data has {count_of(there.questions, 'question')}, which {shows}."]
    if size.affordable:
        paid = size.affordable
        shows = "show no difference" if paid.points >= 100 else f"show {paid.points:.1f} points"
        lines.append(f"--max-cost pays for {count_of(paid.questions, 'question')} in each of two runs, which {shows}.")
    print_lines([*lines, "Assumed:", *(f"  {line}." for line in size.assumptions)])


def _amount(amount: "Amount") -> str:
    dollars = "cost unknown" if amount.dollars is None else f"${_range(*amount.dollars, ',.2f')}"
    time = "time unknown" if amount.seconds is None else shown_duration(amount.seconds)
    return f"{count_of(amount.questions, 'question')} each ({dollars} and {time} for each run)"


def show_preparation(report: "PrepareReport") -> None:
    """Print what a dry run of `prepare` found."""
    in_table = tuple(f"{stage.name}, " for stage in report.stages)
    for what, amount in report.estimate.items():
        if not what.startswith(in_table):
            out.print(f"  {what}: {amount:,.4g}" if amount < 1 else f"  {what}: {amount:,.0f}")
    if report.expected:
        took = report.expected
        computing = f"{shown_duration(took.processor_s)} of processor time; " if took.processor_s else ""
        out.print(printable(f"  time: {_duration(took)} ({computing}{took.basis})"))
    if report.stages:
        show_stages(["stage"], [([stage.name], stage) for stage in report.stages])


def show_grading(estimate: "GradingEstimate") -> None:
    """Print what grading a run would take, judge by judge."""
    out.print(
        printable(
            f"Would grade run {estimate.run}: {estimate.answered:,} of {count_of(estimate.questions, 'question')} have "
            "an answer. Nothing was called."
        )
    )
    rows = [([one.stage.name, f"{one.labelled:,}", f"{one.left:,}"], one.stage) for one in estimate.judges]
    show_stages(["stage", "labels\nthere", "to\nlabel"], rows)
    print_lines([printable(f"Note: {note}.") for note in estimate.notes])


def show_sweep(estimate: "SweepEstimate", planned: int) -> None:
    """Print what is left to do of a sweep, run by run and in all."""
    from longmemeval.pipeline.sweep.estimate import totals_line

    preparation = estimate.preparation
    out.print(f"{count_of(planned, 'run')}: {estimate.complete} complete, {len(estimate.runs)} left.")
    if preparation.prepared:
        out.print(printable(f"To prepare: {preparation.prepared} of {preparation.haystacks} haystacks"))
        show_preparation(preparation)
    if estimate.runs:
        show_stages(["run", "to do"], [row for run in estimate.runs for row in _rows(run)], of_runs=True)
    print_lines([totals_line(estimate), *(f"Note: {note}." for note in estimate.notes)])


def _rows(run: "PlannedRunEstimate") -> Rows:
    """Questions that are asked about first, the answers of a run, and each judge that is a chat model."""
    first = [(run.questions.name, run.questions)] if run.questions else []
    judges = [(stage.name, stage) for stage in run.judging if stage.work.calls]
    named = [*first, (count_of(run.questions_left, "answer"), run.answering), *judges]
    return [((run.run_id if not place else "", name), stage) for place, (name, stage) in enumerate(named)]


def _cells(stage: "StageEstimate") -> list[str]:
    """Return calls, prompt tokens, reply tokens, dollars, time and basis of a stage."""
    work = stage.work
    time = "-" if stage.seconds is None else shown_duration(stage.seconds)
    return [
        "-" if work.calls is None else f"{work.calls:,}",
        "-" if work.prompt_tokens is None else _range(work.least_prompt_tokens, work.most_prompt_tokens, ",.0f"),
        _range(stage.reply_tokens, work.completion_tokens, ",.0f"),
        _range(stage.dollars, work.dollars, ",.4f"),
        f"≤ {time}" if stage.by_batch else time,
        work.basis,
    ]


def _duration(took: "Duration") -> str:
    """Return `unknown`, `about 5 min`, or with its range `about 5 min, from 2 min to 14 min`."""
    if took.seconds is None or took.least_seconds is None or took.most_seconds is None:
        return "unknown"
    shown, low, high = map(shown_duration, (took.seconds, took.least_seconds, took.most_seconds))
    return f"about {shown}" if low == high else f"about {shown}, from {low} to {high}"


def _range(low: float | None, high: float | None, form: str) -> str:
    if low is None or high is None:
        return "-"
    least, most = format(low, form), format(high, form)
    return least if least == most else f"{least} to {most}"


def shown_duration(seconds: float) -> str:
    """`12 s`, `5 min`, `3.1 h`."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
