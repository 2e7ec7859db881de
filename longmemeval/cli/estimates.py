"""Print what `--dry-run` estimates: one table of stages for every verb."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from longmemeval.cli.output import out, print_lines, print_table, printable
from longmemeval.core.tables.table import Column, Record, tabulate
from longmemeval.core.text.figures import UNKNOWN, count, count_of, duration, in_dollars, shown_bytes, span

if TYPE_CHECKING:
    from longmemeval.pipeline.estimate.stages import Calls, Stage
    from longmemeval.pipeline.evaluate.estimate import GradingEstimate, JudgeEstimate
    from longmemeval.pipeline.prepare.prepare import PrepareReport
    from longmemeval.pipeline.prepare.timing import Duration
    from longmemeval.pipeline.run.estimate import RunEstimate
    from longmemeval.pipeline.run.sample_size import Amount, SampleSize
    from longmemeval.pipeline.sweep.estimate import PlannedRunEstimate, SweepEstimate


def show_stages(stages: "Sequence[Stage]") -> None:
    """Print one row per stage, a note on the ranges, and the basis of the expected replies."""
    _show([Column("stage", lambda stage: stage.name, "prose")], stages, lambda stage: stage)


def _show(
    leading: "list[Column[Record]]",
    rows: "Sequence[Record]",
    stage_of: "Callable[[Record], Stage]",
) -> None:
    """Print the table of all estimates: a row for each stage, and below it what its figures are.

    Args:
        leading: the columns before those of the stage.
        rows: the stages with what the leading columns say of them.
        stage_of: returns the stage of a row.
    """
    print_table(tabulate("", [*leading, *_columns(stage_of)], rows))
    stages = [stage for stage in map(stage_of, rows) if stage.work.calls is None or stage.work.calls]
    by_batch = dict.fromkeys(stage.name for stage in stages if stage.by_batch)
    bases: dict[str, dict[str, None]] = {}
    for stage in stages:
        bases.setdefault(stage.replies, {})[stage.name] = None
    print_lines(
        [
            *([RANGES] if stages else ()),
            *([BY_BATCH.format(", ".join(by_batch))] if by_batch else ()),
            *(printable(f"Expected replies, {', '.join(names_of)}: {basis}.") for basis, names_of in bases.items()),
        ]
    )


def _columns(stage_of: "Callable[[Record], Stage]") -> "list[Column[Record]]":
    """Return columns for calls, prompt tokens, reply tokens, dollars, time and basis of a row's stage."""
    return [
        Column("calls", lambda row: stage_of(row).work.calls),
        Column("prompt\ntokens", lambda row: _prompts(stage_of(row).work)),
        Column(
            "reply\ntokens", lambda row: span(stage_of(row).reply_tokens, stage_of(row).work.completion_tokens, count)
        ),
        Column("cost", lambda row: span(stage_of(row).dollars, stage_of(row).work.dollars, in_dollars)),
        Column("time", lambda row: ("≤ " if stage_of(row).by_batch else "") + duration(stage_of(row).seconds)),
        Column("basis", lambda row: stage_of(row).work.basis, "prose", drop=1),
    ]


def _prompts(work: "Calls") -> str:
    return UNKNOWN if work.prompt_tokens is None else span(work.least_prompt_tokens, work.most_prompt_tokens, count)


RANGES = "Ranges: from expected replies to replies of maximum length; times assume expected replies."
BY_BATCH = (
    "By batch, at batch prices: {}. Providers answer a batch within 24 hours; it starts when all prompts are ready."
)


def show_run(estimate: "RunEstimate", *, runs: int = 1) -> None:
    """Print the estimate of a run, stage by stage.

    Args:
        estimate: the estimate of one run.
        runs: number of runs (--repeat).
    """
    times = f", {runs} times" if runs > 1 else ""
    print_lines(_too_long(estimate.stages))
    work = "answer" if estimate.stages else "rank the items found for"
    out.print(
        f"Would {work} {estimate.left:,} of {count_of(estimate.questions, 'question')}{times}. "
        "Dry run: no model was called."
    )
    if report := estimate.preparation:
        out.print(
            printable(f"First `longmemeval prepare`: {report.prepared:,} of {count_of(report.haystacks, 'haystack')}")
        )
        show_preparation(report)
    if estimate.stages:
        show_stages(estimate.stages)
        disk = UNKNOWN if estimate.disk_bytes is None else f"about {shown_bytes(estimate.disk_bytes)}"
        out.print(f"Disk space of the run: {disk}.")
    if estimate.measured_by:
        known = any(stage.work.bounded for stage in estimate.stages)
        prompts = "range from no message to the whole history or the budget" if known else "are not known yet"
        out.print(f"Before prepare, the prompts of answers {prompts}. To measure some, prepare them and rerun this.")
        out.next((estimate.measured_by, "prepare a few histories"))
    print_lines(f"Note: {note}." for note in estimate.notes)


def _too_long(stages: "Sequence[Stage]", of: str = "") -> list[str]:
    """Return a sentence for each stage that has prompts which exceed the context window."""
    return [
        printable(
            f"Does not fit the context window of {stage.work.model}: {stage.work.too_long:,} of "
            f"{count_of(stage.work.counted, 'prompt')}{of}. These questions would fail. Use a larger "
            "--context-window, a smaller --budget, or --on-overflow drop-oldest."
        )
        for stage in stages
        if stage.work.too_long
    ]


def show_sample_size(size: "SampleSize") -> None:
    """Print how many questions tell a difference from noise, their cost, and the assumptions."""
    points = f"{size.points:g} {'point' if size.points == 1 else 'points'}"
    if size.needed is None:
        first = f"80% power to detect {points} needs more than ten million questions in each of two runs."
    else:
        first = f"80% power to detect {points} needs two runs of {_amount(size.needed)}."
    available = size.available
    shows = "show no difference" if available.points >= 100 else f"show {available.points:.1f} points"
    lines = [first, f"The data has {count_of(available.questions, 'question')}, which {shows}."]
    if size.affordable:
        affordable = size.affordable
        shows = "show no difference" if affordable.points >= 100 else f"show {affordable.points:.1f} points"
        lines.append(
            f"--max-cost pays for {count_of(affordable.questions, 'question')} in each of two runs, which {shows}."
        )
    print_lines([*lines, "Assumed:", *(f"  {line}." for line in size.assumptions)])


def _amount(amount: "Amount") -> str:
    cost = "cost unknown" if amount.dollars is None else span(*amount.dollars, in_dollars)
    time = "time unknown" if amount.seconds is None else duration(amount.seconds)
    return f"{count_of(amount.questions, 'question')} each ({cost} and {time} for each run)"


def show_preparation(report: "PrepareReport") -> None:
    """Print the estimate of a dry run of `prepare`."""
    in_table = tuple(f"{stage.name}, " for stage in report.stages)
    for what, amount in report.estimate.items():
        if not what.startswith(in_table):
            out.print(f"  {what}: {amount:,.4g}" if amount < 1 else f"  {what}: {amount:,.0f}")
    if report.expected:
        expected = report.expected
        computing = f"{duration(expected.processor_s)} of processor time; " if expected.processor_s else ""
        out.print(printable(f"  time: {_duration(expected)} ({computing}{expected.basis})"))
    if report.stages:
        show_stages(report.stages)


def show_grading(estimate: "GradingEstimate") -> None:
    """Print the estimate of grading a run, judge by judge."""
    out.print(
        printable(
            f"Would grade run {estimate.run}: {estimate.answered:,} of {count_of(estimate.questions, 'question')} have "
            "an answer. Dry run: no model was called."
        )
    )
    columns: list[Column[JudgeEstimate]] = [
        Column("stage", lambda row: row.stage.name, "prose"),
        Column("labelled", lambda row: row.labelled),
        Column("to\nlabel", lambda row: row.left),
    ]
    _show(columns, estimate.judges, lambda row: row.stage)
    print_lines([printable(f"Note: {note}.") for note in estimate.notes])


def show_sweep(estimate: "SweepEstimate", planned: int) -> None:
    """Print the remaining work of a sweep, by run and in total."""
    from longmemeval.pipeline.sweep.estimate import totals_line

    names = {run.run_id: run.name for run in estimate.runs}
    print_lines(line for run in estimate.runs for line in _too_long([run.answering], f" in {names[run.run_id]}"))
    out.print(f"{count_of(planned, 'run')}: {estimate.complete} complete, {len(estimate.runs)} left.")
    print_lines(line for line in (estimate.planning, estimate.budget) if line)
    for preparation in estimate.preparations:
        if preparation.prepared:
            name = f" in {preparation.folder}" if estimate.more_preparations else ""
            out.print(printable(f"To prepare: {preparation.prepared} of {preparation.haystacks} haystacks{name}"))
            show_preparation(preparation)
    if estimate.runs:
        columns: list[Column[_RunStage]] = [
            Column("run", lambda row: row.name, "text"),
            Column("to do", lambda row: row.to_do, "prose"),
        ]
        rows = [row for run in estimate.runs for row in _rows(run)]
        _show(columns, rows, lambda row: row.stage)
    print_lines([totals_line(estimate), *(f"Note: {note}." for note in estimate.notes)])


class _RunStage(Struct, frozen=True):
    name: str
    """Name of the run; empty below its first row."""
    to_do: str
    stage: "Stage"


def _rows(run: "PlannedRunEstimate") -> list[_RunStage]:
    """Return the rows of a run: analysing its questions, answering them, and each judge that is a chat model."""
    first = [(run.questions.name, run.questions)] if run.questions else []
    judges = [(stage.name, stage) for stage in run.judging if stage.work.calls]
    named = [*first, (count_of(run.questions_left, "answer"), run.answering), *judges]
    return [_RunStage("" if place else run.name, *pair) for place, pair in enumerate(named)]


def _duration(expected: "Duration") -> str:
    """Return `unknown`, `about 5 min`, or with its range `about 5 min, from 2 min to 14 min`."""
    if expected.seconds is None or expected.least_seconds is None or expected.most_seconds is None:
        return "unknown"
    shown, low, high = map(duration, (expected.seconds, expected.least_seconds, expected.most_seconds))
    return f"about {shown}" if low == high else f"about {shown}, from {low} to {high}"
