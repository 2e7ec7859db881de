"""What `--dry-run` prints of a run."""

from typing import TYPE_CHECKING

from longmemeval.cli.output import out, print_lines, print_table, printable
from longmemeval.report.tables.table import Table
from longmemeval.text.plural import count_of

if TYPE_CHECKING:
    from longmemeval.pipeline.estimate.forecast import Forecast, Stage


def show_forecast(forecast: "Forecast", *, runs: int = 1) -> None:
    """Print what a run would take, stage by stage.

    Args:
        forecast: of one run.
        runs: how many there would be (--repeat).
    """
    from longmemeval.pipeline.fixtures.disk import shown_bytes

    times = f", {runs} times" if runs > 1 else ""
    out.print(
        f"Would answer {forecast.left:,} of {count_of(forecast.questions, 'question')}{times}. Nothing was called."
    )
    if report := forecast.preparation:
        out.print(
            printable(f"First `longmemeval prepare`: {report.prepared:,} of {count_of(report.haystacks, 'haystack')}")
        )
        for what, amount in report.estimate.items():
            out.print(f"  {what}: {amount:,.4g}" if amount < 1 else f"  {what}: {amount:,.0f}")
    columns = ["stage", "calls", "prompt\ntokens", "reply\ntokens", "USD", "time", "known by"]
    rows = [_row(stage) for stage in forecast.stages]
    print_table(Table("", columns, rows, left=frozenset({0, 6}), prose=frozenset({0, 6}), drop=(6,)))
    disk = "-" if forecast.disk_bytes is None else f"about {shown_bytes(forecast.disk_bytes)}"
    print_lines(
        [
            "Ranges: from replies as expected to all as long as they may be; times are with replies as expected.",
            f"Expected replies: {forecast.replies}. Disk of the run: {disk}.",
            *(f"Note: {note}." for note in forecast.notes),
        ]
    )


def _row(stage: "Stage") -> list[str]:
    work = stage.work
    return [
        stage.name,
        _count(work.calls),
        _count(work.prompt_tokens),
        _range(stage.reply_tokens, work.completion_tokens, ",.0f"),
        _range(stage.dollars, work.dollars, ",.4f"),
        "-" if stage.seconds is None else _duration(stage.seconds),
        work.basis,
    ]


def _count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _range(low: float | None, high: float | None, form: str) -> str:
    if low is None or high is None:
        return "-"
    least, most = format(low, form), format(high, form)
    return least if least == most else f"{least} to {most}"


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
