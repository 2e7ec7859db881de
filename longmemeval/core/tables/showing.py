"""Show runs, evaluations and comparisons in terminals, notebooks and papers: what they have in common."""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from longmemeval.core.arguments import checked
from longmemeval.core.tables.picture import Picture

if TYPE_CHECKING:
    from pandas import DataFrame


class Showing:
    """Methods of what Python users hold; `report/` stands above it, writes it, and is looked up when it is asked."""

    __slots__ = ()

    def __str__(self) -> str:
        return str(view().text(self))

    def _repr_html_(self) -> str:
        return str(view().html(self))

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data, as `--json` prints it: nothing rounded, unknown values None.

        A comparison is what `compare` prints, an evaluation what `evaluate` prints, a run what `status RUN` prints.
        """
        found: dict[str, Any] = view().document(self)
        return found

    def to_latex(self) -> str:
        """Return the tables in the style of booktabs."""
        return str(view().latex(self))

    def to_pandas(self) -> "DataFrame":
        """Return a data frame, nothing rounded: of a comparison a row per run, else a row per question.

        The rows of an evaluation are those that `export` writes. The gold is in them, and labels; those of a run that
        is not graded in hand have neither.

        Raises:
            HarnessError: the extra `pandas` is not installed, or the data set of a run has moved.
        """
        found: DataFrame = view().data_frame(self)
        return found

    @checked()
    def plot(self, chart: str = "") -> Picture:
        """Return a chart of the report, which a notebook shows and `save` writes as SVG.

        Args:
            chart: such as `overall`, `types`, `abilities`, `tokens`, `losses` or `latency`; empty: the first there is.
                A run that is not graded has `latency` alone.

        Raises:
            HarnessError: the extra `report` is not installed, or there is no such chart of it.
        """
        found: Picture = view().picture(self, chart)
        return found


def view() -> ModuleType:
    """Return `report.objects`."""
    return import_module("longmemeval.report.objects")
