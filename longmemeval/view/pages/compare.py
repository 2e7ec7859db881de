"""The comparison: `/compare?run=A&run=B&baseline=A&judge=J`, its pictures under `/compare/pictures?…`."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from longmemeval.core.tables.table import Link, Table
from longmemeval.core.text.figures import UNKNOWN, bounds, count, in_percent, milliseconds, signed
from longmemeval.core.text.figures import signed_bounds as signed_interval
from longmemeval.errors import HarnessError
from longmemeval.pipeline.compare.comparable import setting_differences, settings_side_by_side
from longmemeval.pipeline.compare.comparison import Comparison, PairResult, RunFigures
from longmemeval.pipeline.compare.digest import CAUSES
from longmemeval.report.charts import of_comparison as charts
from longmemeval.report.charts.charts import Chart
from longmemeval.report.charts.palette import Shown
from longmemeval.report.charts.svg import need_report_libraries
from longmemeval.report.page.summary import shown_in
from longmemeval.report.tables.cells import cost_text, warned
from longmemeval.report.tables.comparison import (
    comparison_notes,
    comparison_tables,
    digest_table,
    outcome,
    question_count,
    shown_recall,
)
from longmemeval.view.answers import page, problem
from longmemeval.view.choice import Choice
from longmemeval.view.question.gather import WHY_LOST
from longmemeval.view.site import Site, site_of


class Interval(Struct, frozen=True):
    """A score and its interval on the axis of the table, in hundredths of its width."""

    low: float
    high: float
    score: float


class RunRow(Struct, frozen=True):
    """One run in the table, its figures as they are printed."""

    run: str
    shown: Shown
    model: str
    remarks: str
    score: str
    interval: str
    drawn: Interval
    tokens: str
    tokens_share: float
    """Of the run with the most, in hundredths."""
    cost: str
    preparing: str
    """Of the cost."""
    latency: str
    recall: str
    marks: str
    difference: str
    against: str
    """The interval of the difference."""
    won: int
    lost: int
    unchanged: int


def show(request: Request) -> Response:
    """Answer with the verdict, the table, and what the figures rest on."""
    site = site_of(request)
    choice = site.choice(request)
    if not choice.runs:
        return problem(request, 404, "No run is graded yet", "`longmemeval evaluate RUN` grades one")
    judges = _judges(site, choice)
    try:
        comparison = site.opened.comparison(choice)
    except HarnessError as error:
        return page(request, "refused.html.j2", choice, 409, error=error, judges=judges)
    shown = shown_in(comparison)
    rows = _rows(comparison, shown)
    first, *tables = comparison_tables(comparison, pairs=False)
    differing = setting_differences(comparison.evaluations)
    return page(
        request,
        "compare.html.j2",
        choice,
        comparison=comparison,
        title=f"{question_count(comparison)} of {comparison.dataset}, {len(rows)} runs",
        judged=first.title,
        baseline=comparison.runs[0].summary.run_id,
        rows=sorted(rows, key=lambda one: (one.shown.look.colour == 0, -one.drawn.score)),
        axis=_axis(comparison),
        judges=judges,
        reader_differs=differing,
        settings=settings_side_by_side(comparison.evaluations),
        columns=shown,
        matrix=_matrix(comparison),
        digest=_digest(comparison, choice),
        tables=tables,
        notes=list(comparison_notes(comparison)),
    )


def _judges(site: Site, choice: Choice) -> list[str]:
    """Return the ids of the judges that have graded all of the runs."""
    found = [{path.stem for path in (site.where.results_dir / run / "metrics").glob("*.json")} for run in choice.runs]
    return sorted(set[str].intersection(*found)) if found else []


def _rows(comparison: Comparison, shown: Sequence[Shown]) -> list[RunRow]:
    most = max((one.summary.mean_prompt_tokens or 0 for one in comparison.runs), default=0) or 1
    low, high = _range(comparison)
    against = comparison.from_baseline

    def place(value: float) -> float:
        return round(100 * (value - low) / (high - low), 2)

    def row(number: int, one: RunFigures, run: Shown) -> RunRow:
        summary, overall = one.summary, one.summary.metrics.overall
        outcomes = [outcome(question, number) for question in comparison.questions]
        pair, tokens, costs = against.get(summary.run_id), summary.mean_prompt_tokens, summary.costs
        won, lost = outcomes.count("won"), outcomes.count("lost")
        remarks = ["control"] if summary.control else []
        remarks += ["reads gold"] if summary.reads_gold else []
        remarks += [summary.status] if summary.status != "completed" else []
        remarks += [f"{overall.not_evaluated:,} not evaluated"] if overall.not_evaluated else []
        return RunRow(
            run=summary.run_id,
            shown=run,
            model=summary.model,
            remarks=", ".join(remarks),
            score=in_percent(overall.accuracy) + warned(summary),
            interval=bounds(overall.interval),
            drawn=Interval(place(overall.interval[0]), place(overall.interval[1]), place(overall.accuracy)),
            tokens=count(tokens),
            tokens_share=round(100 * (tokens or 0) / most, 2),
            cost=cost_text(costs.total),
            preparing=cost_text(costs.prepare),
            latency=milliseconds(summary.latency.total.p50),
            recall=shown_recall(one),
            marks=one.marks,
            difference=_difference(pair),
            against=signed_interval(pair.interval) if pair else "",
            won=won,
            lost=lost,
            unchanged=len(outcomes) - won - lost,
        )

    return [row(number, one, run) for number, (one, run) in enumerate(zip(comparison.runs, shown, strict=True))]


def _digest(comparison: Comparison, choice: Choice) -> Table:
    """Return why questions were lost: causes and examples in words, which lead to the question."""
    table, lost_by = digest_table(comparison.digest), comparison.digest.run
    example = table.headings.index("example")
    texts = comparison.evaluations[0].asked.questions

    causes = {shown: WHY_LOST[stage] for stage, shown in CAUSES.items()}

    def linked(row: list[str]) -> list[str]:
        cause, *row = row
        row = [causes.get(cause, WHY_LOST.get(cause, cause)), *row]
        address = choice.address("/question", {"q": row[example], "shown": lost_by})
        return [*row[:example], Link(texts[row[example]].text, address), *row[example + 1 :]]

    return replace(table, rows=[linked(row) for row in table.rows])


def _difference(pair: PairResult | None) -> str:
    if pair is None:
        return ""
    words = ("better" if pair.difference > 0 else "worse") if pair.significant else "not shown"
    return f"{signed(pair.difference)} {words}"


def _range(comparison: Comparison) -> tuple[float, float]:
    """Return an axis that all intervals fit on, in whole tens of percent."""
    ends = [end for one in comparison.runs for end in one.summary.metrics.overall.interval]
    return int(min(ends) * 10) / 10, min(1.0, (int(max(ends) * 10 - 1e-9) + 1) / 10)


def _axis(comparison: Comparison) -> list[tuple[float, str]]:
    """Return the place and the label of each line of the axis."""
    low, high = _range(comparison)
    steps = round((high - low) * 10)
    every = 1 if steps <= 5 else 2
    return [(round(100 * step / steps, 2), f"{round((low + step / 10) * 100)}") for step in range(0, steps + 1, every)]


def _matrix(comparison: Comparison) -> list[list[tuple[str, str, str]]]:
    """Return, for each run and each other, the difference, what it means in words, and a class."""
    found = comparison.both_ways
    ids = [one.summary.run_id for one in comparison.runs]

    def cell(a: str, b: str) -> tuple[str, str, str]:
        pair = found.get((a, b))
        if pair is None:
            return UNKNOWN, "", "self"
        words = f"{a} against {b}: {signed(pair.difference)} points {signed_interval(pair.interval)}, "
        words += f"p after Holm {pair.p_holm:.2g}, {pair.verdict}"
        kind = ("ahead" if pair.difference > 0 else "behind") if pair.significant else "noise"
        return signed(pair.difference), words, kind

    return [[cell(a, b) for b in ids] for a in ids]


def pictures(request: Request) -> Response:
    """Answer with the pictures of a comparison, as a page of their own; scripts put its content into the first one."""
    site = site_of(request)
    choice = site.choice(request)
    try:
        need_report_libraries("A picture")
    except HarnessError as error:
        return page(request, "pictures.html.j2", choice, charts=[], missing=f"{error.what}. {error.fix}.")
    comparison = site.opened.comparison(choice)
    return page(
        request, "pictures.html.j2", choice, charts=site.opened.of(comparison, choice, _charts, "charts"), missing=""
    )


def _charts(comparison: Comparison) -> list[Chart]:
    shown = shown_in(comparison)
    types = charts.group_chart("types", "By question type", comparison, shown, lambda one: one.by_type)
    abilities = charts.group_chart("abilities", "By ability", comparison, shown, lambda one: one.by_ability)
    return [*charts.tradeoff_charts(comparison, shown), *filter(None, [types, abilities])]


routes: list[BaseRoute] = [Route("/compare", show), Route("/compare/pictures", pictures)]
