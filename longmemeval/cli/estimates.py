"""What `--dry-run` prints: one table of stages for every verb."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import Struct

from longmemeval.cli.output import out, print_lines, print_table, printable
from longmemeval.core.tables.layout import fits, legend, lettered
from longmemeval.core.tables.table import Column, Record, Table, tabulate
from longmemeval.core.text.figures import UNKNOWN, count, count_of, duration, in_dollars, shown_bytes, span

if TYPE_CHECKING:
    from longmemeval.pipeline.estimate.calls import CallEstimate
    from longmemeval.pipeline.estimate.stages import StageEstimate
    from longmemeval.pipeline.evaluate.estimate import GradingEstimate, JudgeEstimate
    from longmemeval.pipeline.prepare.prepare import PrepareReport
    from longmemeval.pipeline.prepare.timing import Duration
    from longmemeval.pipeline.run.estimate import RunEstimate
    from longmemeval.pipeline.run.sample_size import Amount, SampleSize
    from longmemeval.pipeline.sweep.estimate import PlannedRunEstimate, SweepEstimate


def show_stages(stages: "Sequence[StageEstimate]") -> None:
    """Print one row per stage, how to read the ranges, and where the expected replies are from."""
    columns: list[Column[StageEstimate]] = [Column("stage", lambda stage: stage.name, "prose")]
    _show(tabulate("", [*columns, *_columns(lambda stage: stage)], stages), stages)


def _columns(stage_of: "Callable[[Record], StageEstimate]") -> "list[Column[Record]]":
    """Return calls, prompt tokens, reply tokens, dollars, time and basis of the stage of a row."""
    return [
        Column("calls", lambda row: stage_of(row).work.calls),
        Column("prompt\ntokens", lambda row: _prompts(stage_of(row).work)),
        Column(
            "reply\ntokens", lambda row: span(stage_of(row).reply_tokens, stage_of(row).work.completion_tokens, count)
        ),
        Column("cost", lambda row: span(stage_of(row).dollars, stage_of(row).work.dollars, in_dollars)),
        Column("time", lambda row: ("≤ " if stage_of(row).by_batch else "") + duration(stage_of(row).seconds)),
        Column("known by", lambda row: stage_of(row).work.basis, "prose", drop=1),
    ]


def _prompts(work: "CallEstimate") -> str:
    return UNKNOWN if work.prompt_tokens is None else span(work.least_prompt_tokens, work.most_prompt_tokens, count)


def _show(table: Table, rows: "Sequence[StageEstimate]", called: Mapping[str, str] = MappingProxyType({})) -> None:
    print_table(table)
    stages = [stage for stage in rows if stage.work.calls is None or stage.work.calls]
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
    times = f", {runs} times" if runs > 1 else ""
    does = "answer" if estimate.stages else "rank what is found for"
    out.print(
        f"Would {does} {estimate.left:,} of {count_of(estimate.questions, 'question')}{times}. Nothing was called."
    )
    if report := estimate.preparation:
        out.print(
            printable(f"First `longmemeval prepare`: {report.prepared:,} of {count_of(report.haystacks, 'haystack')}")
        )
        show_preparation(report)
    if estimate.stages:
        show_stages(estimate.stages)
        disk = UNKNOWN if estimate.disk_bytes is None else f"about {shown_bytes(estimate.disk_bytes)}"
        out.print(f"Disk of the run: {disk}.")
    print_lines(f"Note: {note}." for note in estimate.notes)


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
    cost = "cost unknown" if amount.dollars is None else span(*amount.dollars, in_dollars)
    time = "time unknown" if amount.seconds is None else duration(amount.seconds)
    return f"{count_of(amount.questions, 'question')} each ({cost} and {time} for each run)"


def show_preparation(report: "PrepareReport") -> None:
    """Print what a dry run of `prepare` found."""
    in_table = tuple(f"{stage.name}, " for stage in report.stages)
    for what, amount in report.estimate.items():
        if not what.startswith(in_table):
            out.print(f"  {what}: {amount:,.4g}" if amount < 1 else f"  {what}: {amount:,.0f}")
    if report.expected:
        took = report.expected
        computing = f"{duration(took.processor_s)} of processor time; " if took.processor_s else ""
        out.print(printable(f"  time: {_duration(took)} ({computing}{took.basis})"))
    if report.stages:
        show_stages(report.stages)


def show_grading(estimate: "GradingEstimate") -> None:
    """Print what grading a run would take, judge by judge."""
    out.print(
        printable(
            f"Would grade run {estimate.run}: {estimate.answered:,} of {count_of(estimate.questions, 'question')} have "
            "an answer. Nothing was called."
        )
    )
    columns: list[Column[JudgeEstimate]] = [
        Column("stage", lambda one: one.stage.name, "prose"),
        Column("labels\nthere", lambda one: one.labelled),
        Column("to\nlabel", lambda one: one.left),
        *_columns(lambda one: one.stage),
    ]
    _show(tabulate("", columns, estimate.judges), [one.stage for one in estimate.judges])
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
        columns: list[Column[_RunStage]] = [
            Column("run", lambda row: row.run_id, "text"),
            Column("to do", lambda row: row.to_do, "prose"),
            *_columns(lambda row: row.stage),
        ]
        rows = [row for run in estimate.runs for row in _rows(run)]
        table = tabulate("", columns, rows)
        called = {} if fits(table, out.width) else lettered([run.run_id for run in estimate.runs])
        _show(table.named(called), [row.stage for row in rows], called)
    print_lines([totals_line(estimate), *(f"Note: {note}." for note in estimate.notes)])


class _RunStage(Struct, frozen=True):
    run_id: str
    """Empty below the first row of a run."""
    to_do: str
    stage: "StageEstimate"


def _rows(run: "PlannedRunEstimate") -> list[_RunStage]:
    """Questions that are asked about first, the answers of a run, and each judge that is a chat model."""
    first = [(run.questions.name, run.questions)] if run.questions else []
    judges = [(stage.name, stage) for stage in run.judging if stage.work.calls]
    named = [*first, (count_of(run.questions_left, "answer"), run.answering), *judges]
    return [_RunStage("" if place else run.run_id, *one) for place, one in enumerate(named)]


def _duration(took: "Duration") -> str:
    """Return `unknown`, `about 5 min`, or with its range `about 5 min, from 2 min to 14 min`."""
    if took.seconds is None or took.least_seconds is None or took.most_seconds is None:
        return "unknown"
    shown, low, high = map(duration, (took.seconds, took.least_seconds, took.most_seconds))
    return f"about {shown}" if low == high else f"about {shown}, from {low} to {high}"
