"""Pack the questions of several runs into little space: a row per question, a column per run, a character per cell."""

from collections.abc import Sequence

from msgspec import Struct

from longmemeval.measures.losses import cause_of
from longmemeval.pipeline.compare.comparison import Comparison
from longmemeval.report.charts.svg import shown_runs
from longmemeval.report.page.summary import among
from longmemeval.results.graded.graded_run import Evaluation
from longmemeval.results.graded.losses import disputed

RIGHT, WRONG, PART, NONE = "1", "0", "p", "-"
"""Full credit, no credit, partial credit, and not evaluated."""
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
EVIDENCE_FOUND = ("in the prompt", "disputed")
"""Stages of questions answered wrongly although all evidence was in the prompt."""


class Column(Struct, frozen=True):
    """One run of the matrix."""

    id: str
    name: str
    colour: int
    path: str
    """SVG path of the run's shape, in a square from -6 to 6."""
    hatched: bool
    labels: str
    """One of `RIGHT`, `WRONG`, `PART` and `NONE` for each question."""
    stages: str
    """The letter of the stage at which each question was lost, else a space."""
    disputed: str
    """`1` for each question on whose answer the run's judges disagree, else `0`."""


class Matrix(Struct, frozen=True):
    """All questions of a choice of runs, in the order of the data."""

    runs: tuple[Column, ...]
    """The runs, the baseline first."""
    ids: tuple[str, ...]
    texts: tuple[str, ...]
    types: tuple[int, ...]
    """Index of each question's type in `type_names`."""
    type_names: tuple[str, ...]
    stage_names: tuple[str, ...]
    """Names of the stages that the letters a, b, … stand for."""
    found: str
    """Letters of the stages at which the evidence was found and the answer is wrong."""
    tokens: tuple[int, ...]
    """Mean prompt tokens of each question over the runs that sent a prompt; 0: unknown."""
    repeats: tuple[tuple[int, ...], ...]
    """Groups of indexes of runs that repeat one configuration."""
    among: tuple[int, ...]
    """Indexes of the runs that counts and filters are about: the baseline, and all runs that are not controls."""


def matrix_of(comparison: Comparison) -> Matrix:
    """Return the questions of a comparison, its baseline first."""
    graded, rows = comparison.evaluations, comparison.questions
    asked = graded[0].asked
    stage_names = list(dict.fromkeys(stage for row in rows for stage in row.stages if stage))
    type_names = list(dict.fromkeys(row.question_type for row in rows))
    columns = []
    for place, (run, shown) in enumerate(zip(graded, shown_runs(comparison), strict=True)):
        contested = disputed(run)
        columns.append(
            Column(
                id=run.id,
                name=shown.name,
                colour=shown.look.colour,
                path=shown.look.path,
                hatched=shown.look.hatched,
                labels="".join(_label(row.credits[place]) for row in rows),
                stages="".join(_letter(row.stages[place], stage_names) for row in rows),
                disputed="".join("1" if row.question_id in contested else "0" for row in rows),
            )
        )
    places = {run.id: place for place, run in enumerate(graded)}
    return Matrix(
        runs=tuple(columns),
        ids=tuple(row.question_id for row in rows),
        texts=tuple(asked.questions[row.question_id].text for row in rows),
        types=tuple(type_names.index(row.question_type) for row in rows),
        type_names=tuple(type_names),
        stage_names=tuple(map(cause_of, stage_names)),
        found="".join(_letter(stage, stage_names) for stage in stage_names if stage in EVIDENCE_FOUND),
        tokens=tuple(_mean_tokens(graded, row.question_id) for row in rows),
        repeats=tuple(tuple(places[run_id] for run_id in group.run_ids) for group in comparison.repeats),
        among=tuple(among(comparison)),
    )


def _label(credit: float | None) -> str:
    if credit is None:
        return NONE
    return RIGHT if credit == 1 else WRONG if credit == 0 else PART


def _letter(stage: str | None, names: Sequence[str]) -> str:
    return _LETTERS[names.index(stage)] if stage else " "


def _mean_tokens(graded: Sequence[Evaluation], question_id: str) -> int:
    sent = [answer.prompt_tokens for run in graded if (answer := run.answers.get(question_id)) and answer.prompt_tokens]
    return round(sum(sent) / len(sent)) if sent else 0
