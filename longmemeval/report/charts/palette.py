"""Tell runs apart: twelve colours with twelve shapes; controls are grey, runs that read the gold hatched."""

from collections.abc import Sequence
from zlib import crc32

from msgspec import Struct

from longmemeval.memory.configuration import MEMORIES
from longmemeval.pipeline.compare.comparison import Comparison

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


def look_of(number: int, *, control: bool = False, reads_gold: bool = False) -> Look:
    """Return look number `number`: after twelve the colours begin again with other shapes, so that 144 differ."""
    shape = (number + number // COLOURS) % len(SHAPES)
    return Look(0 if control else number % COLOURS + 1, shape, reads_gold)


class Shown(Struct, frozen=True):
    """The name and look of a run in tables and charts."""

    name: str
    look: Look


_LOOKS = COLOURS * len(SHAPES)


def looks_of(
    names: Sequence[str], controls: Sequence[tuple[bool, bool]], memories: Sequence[str] | None = None
) -> list[Look]:
    """Return a look for each name: a memory has the same look on every page, whatever it is compared with.

    The presets have looks of their own, in the order in which they are registered. Other memories take the look that
    their hash gives. Where two rows of one page meet there, the later one by memory and name takes the next free shape.

    Args:
        names: names or ids of rows, without duplicates.
        controls: for each, whether it is a control, and whether it reads the gold evidence.
        memories: for each, the memory; None: the names.
    """
    taken = set[tuple[int, int, bool]]()
    found: dict[str, Look] = {}
    presets = {name: number for number, name in enumerate(MEMORIES.built_in)}
    rows = zip(names, controls, memories or names, strict=True)
    for name, (control, reads_gold), memory in sorted(
        rows, key=lambda row: (row[2] not in presets, row[2], len(row[0]), row[0])
    ):
        number = presets.get(memory, crc32(memory.encode()) % _LOOKS)
        for step in range(_LOOKS):
            place = (number + COLOURS * step + step // len(SHAPES)) % _LOOKS
            look = found[name] = look_of(place, control=control, reads_gold=reads_gold)
            if (look.colour, look.shape, reads_gold) not in taken:
                taken.add((look.colour, look.shape, reads_gold))
                break
    return [found[name] for name in names]


def shown_rows(comparison: Comparison) -> list[Shown]:
    """Return the name and look of each row, in order."""
    names = [comparison.names[row.run_id] for row in comparison.rows]
    kinds = [(row.summary.control is not None, row.summary.reads_gold) for row in comparison.rows]
    ids, memories = [row.run_id for row in comparison.rows], [row.summary.memory for row in comparison.rows]
    return [Shown(name, look) for name, look in zip(names, looks_of(ids, kinds, memories), strict=True)]


def shown_runs(comparison: Comparison) -> list[Shown]:
    """Return the name and look of each run, in order: repeats share the look of their row."""
    by_id = {
        run_id: run.look
        for row, run in zip(comparison.rows, shown_rows(comparison), strict=True)
        for run_id in row.run_ids
    }
    return [Shown(comparison.names[run.run_id], by_id[run.run_id]) for run in comparison.runs]
