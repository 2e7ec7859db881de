"""Markdown and LaTeX: the same figures, every special character disarmed."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Literal

import pytest
from msgspec import structs

from longmemeval.core.tables.latex import LatexStyle, escape_latex, latex
from longmemeval.core.tables.table import Column, escape_markdown, tabulate
from longmemeval.errors import HarnessError
from longmemeval.report.charts.svg import looks_of
from longmemeval.report.page.templates import page_file
from longmemeval.report.write import ReportOptions, render_report, write_report
from longmemeval.settings import Folders
from tests.report.report_runs import hostile_run, many_runs, three_runs
from tests.support import longmemeval


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    return three_runs(tmp_path_factory.mktemp("runs"))


def test_markdown_has_the_figures_and_the_verdicts(folders: Folders) -> None:
    text = render_report(["good", "bad"], options=ReportOptions(format="md", judge="strict"), folders=folders)
    lines = text.splitlines()
    assert (
        r"| semantic (baseline) | offline/extractive | 91.7% | \[64.6, 98.5\] | 11 of 12 | 0 | 0.0% | 100.0% |"
        in lines[8]
    )
    assert lines[8].endswith("| 100 | $0.0100 |")
    assert any(line.startswith("| semantic | ") and r"100.0 \[51.0, 100.0\]" in line for line in lines)
    assert any(line.startswith(r"| last-k | -91.7 ▼ | \[") for line in lines)
    assert "**Cost in US dollars (reported)**" in lines
    assert "| semantic | $0 | $0 | $0.0100 | $0 | $0.0100 | $0.8333 |" in lines
    assert "**Latency per question in milliseconds (reported)**" in lines
    assert "| memory | recall p50 | recall p95 | model p50 | model p95 | total p50 | total p95 |" in lines
    assert "| semantic | 0.0 | 0.0 | 650 | 1,145 | 650 | 1,145 |" in lines


def test_latex_has_labels_short_captions_notes_and_daggers(folders: Folders) -> None:
    options = ReportOptions(format="latex", judge="strict")
    text = render_report(["good", "bad"], options=options, folders=folders)
    tables = text.split(r"\begin{table}")[1:]
    first, pairs = (
        next(one for one in tables if rf"\label{{tab:longmemeval-{name}}}" in one) for name in ("runs", "pairs")
    )
    assert r"\caption{colours, 12 questions" in first
    assert r"\label{tab:longmemeval-runs}" in first
    assert r"semantic (baseline) & 91.7\% & [64.6, 98.5] & 11 of 12" in first
    assert r"last-k (1 not graded) & 0.0\%\textsuperscript{\dag} &" in first
    # What is the same for all is said and no column.
    assert "model" not in first.partition(r"\midrule")[0]
    assert "Same for all: model offline/extractive" in first
    assert first.index(r"\end{tabular}") < first.index(r"\parbox")
    assert r"last-k & -91.7\textsuperscript{\dag} & [" in pairs
    assert "% Judge: test/strict, prompts: by hand. Not the official judge" in text
    chosen = structs.replace(options, columns=("prompt tokens", "cost"))
    assert "memory & prompt tokens & cost \\\\" in render_report(["good", "bad"], options=chosen, folders=folders)
    with pytest.raises(HarnessError, match="Did you mean 'prompt tokens'"):
        render_report(["good"], options=structs.replace(options, columns=("promt tokens",)), folders=folders)


def test_bibtex_names_data_judge_and_harness(folders: Folders) -> None:
    text = render_report(["good", "bad"], options=ReportOptions(format="bibtex", judge="strict"), folders=folders)
    assert [line.partition("{")[0] for line in text.splitlines() if line.startswith("@")] == [
        "@inproceedings",
        "@misc",
        "@software",
    ]


def typeset(tables: str, folder: Path) -> str:
    """Return what pdflatex says of a paper with these tables and no other packages than they name."""
    if shutil.which("pdflatex") is None:
        pytest.skip("not run: no TeX engine (apt-get install texlive-latex-recommended texlive-science)")
    folder.mkdir()
    named = re.search(r"% Needs (\\usepackage\{.*\})", tables)
    assert named is not None
    document = f"\\documentclass{{article}}\n\\usepackage[T1]{{fontenc}}\n{named[1]}\n\\begin{{document}}\n"
    document += "Table~\\ref{tab:longmemeval-runs}.\n" + tables + "\\end{document}\n"
    (folder / "paper.tex").write_text(document)
    line = ["pdflatex", "-halt-on-error", "-interaction=nonstopmode", "-no-shell-escape", "paper.tex"]
    logs = [
        subprocess.run(line, cwd=folder, capture_output=True, text=True, errors="replace", timeout=120, check=False)
        for _ in range(2)
    ]
    assert [one.returncode for one in logs] == [0, 0], logs[0].stdout[-2000:]
    assert (folder / "paper.pdf").stat().st_size > 5_000
    return logs[1].stdout


def overfull(log: str) -> list[str]:
    return [one for one in log.splitlines() if one.startswith("Overfull")]


@pytest.mark.parametrize("style", ["plain", "siunitx"])
def test_a_tex_engine_takes_tables_that_fit_the_page(folders: Folders, tmp_path: Path, style: LatexStyle) -> None:
    options = ReportOptions(format="latex", judge="strict", latex_style=style)
    log = typeset(render_report(["good", "good-again", "bad"], options=options, folders=folders), tmp_path / "three")
    assert "undefined references" not in log
    assert overfull(log) == []
    hostile = render_report(["one", "two"], options=structs.replace(options, judge=None), folders=hostile_run(tmp_path))
    typeset(hostile, tmp_path / "hostile")


@pytest.mark.slow
@pytest.mark.parametrize("style", ["plain", "siunitx"])
def test_fifteen_runs_fit_the_page(tmp_path: Path, style: LatexStyle) -> None:
    """Wide tables are turned, set smaller or split, and say so."""
    fifteen = many_runs(tmp_path, 15)
    runs = [f"run-{place:02}" for place in range(15)]
    tables = render_report(runs, options=ReportOptions(format="latex", latex_style=style), folders=fifteen)
    log = typeset(tables, tmp_path / "paper")
    assert overfull(log) == []
    assert "undefined references" not in log
    assert r"Further columns: Table~\ref{tab:longmemeval-matrix-2}" in tables
    types = next(one for one in tables.split(r"\begin{table}") if "By question type" in one)
    assert "run & " in types.replace("{", "").replace("}", "")  # Turned: a row per run.


def test_numbers_are_aligned_with_their_unit_said_once() -> None:
    columns: list[Column[tuple[str, str, str | None]]] = [
        Column("run", lambda row: row[0], "text"),
        Column("score", lambda row: row[1]),
        Column("n", lambda row: row[2]),
    ]
    table = tabulate("Scores", columns, [("a", "91.7% !", "1,200"), ("b", "-3.0%†", None), ("c", "7.25%", "3")])
    text = latex(table, style="siunitx")
    assert (
        r"\begin{tabular}{lS[table-format=+2.2,table-space-text-post={\textsuperscript{\dag}}]S[table-format=4]}"
        in text
    )
    assert r"run & {score (\%)} & {n} \\" in text
    assert "a & 91.7{!} & 1200" in text
    assert r"b & -3.0{\textsuperscript{\dag}} & {--} \\" in text
    assert "91.7\\% ! & 1,200" in latex(table)


@pytest.mark.parametrize(
    ("text", "latex", "markdown"),
    [
        ("a_b & 5%", r"a\_b \& 5\%", r"a\_b \& 5%"),
        ("\\~^", r"\textbackslash{}\textasciitilde{}\textasciicircum{}", r"\\\~^"),
        ("{x}|$1#<", r"\{x\}|\$1\#\textless{}", r"\{x\}\|$1\#\<"),
        ("≥ two\nlines\x07", r"$\geq$ two lines$\langle$U+0007$\rangle$", "≥ two lines⟨U+0007⟩"),
    ],
)
def test_special_characters(text: str, latex: str, markdown: str) -> None:
    assert escape_latex(text) == latex
    assert escape_markdown(text) == markdown


def test_hostile_names_stay_in_their_cell(tmp_path: Path) -> None:
    folders = hostile_run(tmp_path)
    markdown = render_report(["one", "two"], options=ReportOptions(format="md"), folders=folders)
    table = [line for line in markdown.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in table[:4]} == {11}
    assert not re.search(r"(?<!\\)<script", markdown)
    latex = render_report(["one", "two"], options=ReportOptions(format="latex"), folders=folders)
    rows = [line for line in latex.splitlines() if line.startswith(r"\textless{}script")]
    assert len(rows) > 4
    tabulars = re.findall(r"\\begin\{tabular\}\{(\w+)\}(.*?)\\end\{tabular\}", latex, re.DOTALL)
    for columns, body in tabulars:
        lines = [line for line in body.splitlines() if line.endswith(r"\\")]
        assert {len(re.findall(r"(?<!\\)&", line)) for line in lines} == {len(columns) - 1}
    assert not re.search(r"(?<!\\)[$#_]", re.sub(r"\$\\(?:geq|uparrow|downarrow|langle|rangle)\$", "", latex))


@pytest.mark.parametrize(("format", "name"), [("md", "report.md"), ("latex", "report.tex")])
def test_the_default_file_ends_as_its_format(
    folders: Folders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    options = {"md": ReportOptions(format="md"), "latex": ReportOptions(format="latex")}[format]
    written = write_report(["bad"], options=options, folders=folders)
    assert (written.file, written.bytes, written.runs, written.questions) == (
        name,
        (tmp_path / name).stat().st_size,
        1,
        12,
    )


@pytest.mark.slow
@pytest.mark.parametrize(("format", "name"), [("md", "report.md"), ("latex", "report.tex"), ("html", "page.html")])
def test_only_a_report_is_replaced(
    folders: Folders, tmp_path: Path, format: Literal["md", "latex", "html"], name: str
) -> None:
    file, options = tmp_path / name, ReportOptions(format=format)
    write_report(["bad"], file, options=options, folders=folders)
    once = file.read_bytes()
    write_report(["bad"], file, options=options, folders=folders)
    assert file.read_bytes() == once
    file.write_text("My notes on the longmemeval report.\n")
    with pytest.raises(HarnessError, match="was not written by `longmemeval report`") as refused:
        write_report(["bad"], file, options=options, folders=folders)
    assert "--force" in str(refused.value)
    assert file.read_text() == "My notes on the longmemeval report.\n"
    write_report(["bad"], file, options=options, folders=folders, force=True)
    assert file.read_bytes() == once


def test_force_replaces_a_file_that_is_no_report(folders: Folders, tmp_path: Path) -> None:
    notes = tmp_path / "notes.md"
    notes.write_text("mine")
    line: list[str | Path] = [
        "report",
        "bad",
        "--format",
        "md",
        "--output",
        notes,
        "--results-dir",
        folders.results_dir,
    ]
    refused = longmemeval(*line, cwd=tmp_path, code=2)
    assert "notes.md" in refused.stderr
    assert notes.read_text() == "mine"
    longmemeval(*line, "--force", cwd=tmp_path)
    assert "longmemeval report" in notes.read_text()


def colour_of(memory: str, *, dark: bool) -> str:
    """The colour of a memory of that name, as the style sheet has it."""
    (look,) = looks_of([memory], [(False, False)])
    found = re.search(rf"--run-{look.colour}: light-dark\((#\w+), (#\w+)\)", page_file("palette.css"))
    assert found is not None
    return found[2 if dark else 1]


@pytest.mark.thorough
@pytest.mark.slow
def test_figures_are_svg_and_pdf_for_paper(folders: Folders, tmp_path: Path) -> None:
    options = ReportOptions(format="figures", judge="strict")
    folder = tmp_path / "figures"
    write_report(["good", "bad"], folder, options=options, folders=folders)
    names = {one.name for one in folder.iterdir()}
    assert {"overall.svg", "overall-dark.svg", "overall.pdf", "tokens.pdf"} < names
    assert (folder / "overall.pdf").read_bytes().startswith(b"%PDF")
    light, dark = ((folder / name).read_text() for name in ("overall.svg", "overall-dark.svg"))
    assert colour_of("semantic", dark=False) in light
    assert colour_of("semantic", dark=True) in dark
    assert not re.search(r"var\(|#0101", light + dark)
    once = {one: one.read_bytes() for one in folder.iterdir()}
    with pytest.raises(HarnessError, match="The folder already has files"):
        write_report(["good", "bad"], folder, options=options, folders=folders)
    write_report(["good", "bad"], folder, options=options, folders=folders, force=True)
    assert {one: one.read_bytes() for one in folder.iterdir()} == once
