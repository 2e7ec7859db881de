"""Tell runs apart: twelve colours with twelve shapes; controls are grey, runs that read the gold hatched."""

from collections.abc import Sequence

from msgspec import Struct

from longmemeval.report.tables.cells import row_names
from longmemeval.results.graded.graded_run import RunSummary

COLOURS = 12
"""Number of colours. The style sheet has a variable for each, `--run-1` and so on; `--run-0` is that of controls."""


class Shape(Struct, frozen=True):
    """One shape: its name in matplotlib, and its path in a square from -6 to 6."""

    marker: str
    path: str


SHAPES = (
    Shape("o", "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0z"),
    Shape("^", "M0-5.5 5.5 5h-11z"),
    Shape("D", "M0-6 6 0 0 6-6 0z"),
    Shape("s", "M-4.7-4.7h9.4v9.4h-9.4z"),
    Shape("v", "M0 5.5 5.5-5h-11z"),
    Shape("*", "M0-6 1.4-1.9H5.7L2.2.7 3.5 4.9 0 2.3-3.5 4.9-2.2.7-5.7-1.9H-1.4z"),
    Shape("p", "M0-5.6 5.4-1.7 3.3 4.6h-6.6L-5.4-1.7z"),
    Shape("P", "M-2-6h4v4h4v4h-4v4h-4v-4h-4v-4h4z"),
    Shape("X", "M-3-6 0-3 3-6 6-3 3 0 6 3 3 6 0 3-3 6-6 3-3 0-6-3z"),
    Shape("<", "M-5.5 0 5-5.5v11z"),
    Shape(">", "M5.5 0-5-5.5v11z"),
    Shape("h", "M0-5.8 5-2.9v5.8L0 5.8-5 2.9v-5.8z"),
)


class Look(Struct, frozen=True):
    """The colour and shape of one run."""

    colour: int
    """Number of the colour, from 1 to `COLOURS`; 0: the grey of controls."""
    shape: int
    """Index in `SHAPES`."""
    hatched: bool = False
    """True if the run reads the gold evidence."""

    @property
    def marker(self) -> str:
        """The name of the shape in matplotlib."""
        return SHAPES[self.shape].marker

    @property
    def path(self) -> str:
        """The shape as the path of an SVG element, in a square from -6 to 6."""
        return SHAPES[self.shape].path


def look_of(place: int, *, control: bool = False, reads_gold: bool = False) -> Look:
    """Return the look of a run at index `place` among the controls or among the other runs.

    After twelve runs the colours begin again with other shapes, so that 144 runs differ.
    """
    shape = (place + place // COLOURS) % len(SHAPES)
    return Look(0 if control else place % COLOURS + 1, shape, reads_gold)


class Shown(Struct, frozen=True):
    """The name and look of a run in tables and charts."""

    name: str
    """The run's memory, or the model of a control; if several share it, the distinguishing part of the run id."""
    look: Look


def shown_runs(summaries: Sequence[RunSummary]) -> list[Shown]:
    """Return the name and look of each run, in order; neither depends on which run is the baseline."""
    names = row_names(summaries)
    places = [0, 0]
    shown = []
    for name, summary in zip(names, summaries, strict=True):
        control = summary.control is not None
        look = look_of(places[control], control=control, reads_gold=summary.reads_gold)
        shown.append(Shown(name, look))
        places[control] += 1
    return shown
