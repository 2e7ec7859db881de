"""The questions that an address chooses, in its order: what `static/matrix.js` chooses too, for pages without scripts.

The grammar is that of `pages/questions.py`; the text is `q` there and `find` on the page of one question.
"""

from collections.abc import Mapping

from msgspec import Struct

from longmemeval.view.packed import NONE, PART, RIGHT, WRONG, Matrix

_WORTH = {RIGHT: 1.0, PART: 0.5, WRONG: 0.0, NONE: 0.0}
_NAMES = ("show", "of", "type", "stage", "only", "sort")
"""What an address names alike everywhere."""
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
    """What an address asks to see of all questions."""

    show: str = ""
    of: str = ""
    type: str = ""
    stage: str = ""
    only: str = ""
    sort: str = ""
    text: str = ""
    within: str = ""
    """`answers` or `recalled`: the text is looked for there too; `pattern`: it is one, on questions and answers."""

    def address(self, text: str = "find") -> dict[str, str]:
        """Return it as the part of an address that it came from.

        Args:
            text: the name of the text there.
        """
        given = {name: getattr(self, name) for name in _NAMES}
        return given | {text: self.text, "in": self.within}

    def words(self, matrix: Matrix) -> str:
        """Return what is seen, to follow a number of questions; empty for all in the data's order."""
        names = {run.id: run.name for run in matrix.runs}
        said = [FILTERS[self.show]] if self.show in FILTERS and self.show != "all" else []
        said += [f"by {names[self.of]}"] if self.of in names and self.show in ("lost", "won", "unchanged") else []
        said += [self.type] if self.type in matrix.type_names else []
        said += [f"only right in {names[self.only]}"] if self.only in names else []
        said += [f"wrong: {self.stage}"] if self.stage in matrix.stage_names else []
        said += [f"with “{self.text}”" if self.within != "pattern" else f"like “{self.text}”"] if self.text else []
        return ", ".join(
            [*said, *([f"by {self.sort}"] if self.sort in ("regression", "disagreement", "tokens") else [])]
        )


def selection_of(query: Mapping[str, str], text: str = "find") -> Selection:
    """Return what an address asks to see.

    Args:
        query: of the address.
        text: the name of the text in it.
    """
    given = {name: query.get(name, "") for name in _NAMES}
    return Selection(**given, text=query.get(text, ""), within=query.get("in", ""))


def selected(matrix: Matrix, wanted: Selection, answers: str = "") -> list[int]:
    """Return the rows that are chosen, in their order.

    Args:
        matrix: all questions.
        wanted: unknown names choose nothing in particular, as in a browser.
        answers: `1` for each question that the text was found at where it was looked for beside the questions.
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
