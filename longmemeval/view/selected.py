"""Choose and order questions by an address, as `static/matrix.js` does, for pages without scripts.

The grammar is that of `pages/questions.py`; the text is `q` there and `find` on the page of one question.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from longmemeval.measures.losses import cause_of
from longmemeval.pipeline.compare.comparison import Comparison
from longmemeval.report.charts.svg import shown_runs
from longmemeval.report.page.summary import among
from longmemeval.results.graded.graded_run import Evaluation
from longmemeval.results.graded.losses import disputed

# Pack the questions of several runs into little space: a row per question, a column per run, a character per cell.

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


_WORTH = {RIGHT: 1.0, PART: 0.5, WRONG: 0.0, NONE: 0.0}
_NAMES = ("show", "of", "type", "stage", "only", "sort")
"""Parameters that have the same names in all addresses."""
FILTERS = {
    "all": "all",
    "differ": "on which the runs differ",
    "lost": "lost to the baseline",
    "won": "won against the baseline",
    "unchanged": "as the baseline has them",
    "wrong": "that no run has right",
    "disagree": "on which judges disagree",
    "found": "with the evidence found, answered wrong",
}


class Selection(Struct, frozen=True):
    """The questions that an address selects, and their order."""

    show: str = ""
    of: str = ""
    type: str = ""
    stage: str = ""
    only: str = ""
    sort: str = ""
    text: str = ""
    within: str = ""
    """`answers` or `recalled`: also search for the text there; `pattern`: it is a pattern for questions and answers."""

    def address(self, text: str = "find") -> dict[str, str]:
        """Return the parameters of an address that makes this selection.

        Args:
            text: name of the parameter for the text.
        """
        parameters = {name: getattr(self, name) for name in _NAMES}
        return parameters | {text: self.text, "in": self.within}

    def words(self, matrix: Matrix) -> str:
        """Describe the selection, to follow a number of questions; empty for all in the order of the data."""
        names = {run.id: run.name for run in matrix.runs}
        words = [FILTERS[self.show]] if self.show in FILTERS and self.show != "all" else []
        words += [f"by {names[self.of]}"] if self.of in names and self.show in ("lost", "won", "unchanged") else []
        words += [self.type] if self.type in matrix.type_names else []
        words += [f"only right in {names[self.only]}"] if self.only in names else []
        words += [f"wrong: {self.stage}"] if self.stage in matrix.stage_names else []
        words += [f"with “{self.text}”" if self.within != "pattern" else f"like “{self.text}”"] if self.text else []
        return ", ".join(
            [*words, *([f"by {self.sort}"] if self.sort in ("regression", "disagreement", "tokens") else [])]
        )


def selection_of(query: Mapping[str, str], text: str = "find") -> Selection:
    """Return the selection that an address makes.

    Args:
        query: query of the address.
        text: name of the parameter for the text.
    """
    parameters = {name: query.get(name, "") for name in _NAMES}
    return Selection(**parameters, text=query.get(text, ""), within=query.get("in", ""))


def selected(matrix: Matrix, wanted: Selection, answers: str = "") -> list[int]:
    """Return the selected rows, in their order.

    Args:
        matrix: all questions.
        wanted: the selection; unknown names are ignored, as in a browser.
        answers: `1` for each question for which the text was found outside the questions, else `0`.
    """
    runs, baseline = matrix.runs, matrix.runs[0].labels
    ids = [run.id for run in runs]
    chosen = [ids.index(wanted.of)] if wanted.of in ids[1:] else [place for place in matrix.among if place]
    counted = [runs[place] for place in matrix.among]
    only = ids.index(wanted.only) if wanted.only in ids else -1
    kind = matrix.type_names.index(wanted.type) if wanted.type in matrix.type_names else -1
    at_stage = chr(97 + matrix.stage_names.index(wanted.stage)) if wanted.stage in matrix.stage_names else ""
    text = wanted.text.lower()

    def gains(row: int) -> list[float]:
        return [_WORTH[runs[run].labels[row]] - _WORTH[baseline[row]] for run in chosen]

    tests = {
        "differ": lambda row: any(_WORTH[run.labels[row]] != _WORTH[baseline[row]] for run in counted),
        "lost": lambda row: min(gains(row), default=0) < 0,
        "won": lambda row: max(gains(row), default=0) > 0,
        "unchanged": lambda row: not any(gains(row)),
        "wrong": lambda row: all(run.labels[row] != RIGHT for run in counted),
        "disagree": lambda row: any(run.disputed[row] == "1" for run in counted),
        "found": lambda row: any(run.stages[row] in matrix.found for run in counted),
    }
    test = tests.get(wanted.show)

    def fits(row: int) -> bool:
        if (test and not test(row)) or (kind >= 0 and matrix.types[row] != kind):
            return False
        if only >= 0 and any((runs[at].labels[row] == RIGHT) != (at == only) for at in {*matrix.among, only}):
            return False
        if at_stage and not any(runs[run].stages[row] == at_stage for run in [*chosen, 0]):
            return False
        in_words = text in matrix.texts[row].lower() or wanted.text in matrix.ids[row]
        return (in_words and (wanted.within != "pattern" or not text)) or answers[row : row + 1] == "1"

    def agreement(row: int) -> float:
        right = sum(_WORTH[run.labels[row]] for run in counted) / len(counted)
        return -right * (1 - right)

    orders = {
        "regression": lambda row: sum(gains(row)),
        "disagreement": agreement,
        "tokens": lambda row: -matrix.tokens[row],
    }
    rows = [row for row in range(len(matrix.ids)) if fits(row)]
    return sorted(rows, key=orders[wanted.sort]) if wanted.sort in orders else rows
