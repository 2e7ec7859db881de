"""The questions of several runs in little space: a row per question, a column per run, one character per cell."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from longmemeval.pipeline.compare.repeats import pool_repeats
from longmemeval.report.charts.palette import shown_runs
from longmemeval.results.graded.graded_run import Evaluation
from longmemeval.results.graded.losses import StoredSessions, disputed, losses
from longmemeval.settings import Folders

RIGHT, WRONG, PART, NONE = "1", "0", "p", "-"
"""Full credit, none, some of it, and not evaluated."""
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
EVIDENCE_FOUND = ("in the prompt", "disputed")
"""Stages of questions answered wrongly although all evidence was in the prompt."""


class Column(Struct, frozen=True):
    """One run."""

    id: str
    name: str
    colour: int
    path: str
    """Its shape, in a square from -6 to 6."""
    hatched: bool
    labels: str
    """One of `RIGHT`, `WRONG`, `PART` and `NONE` for each question."""
    stages: str
    """For each question the letter of the stage at which it was lost, else a space."""
    disputed: str
    """`1` for each question whose answer the judges of the run label differently, else `0`."""


class Matrix(Struct, frozen=True):
    """All questions of a choice of runs, in the data's order."""

    runs: tuple[Column, ...]
    """The baseline first."""
    ids: tuple[str, ...]
    texts: tuple[str, ...]
    types: tuple[int, ...]
    """Place in `type_names`."""
    type_names: tuple[str, ...]
    stage_names: tuple[str, ...]
    """Of the letters a, b, …."""
    found: str
    """Letters of the stages that mean: the evidence was found, the answer is wrong."""
    tokens: tuple[int, ...]
    """Mean prompt tokens over the runs that sent some; 0: none is known."""
    repeats: tuple[tuple[int, ...], ...]
    """Places of runs that repeat one configuration."""


def matrix_of(graded: Sequence[Evaluation], where: Folders) -> Matrix:
    """Return the questions of runs over the same questions.

    Args:
        graded: the baseline first.
        where: the folders; fixtures tell what was stored.
    """
    asked = graded[0].asked
    ids = list(asked.questions)
    stored = StoredSessions(where)
    stages = [losses(run, stored).stages for run in graded]
    stage_names = list(dict.fromkeys(stage for one in stages for stage in one.values() if stage))
    types = [asked.question_type(one) for one in ids]
    type_names = list(dict.fromkeys(types))
    columns = []
    for run, shown, lost in zip(graded, shown_runs([one.summary for one in graded]), stages, strict=True):
        credits, contested = run.credits, disputed(run)
        columns.append(
            Column(
                id=run.id,
                name=shown.name,
                colour=shown.look.colour,
                path=shown.look.path,
                hatched=shown.look.hatched,
                labels="".join(_label(credits.get(one)) for one in ids),
                stages="".join(_letter(lost.get(one), stage_names) for one in ids),
                disputed="".join("1" if one in contested else "0" for one in ids),
            )
        )
    pools = [tuple(graded.index(run) for run in pool) for pool in pool_repeats(graded)]
    return Matrix(
        runs=tuple(columns),
        ids=tuple(ids),
        texts=tuple(asked.questions[one].text for one in ids),
        types=tuple(map(type_names.index, types)),
        type_names=tuple(type_names),
        stage_names=tuple(stage_names),
        found="".join(_letter(one, stage_names) for one in stage_names if one in EVIDENCE_FOUND),
        tokens=tuple(_mean_tokens(graded, one) for one in ids),
        repeats=tuple(pool for pool in pools if len(pool) > 1),
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


def patterns(matrix: Matrix) -> list[tuple[str, int]]:
    """Return how many questions all runs get right, none does, only one does, and over how many they differ."""
    rows = ["".join(cells) for cells in zip(*(one.labels for one in matrix.runs), strict=True)]
    counts: dict[str, int] = {}
    for row in rows:
        counts[row] = counts.get(row, 0) + 1
    n = len(matrix.runs)
    found: Mapping[str, int] = {
        "all right": counts.get(RIGHT * n, 0),
        "none right": sum(number for row, number in counts.items() if RIGHT not in row),
        "differ": sum(number for row, number in counts.items() if len(set(row)) > 1),
        **{
            f"only {run.name}": sum(
                number for row, number in counts.items() if row.count(RIGHT) == 1 and row[place] == RIGHT
            )
            for place, run in enumerate(matrix.runs if n > 1 else ())
        },
    }
    return [(words, number) for words, number in found.items() if number or not words.startswith("only")]
