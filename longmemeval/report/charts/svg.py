"""Render Matplotlib figures as SVG for a page: coloured by the page's variables, equal bytes for equal input."""

import io
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Literal
from zlib import crc32

from msgspec import Struct

from longmemeval.core.installation import install_command
from longmemeval.core.tables.table import escape_html
from longmemeval.core.text.figures import visible
from longmemeval.errors import HarnessError
from longmemeval.memory.configuration import MEMORIES
from longmemeval.pipeline.compare.comparison import Comparison

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.typing import RcKeyType


# Tell runs apart: twelve colours with twelve shapes; controls are grey, runs that read the gold hatched.

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
_SETTINGS = re.compile(r" (?=[\w.-]+=)(.*)", re.DOTALL)
"""The settings in the name of a memory."""


def looks_of(
    names: Sequence[str], controls: Sequence[tuple[bool, bool]], memories: Sequence[str] | None = None
) -> list[Look]:
    """Return a look for each name: a memory has the same look on every page, whatever it is compared with.

    The presets have looks of their own, in the order in which they are registered. Other memories take the look that
    their hash gives. A memory with settings in its name, as sweeps give (`hybrid top_k=5`), has the colour of the
    memory and the shape that the settings give. Where two rows of one page meet there, the later one by memory and name
    takes the next free shape.

    Args:
        names: names or ids of rows, without duplicates.
        controls: for each, whether it is a control, and whether it reads the gold evidence.
        memories: for each, the memory; None: the names.
    """
    taken = set[tuple[int, int, bool]]()
    found: dict[str, Look] = {}
    presets = {name: number for number, name in enumerate(MEMORIES.built_in)}
    rows = zip(names, controls, map(_SETTINGS.split, memories or names), strict=True)
    for name, (control, reads_gold), (memory, *settings) in sorted(
        rows, key=lambda row: (row[2][0] not in presets, row[2], len(row[0]), row[0])
    ):
        number = presets.get(memory, crc32(memory.encode()) % _LOOKS)
        first = 1 + crc32(settings[0].encode()) % (len(SHAPES) - 1) if settings else 0
        for step in (*range(first, _LOOKS), *range(first)):
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


# Names registered as colours in matplotlib: stand-ins that the page's variables replace, or the colours for print.
INK, MUTED, GRID, SURFACE = "--ink", "--muted", "--grid", "--surface"
_NAMES = (INK, MUTED, GRID, SURFACE, *(f"--run-{number}" for number in range(COLOURS + 1)))
_STAND_INS = {name: f"#0101{number:02x}" for number, name in enumerate(_NAMES, start=1)}
_PDFS: ContextVar["tuple[Mapping[str, str], dict[str, bytes]] | None"] = ContextVar("_PDFS", default=None)
_STYLE: "dict[RcKeyType, object]" = {
    "svg.fonttype": "none",
    "svg.hashsalt": "longmemeval",
    "text.parse_math": False,
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "text.color": INK,
    "axes.edgecolor": GRID,
    "axes.labelcolor": MUTED,
    "axes.labelsize": 9.0,
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "xtick.color": GRID,
    "ytick.color": GRID,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 9.0,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "figure.facecolor": "none",
}

_HIDDEN = 'aria-hidden="true" focusable="false"'
"""Attributes of a drawing whose frame describes it in words."""


def run_colour(look: Look) -> str:
    """Return the name of the colour of a run."""
    return f"--run-{look.colour}"


def run_face(look: Look) -> str:
    """Return the name of the colour that fills a run's mark: that of the background if the run reads the gold."""
    return SURFACE if look.hatched else run_colour(look)


def need_report_libraries(what: str = "An HTML report") -> None:
    """Check that the extra `report` is installed.

    Args:
        what: what needs the extra, for the error message.

    Raises:
        HarnessError: it is not installed.
    """
    try:
        import jinja2  # imported only to check that it is installed
        import matplotlib

        del jinja2, matplotlib
    except ImportError as error:
        raise HarnessError(
            f"{what} needs a library that is not installed: {error.name}",
            fix=f"Run: {install_command('report')}" + ("" if what == "A chart" else ", or choose --format md or latex"),
        ) from error


def drawn(name: str, width: float, height: float, draw: Callable[["Figure"], None]) -> str:
    """Return a figure as an `svg` element without size, hidden from screen readers as its frame describes it.

    Args:
        name: a name that is unique among the figures of a page; the ids within the element begin with it.
        width: width in inches, each 72 units of the element.
        height: height in inches.
        draw: function that draws the content on the figure.
    """
    if capture := _PDFS.get():
        colours, pdfs = capture
        pdfs[name] = _saved("pdf", width, height, draw, colours)
    return _inline(_saved("svg", width, height, draw, _STAND_INS).decode(), name)


def _saved(
    kind: Literal["svg", "pdf"],
    width: float,
    height: float,
    draw: Callable[["Figure"], None],
    colours: Mapping[str, str],
) -> bytes:
    from matplotlib import rc_context
    from matplotlib.colors import get_named_colors_mapping
    from matplotlib.figure import Figure

    named = get_named_colors_mapping()
    for name in _NAMES:
        named[name] = colours[name]
    omitted = ("Date", "Creator", "Format", "Type") if kind == "svg" else ("CreationDate", "Creator", "Producer")
    buffer = io.BytesIO()
    with rc_context(_STYLE), warnings.catch_warnings():
        # The browser draws the text, with its own fonts.
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        figure = Figure(figsize=(width, height), layout="constrained")
        draw(figure)
        figure.savefig(buffer, format=kind, metadata=dict.fromkeys(omitted))
    return buffer.getvalue()


def colours_in(style: str, *, dark: bool = False) -> dict[str, str]:
    """Return the colours of a style sheet, by the names of their variables."""
    return {name: pair[dark] for name, *pair in re.findall(r"(--[\w-]+): light-dark\(([^,]+), ([^)]+)\)", style)}


@contextmanager
def pdfs_beside(style: str) -> Iterator[dict[str, bytes]]:
    """Also draw each figure as a PDF in the light colours of a style sheet; yield the PDFs by the figures' names."""
    pdfs: dict[str, bytes] = {}
    token = _PDFS.set((colours_in(style), pdfs))
    try:
        yield pdfs
    finally:
        _PDFS.reset(token)


def alone(svg: str, title: str, style: str, *, dark: bool = False) -> str:
    """Return an `svg` element made by `drawn` as a separate document, in the colours of the page's style sheet."""
    colours = colours_in(style, dark=dark)
    text = re.sub(r"var\((--[\w-]+)\)", lambda found: colours[found[1]], svg)
    own = f'xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" role="img" aria-label="{escape_html(title)}"'
    return text.replace(_HIDDEN, own, 1)


def _inline(document: str, name: str) -> str:
    """Return only the `svg` element, with the page's colours and fonts, and ids that no other figure has."""
    text = visible(document[document.index("<svg") :])
    text = re.sub(r"<metadata>.*?</metadata>|<style .*?</style>|<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"<svg [^>]*?(viewBox=\"[^\"]*\")[^>]*>", rf"<svg \1 {_HIDDEN}>", text, count=1)
    text = text.replace("xlink:href", "href")
    text = re.sub(r" font-family: [^;\"]*;", "", text)
    used = set(re.findall(r"#([\w.-]+)\"|url\(#([\w.-]+)\)", text))
    used_ids = {left or right for left, right in used}
    text = re.sub(r' id="([^"]+)"', lambda match: f' id="{name}-{match[1]}"' if match[1] in used_ids else "", text)
    text = re.sub(r'href="#([^"]+)"', rf'href="#{name}-\1"', text)
    text = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", text)
    # Use presentation attributes, as a content policy may forbid styles in elements.
    text = re.sub(r' style="([^"]*)"', lambda match: "".join(map(_attribute, match[1].split(";"))), text)
    for variable, colour in _STAND_INS.items():
        text = text.replace(colour, f"var({variable})")
    return re.sub(r"\s*\n\s*", " ", text).strip()


def _attribute(declaration: str) -> str:
    name, _, value = declaration.partition(":")
    return f' {name.strip()}="{value.strip()}"' if value else ""
