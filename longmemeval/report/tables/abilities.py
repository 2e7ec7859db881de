"""Runs on different benchmarks in one table, by the abilities their question types share. Nothing is compared."""

from collections.abc import Sequence

from longmemeval.evaluation.judges.standing import judge_name
from longmemeval.evaluation.metrics import Score
from longmemeval.evaluation.question_types import ABILITIES, OTHER
from longmemeval.pipeline.compare.graded_run import GradedRun
from longmemeval.report.tables.cells import apart, interval, percent
from longmemeval.report.tables.table import Table

ACROSS_NOTE = (
    "Figures of different data, judges or metrics do not compare: rows stand one under the other, no difference "
    "between them is tested."
)


def ability_table(graded: Sequence[GradedRun]) -> Table:
    """A row per run, a column per ability that any of them asks for; each cell with its interval and its count."""
    abilities = [name for name in (*ABILITIES, OTHER) if any(name in run.metrics.by_ability for run in graded)]
    rows = []
    for run in graded:
        metrics = run.metrics
        judge = f"{judge_name(metrics.judge)}\n{metrics.judge.metric}"
        cells = [_cell(metrics.by_ability.get(ability)) for ability in abilities]
        data = "\n".join([run.manifest.dataset["name"], *run.asked.part.split(", ", 1)]).strip()
        rows.append([metrics.run, data, judge, _cell(metrics.overall), *cells])
    columns = ["run", "data set", "judge", "overall", *(ability.replace("-", "-\n") for ability in abilities)]
    return Table(
        "By ability, across data sets",
        columns,
        rows,
        left=frozenset({0, 1, 2}),
        prose=frozenset({1, 2}),
        apart=apart([run.summary for run in graded]),
    )


def _cell(score: Score | None) -> str:
    return "-" if score is None else f"{percent(score.accuracy)}\n{interval(score)}\nn {score.n:,}"
