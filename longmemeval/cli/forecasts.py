"""What `--dry-run` prints of runs and of grading."""

from collections.abc import Collection
from typing import TYPE_CHECKING

from longmemeval.cli.output import out, print_lines, print_table, printable
from longmemeval.core.text.plural import count_of
from longmemeval.report.tables.table import Table

if TYPE_CHECKING:
    from longmemeval.pipeline.estimate.forecast import Forecast
    from longmemeval.pipeline.estimate.grading import GradingForecast
    from longmemeval.pipeline.estimate.sample_size import Amount, SampleSize
    from longmemeval.pipeline.estimate.stages import Stage
    from longmemeval.pipeline.prepare.prepare import PrepareReport


RANGES = "Ranges: from replies as expected to all as long as they may be; times are with replies as expected."


def show_forecast(forecast: "Forecast", *, runs: int = 1) -> None:
    """Print what a run would take, stage by stage.

    Args:
        forecast: of one run.
        runs: how many there would be (--repeat).
    """
    from longmemeval.pipeline.prepare.forecast.disk import shown_bytes

    times = f", {runs} times" if runs > 1 else ""
    out.print(
        f"Would answer {forecast.left:,} of {count_of(forecast.questions, 'question')}{times}. Nothing was called."
    )
    if report := forecast.preparation:
        out.print(
            printable(f"First `longmemeval prepare`: {report.prepared:,} of {count_of(report.haystacks, 'haystack')}")
        )
        show_preparation(report)
    print_table(_table([stage_cells(stage, forecast.batch) for stage in forecast.stages]))
    disk = "-" if forecast.disk_bytes is None else f"about {shown_bytes(forecast.disk_bytes)}"
    print_lines(
        [
            *_how_to_read(forecast.batch),
            f"Expected replies: {forecast.replies}. Disk of the run: {disk}.",
            *(f"Note: {note}." for note in forecast.notes),
        ]
    )


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
    """Print the figures of a dry run of `prepare`."""
    for what, amount in report.estimate.items():
        shown = f"{amount:,.4g}" if amount < 1 else f"{amount:,.2f}" if "USD" in what else f"{amount:,.0f}"
        out.print(f"  {what}: {shown}")
    if report.expected:
        took = report.expected
        time = "unknown" if took.seconds is None else f"about {shown_duration(took.seconds)}"
        computing = f"{shown_duration(took.processor_s)} of processor time; " if took.processor_s else ""
        out.print(printable(f"  time: {time} ({computing}{took.basis})"))


def show_grading(forecast: "GradingForecast") -> None:
    """Print what grading a run would take, judge by judge."""
    out.print(
        printable(
            f"Would grade run {forecast.run}: {forecast.answered:,} of {count_of(forecast.questions, 'question')} have "
            "an answer. Nothing was called."
        )
    )
    rows = [
        [one.stage.name, f"{one.labelled:,}", f"{one.left:,}", *stage_cells(one.stage, forecast.batch)[1:]]
        for one in forecast.judges
    ]
    print_table(_table(rows, "labels\nthere", "to\nlabel"))
    expected = [f"{one.stage.name}: {one.replies}" for one in forecast.judges if one.stage.work.calls]
    print_lines(
        [
            *(_how_to_read(forecast.batch) if expected else ()),
            *(printable(f"Expected replies, {line}.") for line in expected),
            *(printable(f"Note: {note}.") for note in forecast.notes),
        ]
    )


def _table(rows: list[list[str]], *counts: str) -> Table:
    """Return one row per stage; `counts` are columns behind its name."""
    columns = ["stage", *counts, "calls", "prompt\ntokens", "reply\ntokens", "USD", "time", "known by"]
    last = len(columns) - 1
    return Table("", columns, rows, left=frozenset({0, last}), prose=frozenset({0, last}), drop=(last,))


def _how_to_read(batch: Collection[str]) -> list[str]:
    lines = [RANGES]
    if batch:
        lines.append(
            f"By batch, at the price of batches: {', '.join(batch)}. Providers answer a batch within 24 hours; it "
            "begins when all prompts are made."
        )
    return lines


def stage_cells(stage: "Stage", batch: Collection[str] = ()) -> list[str]:
    """Name, calls, prompt tokens, reply tokens, dollars, time and basis of a stage."""
    work = stage.work
    time = "-" if stage.seconds is None else shown_duration(stage.seconds)
    return [
        stage.name,
        _count(work.calls),
        "-" if work.prompt_tokens is None else _range(work.least_prompt_tokens, work.most_prompt_tokens, ",.0f"),
        _range(stage.reply_tokens, work.completion_tokens, ",.0f"),
        _range(stage.dollars, work.dollars, ",.4f"),
        f"≤ {time}" if stage.name in batch else time,
        work.basis,
    ]


def _count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


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
