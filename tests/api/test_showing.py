"""Runs, evaluations and comparisons show themselves: text, HTML, plain data, data frames, charts, LaTeX."""

import json
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from xml.etree import ElementTree

import pytest

import longmemeval as lme
from longmemeval.cli.main import main
from longmemeval.cli.output import out
from longmemeval.core.tables.showing import Showing
from longmemeval.errors import HarnessError
from longmemeval.results.formats.question_frame import question_rows
from longmemeval.results.run_questions import RunQuestions, dataset_of
from tests.pipeline.helpers import MODEL, colour_record

OFFLINE = "offline/lexical"
HOSTILE = '<img src=x onerror="alert(1)"> & 50% $x_1 \\input{a} [red]#~^'


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


@pytest.fixture
def data() -> lme.Data:
    return lme.load_dataset([colour_record(number) for number in range(4)], name="colours")


@pytest.fixture
def none(data: lme.Data) -> lme.Evaluation:
    return lme.run(data, "none", MODEL, name="nothing").evaluate(OFFLINE)


@pytest.fixture
def full(data: lme.Data) -> lme.Evaluation:
    return lme.run(data, "full-history", MODEL, name="everything").evaluate(OFFLINE)


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[[str], str]:
    """What a command prints on a terminal of 100 columns."""
    monkeypatch.setattr(out.console, "_width", 100)
    monkeypatch.setattr(out.console, "soft_wrap", False)

    def call(line: str) -> str:
        monkeypatch.setattr(sys, "argv", ["longmemeval", *line.split()])
        capsys.readouterr()
        with suppress(SystemExit):
            main()
        return "\n".join(one.rstrip() for one in capsys.readouterr().out.splitlines())

    return call


@pytest.mark.slow
def test_text_and_plain_data_are_what_the_command_line_prints(
    none: lme.Evaluation, full: lme.Evaluation, printed: Callable[[str], str], folder: Path
) -> None:
    both = lme.compare(none, full)
    shown, _, more = printed("compare nothing everything").partition("\nDetails: ")
    in_full = " ".join(str(both).split())  # From Python, paths are absolute: such lines break elsewhere.
    assert (in_full.replace(f"{folder}/", ""), "--pairs" in more) == (" ".join(shown.split()), True)
    again = lme.evaluate("everything", OFFLINE)
    in_full = " ".join(str(again).split())
    assert in_full.replace(f"{folder}/", "") == " ".join(
        printed(f"evaluate everything --judge {OFFLINE}").partition("\nNext steps:")[0].split()
    )
    for held, command in ((both, "compare nothing everything"), (again, f"evaluate everything --judge {OFFLINE}")):
        document = json.loads(json.dumps(held.to_dict()).replace(f"{folder}/", ""))
        assert document == json.loads(printed(f"{command} --json"))
    run = lme.Run.open("everything")
    state, told = run.to_dict(), json.loads(printed("status everything --json"))
    for work in (*state["work"], *told["work"]):
        assert work.pop("quiet_s") >= 0  # Seconds until now.
    assert state == told
    on = run.manifest.dataset["name"]
    in_words = f"everything: full-history, {MODEL} on {on}, 4 of 4 questions answered (completed). "
    assert " ".join(str(run).split()).startswith(in_words)


def same(shown: list[dict[str, object]], rows: list[Mapping[str, object]]) -> None:
    """The rows of a data frame have the values of `rows`; where those have None, they have NaN or NA."""
    import pandas

    assert [set(row) for row in shown] == [set(row) for row in rows]
    known = [{name for name, value in row.items() if value is not None} for row in rows]
    assert [{name for name, value in row.items() if pandas.notna(value)} for row in shown] == known
    for one, row, names in zip(shown, rows, known, strict=True):
        assert {name: one[name] for name in names} == {name: row[name] for name in names}


@pytest.mark.slow
def test_a_data_frame_of_questions_is_that_of_the_export(none: lme.Evaluation, full: lme.Evaluation) -> None:
    pytest.importorskip("pandas")
    frame, label = full.to_pandas(), f"label {full.metrics.judge.id}"
    rows = frame.to_dict("records")
    same(rows, list(question_rows(full)))
    assert [row["question_id"] for row in rows] == ["q0", "q1", "q2", "q3"]
    first, answer = rows[0], full.answers["q0"]
    assert (first["question"], first["gold"]) == ("What colour is my bicycle0?", "red")
    assert (first["question_type"], first[label], first["evidence_recall"]) == ("single-session-user", True, 1.0)
    assert (first["hypothesis"], first["prompt_tokens"]) == (answer.hypothesis, answer.prompt_tokens)
    assert (first["latency_ms"], first["cost_usd"]) == (answer.latency_ms, 0.0)
    missed = none.to_pandas().to_dict("records")[0]
    assert (missed[label], missed["evidence_recall"], missed["lost_at"] is None) == (False, 0.0, False)
    types = [str(frame.dtypes[name]) for name in (label, "prompt_tokens", "cost_usd")]
    assert types == ["boolean", "Int64", "float64"]


def test_a_run_in_hand_shows_no_gold_though_it_was_graded(full: lme.Evaluation) -> None:
    pytest.importorskip("pandas")
    run = lme.Run.open(full.id)
    frame = run.to_pandas()
    asked = RunQuestions(run.manifest, dataset_of(run.manifest, None, run.folders))
    same(frame.to_dict("records"), list(question_rows(run.files, asked.questions)))
    of_gold = ("gold", "label", "score", "question_type", "ability", "lost", "evidence", "unanswerable")
    assert [name for name in full.to_pandas().columns if name.startswith(of_gold)]
    assert not [name for name in frame.columns if name.startswith(of_gold)]


@pytest.mark.slow
def test_a_data_frame_of_a_comparison_has_a_row_per_run(none: lme.Evaluation, full: lme.Evaluation) -> None:
    pytest.importorskip("pandas")
    both = lme.compare(none, full)
    first, second = both.to_pandas().to_dict("records")
    assert (first["run"], first["memory"], first["questions"]) == ("nothing", "none", 4)
    (pair,) = both.pairs
    assert (second["score"], second["low"], second["high"]) == (full.score, *full.interval)
    assert (second["difference"], second["p_holm"]) == (-pair.difference, pair.p_holm)
    assert (second["difference_low"], second["difference_high"]) == (-pair.interval[1], -pair.interval[0])
    assert first["difference"] != first["difference"], "NaN"
    assert second["prompt_tokens"] == full.summary.mean_prompt_tokens
    assert second["latency_p95_ms"] == full.latency.total.p95


def test_hostile_text_is_escaped() -> None:
    records = [colour_record(number, answer=HOSTILE) for number in range(2)]
    records[0]["haystack_sessions"][1][0]["content"] = f"I painted my bicycle0 {HOSTILE}"
    run = lme.run(lme.load_dataset(records, name="odd"), lme.Memory("full-history", label=HOSTILE), MODEL, name="odd")
    graded = run.evaluate(OFFLINE)
    assert "<img" in graded.answers["q0"].hypothesis
    for held in (run, graded, lme.compare(graded)):
        shown = held._repr_html_()
        assert "<img" not in shown
        assert "&lt;img src=x onerror=&quot;alert(1)&quot;&gt; &amp; 50%" in shown
        ElementTree.fromstring(f"<div>{shown}</div>")  # Nothing but whole elements.
    for one in (graded, lme.compare(graded)):
        written = one.to_latex()
        assert "\\input{a}" not in written
        assert r"\& 50\% \$x\_1 \textbackslash{}input\{a\} [red]\#\textasciitilde{}\textasciicircum{}" in written
        balanced(written)


def balanced(latex: str) -> None:
    """Every row of a tabular has as many cells as the tabular has columns."""
    for part in latex.split("\\begin{tabular}{")[1:]:
        columns, _, rest = part.partition("}\n")
        columns = re.sub(r">\{[^{}]*\}p\{\w+\}", "p", columns)  # Of prose, which takes several lines.
        rows = [line for line in rest.partition("\\end{tabular}")[0].splitlines() if line.endswith("\\\\")]
        assert len(rows) > 1
        assert {row.replace("\\&", "").count("&") + 1 for row in rows} == {len(columns)}


@pytest.mark.slow
def test_latex_is_whole_tables(none: lme.Evaluation, full: lme.Evaluation) -> None:
    for held in (lme.Run.open("everything"), full, lme.compare(none, full)):
        written = held.to_latex()
        assert written.startswith("% Needs \\usepackage{array,booktabs}.")
        assert written.count("\\begin{tabular}") == written.count("\\end{tabular}") >= 1
        assert "\\caption{.}" not in written
        balanced(written)
    with pytest.raises(AssertionError):
        balanced("\\begin{tabular}{ll}\na & b \\\\\nc \\\\\n\\end{tabular}")


@pytest.mark.thorough
@pytest.mark.slow
def test_charts_are_those_of_the_report(none: lme.Evaluation, full: lme.Evaluation, folder: Path) -> None:
    pytest.importorskip("matplotlib")
    both = lme.compare(none, full)
    drawn = both.plot()
    assert (drawn.name, drawn._repr_svg_()) == ("overall", drawn.svg)
    assert ElementTree.fromstring(drawn.svg).tag == "{http://www.w3.org/2000/svg}svg"
    assert "var(" not in drawn.svg
    assert full.plot().name == "types"
    assert both.plot("latency").title == lme.Run.open("everything").plot().title
    assert drawn.save(folder / "scores.svg").read_text() == drawn.svg
    with pytest.raises(HarnessError, match="saved as SVG"):
        drawn.save("scores.png")
    with pytest.raises(HarnessError, match="unknown chart"):
        both.plot("overal")
    wrong: Callable[..., object] = both.plot
    with pytest.raises(HarnessError, match="Did you mean 'chart'"):
        wrong(chrt="types")


@pytest.mark.parametrize(
    ("library", "how", "extra"),
    [("pandas", Showing.to_pandas, "pandas"), ("matplotlib", Showing.plot, "report")],
)
def test_a_missing_library_is_named_with_its_extra(
    full: lme.Evaluation, monkeypatch: pytest.MonkeyPatch, library: str, how: Callable[[Showing], object], extra: str
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    for held in (full, lme.compare(full), lme.Run.open(full.id)):
        with pytest.raises(HarnessError) as told:
            how(held)
        assert f"[{extra}]'" in str(told.value)
