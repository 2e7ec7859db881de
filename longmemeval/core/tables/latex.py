"""Tables as LaTeX in the style of booktabs, none wider than the text of an article.

A table that is too wide gets headings in several lines, then smaller letters. One that is still too wide is split into
several tables, each of which repeats the first column. Widths are those of Computer Modern (`cmr10`), rounded up.
"""

import re
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from longmemeval.core.tables.table import Heading, Table, one_line
from longmemeval.core.text.figures import UNKNOWN, visible

LatexStyle = Literal["plain", "siunitx"]
TEXT_WIDTH = 345.0
"""Width of the text of `\\documentclass{article}` at 10 pt, in points."""


class _Size(Struct, frozen=True):
    """A size of letters."""

    command: str
    share: float
    """Share of the normal width."""
    between: float
    """Twice `\\tabcolsep`: the width of a column besides its cells, in points."""


_SIZES = (
    _Size("", 1.0, 12.0),
    _Size("\\small\\setlength{\\tabcolsep}{4pt}\n", 0.93, 8.0),
    _Size("\\footnotesize\\setlength{\\tabcolsep}{3pt}\n", 0.86, 6.0),
)
_LEAST_PROSE = 90.0
"""Minimum width, in points, of a column of prose, which may take several lines."""
_LATEX = {
    "\\": r"\textbackslash{}",
    **{sign: f"\\{sign}" for sign in "{}$&#_%"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "≥": r"$\geq$",
    "▲": r"$\uparrow$",
    "▼": r"$\downarrow$",
    "†": r"\textsuperscript{\dag}",
    "…": r"\ldots{}",
    # The brackets around the characters that `visible` writes out: LaTeX's usual fonts lack them.
    "⟨": r"$\langle$",
    "⟩": r"$\rangle$",
    UNKNOWN: "--",
}
_SIGNS = re.compile("[" + re.escape("".join(_LATEX)) + "]")
_NUMBER = re.compile(
    r"(?P<money>\$)?(?P<sign>[+-])?(?P<whole>\d[\d,]*)(\.(?P<part>\d+))?(?P<unit> ?%| ms| s)?(?P<after> ?[!†]*)"
)


class _Numbers(Struct, frozen=True):
    """A column of numbers that siunitx aligns."""

    format: str
    after: str
    """The longest mark that follows a number."""
    unit: str

    @property
    def points(self) -> float:
        """Width of a number, in points at normal size; a sign is wider than in text."""
        return _points(self.format.replace("+", "").replace(".", "") + self.after) + 12.0


def escape_latex(plain: str) -> str:
    """Escape a text so that LaTeX shows it verbatim."""
    return _SIGNS.sub(lambda match: _LATEX[match[0]], one_line(visible(plain)))


def latex(table: Table, notes: Sequence[str] = (), label: str = "", style: LatexStyle = "plain") -> str:
    r"""Return the table, or the tables it is split into, with its title as caption and the notes below the first.

    Args:
        table: the table; long cells of prose take several lines.
        notes: sentences.
        label: label for `\ref`; further tables of a split one get `-2`, `-3` and so on after it.
        style: `siunitx` aligns columns of numbers at their points, and states their unit once.
    """
    size, stacked, parts = _fitted(table, style)
    labels = [label, *(f"{label}-{number}" for number in range(2, len(parts) + 1))] if label else []
    below = [escape_latex(" ".join(notes))] if notes else []
    if len(parts) > 1:
        others = ", ".join(rf"\ref{{{further}}}" for further in labels[1:])
        below.append(f"Further columns: Table~{others}." if labels else "Further columns: in the tables that follow.")
    tables = []
    for number, part in enumerate(parts, start=1):
        title = f"{part.title} ({number} of {len(parts)})" if len(parts) > 1 else part.title
        lines = [r"\begin{table}", r"\centering", *([rf"\caption{{{escape_latex(title)}}}"] if title else [])]
        lines += [rf"\label{{{labels[number - 1]}}}"] if labels else []
        lines += [size.command + _tabular(part, size, style, stacked)]
        if below and number == 1:
            lines.append(rf"\par\smallskip\parbox{{\linewidth}}{{\footnotesize\sloppy {' '.join(below)}}}")
        tables.append("\n".join([*lines, r"\end{table}"]))
    return "\n\n".join(tables)


def needs(style: LatexStyle = "plain") -> str:
    """Return the comment that names the packages which the tables need."""
    return rf"% Needs \usepackage{{array,booktabs{',siunitx' if style == 'siunitx' else ''}}}."


def _fitted(table: Table, style: LatexStyle) -> tuple[_Size, bool, list[Table]]:
    """Return the size of letters, whether headings take several lines, and the tables that fit."""
    if _total(_widths(table, style, False), _SIZES[0]) <= TEXT_WIDTH:
        return _SIZES[0], False, [table]
    widths = _widths(table, style, True)
    for size in _SIZES:
        if _total(widths, size) <= TEXT_WIDTH:
            return size, True, [table]
    parts: list[list[int]] = [[0]]
    for place in range(1, len(widths)):
        wanted = [*parts[-1], place]
        if len(parts[-1]) > 1 and _total([widths[index] for index in wanted], size) > TEXT_WIDTH:
            parts.append([0, place])
        else:
            parts[-1] = wanted
    return size, True, [table.only(places) for places in parts]


def _total(widths: Sequence[float], size: _Size) -> float:
    return sum(widths) * size.share + size.between * len(widths)


def _widths(table: Table, style: LatexStyle, stacked: bool) -> list[float]:
    """Return the minimum width of each column, in points at normal size."""
    widths = []
    for place, column in enumerate(table.columns):
        numbers = _numbers(table, place) if style == "siunitx" else None
        cells = numbers.points if numbers else max((_points(row[place]) for row in table.rows), default=0.0)
        lines = _heading(column, numbers, cells if stacked else None)
        width = max(cells, *map(_points, lines))
        widths.append(min(width, _LEAST_PROSE) if column.kind == "prose" else width)
    return widths


def _points(text: str) -> float:
    """Return the width of a line of text, in points at normal size."""
    return sum(_width(letter) for letter in one_line(visible(text)))


def _width(letter: str) -> float:
    if letter in "ijl.,:;|'![]()†":
        return 3.2 if letter != "†" else 4.0
    if letter in "mwMW%@…▲▼≥<>+=_" or letter == UNKNOWN:
        return 8.6
    return 7.6 if letter.isupper() else 5.4


def _heading(column: Heading, numbers: _Numbers | None, width: float | None) -> list[str]:
    """Return the lines of a heading, no wider than its longest word or `width`; only headings of figures are broken.

    Args:
        column: the column of the heading.
        numbers: alignment of the column, if it is one of numbers.
        width: width in points; None: the heading stays on one line.
    """
    words = one_line(f"{column.title}{numbers.unit if numbers else ''}").split() or [""]
    if width is None or column.kind != "figure":
        return [" ".join(words)]
    width = max([width, *map(_points, words)])
    lines = words[:1]
    for word in words[1:]:
        joined = f"{lines[-1]} {word}"
        lines[-1:] = [joined] if _points(joined) <= width else [lines[-1], word]
    return lines


def _tabular(table: Table, size: _Size, style: LatexStyle, stacked: bool) -> str:
    widths = _widths(table, style, stacked)
    spare = max(TEXT_WIDTH - _total(widths, size), 0.0)
    prose = [place for place, column in enumerate(table.columns) if column.kind == "prose"]
    numbers = [_numbers(table, place) if style == "siunitx" else None for place in range(len(widths))]

    def column(place: int) -> str:
        if place in prose:
            points = int(widths[place] * size.share + spare / len(prose)) - 1
            return rf">{{\raggedright\arraybackslash}}p{{{points}pt}}"
        if aligned := numbers[place]:
            after = f",table-space-text-post={{{escape_latex(aligned.after)}}}" if aligned.after else ""
            return f"S[table-format={aligned.format}{after}]"
        return "r" if table.columns[place].kind == "figure" else "l"

    lines = [rf"\begin{{tabular}}{{{''.join(map(column, range(len(widths))))}}}", r"\toprule"]
    heads = [
        _stacked(_heading(heading, aligned, widths[place] if stacked else None), braced=aligned is not None)
        for place, (heading, aligned) in enumerate(zip(table.columns, numbers, strict=True))
    ]
    lines += [_line(heads), r"\midrule"]
    for place, row in enumerate(table.rows):
        cells = [_number(cell) if aligned else escape_latex(cell) for cell, aligned in zip(row, numbers, strict=True)]
        lines += [r"\midrule", _line(cells)] if place in table.breaks else [_line(cells)]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def _stacked(lines: Sequence[str], braced: bool) -> str:
    """Return a heading; braces keep siunitx from reading it as a number."""
    words = r"\\".join(map(escape_latex, lines))
    words = rf"\shortstack[r]{{{words}}}" if len(lines) > 1 else words
    return f"{{{words}}}" if braced else words


def _line(cells: Sequence[str]) -> str:
    """Return one line, without a bracket at its start: that would be an argument of the line end before it."""
    line = " & ".join(cells)
    return ("{}" if line.startswith("[") else "") + line + r" \\"


def _numbers(table: Table, place: int) -> _Numbers | None:
    """Return the alignment of a column of numbers with one unit; None for any other column."""
    cells = [row[place] for row in table.rows if row[place] not in ("", UNKNOWN)]
    matches = [match for cell in cells if (match := _NUMBER.fullmatch(cell))]
    units = {
        f" ({'US$' if match['money'] else match['unit'].strip()})" if match["money"] or match["unit"] else ""
        for match in matches
    }
    if table.columns[place].kind != "figure" or not matches or len(matches) < len(cells) or len(units) > 1:
        return None
    whole = max(len(match["whole"].replace(",", "")) for match in matches)
    part = max(len(match["part"] or "") for match in matches)
    sign = "+" if any(match["sign"] for match in matches) else ""
    after = max((match["after"].strip() for match in matches), key=_points)
    return _Numbers(f"{sign}{whole}{f'.{part}' if part else ''}", after, units.pop())


def _number(cell: str) -> str:
    match = _NUMBER.fullmatch(cell)
    if match is None:
        return f"{{{escape_latex(cell)}}}"
    after = f"{{{escape_latex(match['after'].strip())}}}" if match["after"].strip() else ""
    part = f".{match['part']}" if match["part"] else ""
    return f"{match['sign'] or ''}{match['whole'].replace(',', '')}{part}{after}"
