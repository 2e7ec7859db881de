"""Common methods that show runs, evaluations and comparisons in terminals, notebooks and papers."""

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from longmemeval.core.arguments import checked
from longmemeval.core.tables.picture import Picture

if TYPE_CHECKING:
    from pandas import DataFrame


class Showing:
    """Methods of the objects that Python users hold; the renderer that a higher floor registers does the work."""

    __slots__ = ()

    def __str__(self) -> str:
        return str(renderer().text(self))

    def _repr_html_(self) -> str:
        return str(renderer().html(self))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, as `--json` prints it: nothing rounded, unknown values None.

        It is the output of `compare` for a comparison, of `evaluate` for an evaluation, and of `status RUN` for a run.
        """
        document: dict[str, Any] = renderer().document(self)
        return document

    def to_latex(self) -> str:
        """Return the tables in the style of booktabs."""
        return str(renderer().latex(self))

    def to_pandas(self) -> "DataFrame":
        """Return a data frame, nothing rounded: a row per run for a comparison, else a row per question.

        The rows of an evaluation are those that `export` writes, with the gold and the labels. The rows of a `Run`
        object have neither.

        Raises:
            HarnessError: the extra `pandas` is not installed, or the dataset of a run has moved.
        """
        frame: DataFrame = renderer().data_frame(self)
        return frame

    @checked()
    def plot(self, chart: str = "") -> Picture:
        """Return a chart of the report, which a notebook shows and `save` writes as SVG.

        Args:
            chart: name such as `overall`, `types`, `abilities`, `tokens`, `losses` or `latency`; empty: the first chart
                available. A run that is not graded has only `latency`.

        Raises:
            HarnessError: the extra `report` is not installed, or there is no such chart.
        """
        picture: Picture = renderer().picture(self, chart)
        return picture


def register_renderer(load: Callable[[], ModuleType]) -> None:
    """Register the module that shows these objects; it is loaded when the first of them is shown."""
    _loaders[:] = [load]


def renderer() -> ModuleType:
    """Return the module that shows these objects."""
    if not _loaders:
        raise RuntimeError("Import longmemeval.api, which shows these objects")
    return _loaders[0]()


_loaders: list[Callable[[], ModuleType]] = []
