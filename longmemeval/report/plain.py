"""The report as Markdown or LaTeX tables, for notes and papers."""

import re
from collections.abc import Sequence

from msgspec.structs import replace

from longmemeval.measures.metrics import Score
from longmemeval.pipeline.compare.comparison import Comparison
from longmemeval.report.page.data import NOTHING, figure_cells, notes, repeats_table, run_names, verdicts
from longmemeval.report.published import PublishedFigure
from longmemeval.report.tables.abilities import ability_legend, ability_notes, ability_table
from longmemeval.report.tables.cells import UNKNOWN, apart, interval, percent
from longmemeval.report.tables.comparison import digest_table, published_table, question_count
from longmemeval.report.tables.effort import cost_table, latency_table
from longmemeval.report.tables.layout import letter_of
from longmemeval.report.tables.memory_models import memory_model_table
from longmemeval.report.tables.table import Table
from longmemeval.report.text import visible
from longmemeval.results.graded.graded_run import Evaluation

_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>|#~&])")
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
    "…": r"\ldots{}",
    # Around what `visible` writes out: LaTeX's usual fonts have neither.
    "⟨": r"$\langle$",
    "⟩": r"$\rangle$",
    UNKNOWN: "--",
}
_LATEX_SIGNS = re.compile("[" + re.escape("".join(_LATEX)) + "]")


def escape_markdown(text: str) -> str:
    """Text as Markdown shows it word for word, in a cell too."""
    return _MARKDOWN.sub(r"\\\1", " ".join(visible(text).split()))


def escape_latex(text: str) -> str:
    """Text as LaTeX shows it word for word."""
    return _LATEX_SIGNS.sub(lambda match: _LATEX[match[0]], " ".join(visible(text).split()))


def markdown(comparison: Comparison, published: Sequence[PublishedFigure] = ()) -> str:
    """Return the tables, the notes under them, and every pair of runs in a sentence."""
    parts = [f"# {escape_markdown(comparison.dataset)}", escape_markdown(comparison.verdict.text)]
    parts += [_markdown_table(table) for table in _tables(comparison, published)]
    parts += [_bullets(notes(comparison))]
    if pairs := verdicts(comparison, _letters(comparison)):
        parts += [escape_markdown(pairs.detectable)]
        parts += [_markdown_table(table) for table in (pairs.significant, pairs.other) if table]
    return "\n\n".join(parts) + "\n"


def latex(comparison: Comparison, published: Sequence[PublishedFigure] = ()) -> str:
    """Return the tables in the style of booktabs; verdict and notes are in the first caption."""
    said = " ".join([comparison.verdict.text, *notes(comparison)])
    tables = _tables(comparison, published)
    parts = ["% Needs \\usepackage{booktabs}."]
    parts += [_latex_table(table, said if table is tables[0] else "") for table in tables]
    return "\n\n".join(parts) + "\n"


def markdown_across(graded: Sequence[Evaluation]) -> str:
    """Return the table by ability of runs on different data sets, with its legend and notes."""
    table = ability_table(graded)
    parts = [f"# {escape_markdown(table.title)}", _markdown_table(replace(table, title=""))]
    return "\n\n".join([*parts, _bullets(ability_legend(graded)), _bullets(ability_notes(graded))]) + "\n"


def latex_across(graded: Sequence[Evaluation]) -> str:
    """Return the same in the style of booktabs, all notes in the caption."""
    said = ". ".join(ability_legend(graded)) + ". " + " ".join(ability_notes(graded))
    return f"% Needs \\usepackage{{booktabs}}.\n\n{_latex_table(ability_table(graded), said)}\n"


def _letters(comparison: Comparison) -> list[str]:
    return [letter_of(index) for index in range(len(comparison.runs))]


def _tables(comparison: Comparison, published: Sequence[PublishedFigure]) -> list[Table]:
    """Return the tables: runs with their figures, types by runs, costs, latencies, repeats, published figures."""
    letters = _letters(comparison)
    any_check = any(one.summary.judge_check for one in comparison.runs)
    cells = [figure_cells(one, any_check) for one in comparison.runs]
    shown = [name for name in cells[0] if not name.startswith("latency")]
    rows = [
        [f"{letter} {name} {one.marks}".strip(), one.summary.model, *(cell[column] for column in shown)]
        for letter, name, one, cell in zip(letters, run_names(comparison), comparison.runs, cells, strict=True)
    ]
    caption = f"{comparison.dataset}, {question_count(comparison)}"
    runs = Table(
        caption,
        ["run", "model", *shown],
        rows,
        frozenset({0, 1}),
        apart=apart([one.summary for one in comparison.runs]),
    )
    by_type = [one.summary.metrics.by_type for one in comparison.runs]
    names = dict.fromkeys(name for scores in by_type for name in scores)
    type_rows = [[name, *(_score(scores.get(name)) for scores in by_type)] for name in names]
    types = Table("By question type, with 95 % interval", ["question type", *letters], type_rows)
    summaries = [one.summary for one in comparison.runs]
    tables = [make(summaries, letters) for make in (cost_table, latency_table, memory_model_table)]
    effort = [table for table in tables if table.rows]
    repeats = repeats_table(comparison, letters)
    others = published_table(published) if published else None
    lost = digest_table(comparison.digest)
    return [table for table in (runs, types, *effort, repeats, others, lost) if table and table.rows]


def _score(score: Score | None) -> str:
    return NOTHING if score is None else f"{percent(score.accuracy)} {interval(score)}"


def _bullets(sentences: list[str]) -> str:
    return "\n".join(f"- {escape_markdown(sentence)}" for sentence in sentences)


def _markdown_table(table: Table) -> str:
    rule = ["---" if index in table.left else "---:" for index in range(len(table.columns))]
    body = [[escape_markdown(cell) for cell in row] for row in table.rows]
    lines = [[escape_markdown(name) for name in table.columns], rule, *body]
    rows = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"**{escape_markdown(table.title)}**\n\n{rows}" if table.title else rows


def _latex_row(row: list[str]) -> str:
    """Return one line; a bracket at its beginning would be an argument of the line end before it."""
    text = " & ".join(map(escape_latex, row))
    return ("{}" if text.startswith("[") else "") + text + r" \\"


def _latex_table(table: Table, said: str) -> str:
    columns = "".join("l" if index in table.left else "r" for index in range(len(table.columns)))
    lines = [_latex_row(row) for row in (table.columns, *table.rows)]
    caption = escape_latex(f"{table.title}. {said}".strip())
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{caption}}}",
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            lines[0],
            r"\midrule",
            *lines[1 : len(lines) - table.apart],
            *([r"\midrule", *lines[-table.apart :]] if table.apart else []),
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
        ]
    )
