"""Choose and order questions by an address, as `static/matrix.js` does, for pages without scripts.

The grammar is that of `pages/questions.py`; the text is `q` there and `find` on the page of one question.
"""

from collections.abc import Mapping

from msgspec import Struct

from longmemeval.view.packed import NONE, PART, RIGHT, WRONG, Matrix

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
