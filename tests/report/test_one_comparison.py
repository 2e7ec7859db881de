"""One comparison, whoever shows it: terminal, Python, notebook, pages, Markdown, LaTeX and `--json` say the same."""

import json
import re
import sys
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import pytest

import longmemeval as lme
from longmemeval.benchmarks.longmemeval.loader import LongMemEvalDataset
from longmemeval.cli.main import main
from longmemeval.core.tables.latex import escape_latex
from longmemeval.core.tables.table import escape_markdown
from longmemeval.core.text.figures import signed
from longmemeval.pipeline.compare import compare as comparing
from longmemeval.pipeline.compare import sentences, verdict
from longmemeval.pipeline.compare.columns import RUN_COLUMNS, ShownColumn
from longmemeval.pipeline.compare.compare import compare_runs
from longmemeval.pipeline.compare.comparison import ComparedRun, Comparison
from longmemeval.pipeline.compare.sentences import TEMPLATES, Sentence
from longmemeval.report.charts import of_comparison as charts
from longmemeval.report.charts.svg import shown_rows
from longmemeval.report.options import ReportFormat
from longmemeval.report.write import ReportOptions, render_report
from longmemeval.settings import Folders
from tests.pipeline.graded_runs import Credit
from tests.pipeline.helpers import colour_record, compare, folders_in
from tests.report.report_runs import full_run
from tests.sources import PACKAGE
from tests.support import write_dataset
from tests.view.client import visitor

N = 24
NAMED = ("gold", "whole", "close", "far")
"""The runs in the order named: the oracle first, which is no baseline, then the full history."""
MEMORIES = {"gold": "oracle", "whole": "full-history", "close": "bm25", "far": "last-k"}
RIGHT = {"gold": 24, "whole": 20, "close": 22, "far": 2}
TOKENS = {"gold": 1_300, "whole": 9_000, "close": 700, "far": 110}
MEDIA = ("terminal", "python", "notebook", "page", "view", "markdown", "latex", "json")
TABLES = tuple(name for name in MEDIA if name != "json")
MARKS = {"latex": r"\textsuperscript{\dag}"}
"""The mark of a memory that is significantly worse, where it is no arrow."""


def preset(name: str, **others: object) -> dict[str, Any]:
    """Settings of a run with that preset, which tells controls and the full history from memories."""
    memory = {"name": name, "preset": name, "parameters": {}}
    return {"memory": memory, "reads_gold": name == "oracle", **others}


def questions(path: Path) -> LongMemEvalDataset:
    types = ("single-session-user", "multi-session", "temporal-reasoning")
    records = (colour_record(number, question_type=types[number % 3]) for number in range(N))
    return LongMemEvalDataset(write_dataset(path, *records))


def first_right(dataset: LongMemEvalDataset, right: int) -> dict[str, Credit]:
    return {question.question_id: place < right for place, question in enumerate(dataset.questions())}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    path = tmp_path_factory.mktemp("one")
    dataset, folders = questions(path / "colours.json"), folders_in(path)
    for place, (run_id, memory) in enumerate(MEMORIES.items(), start=1):
        credits = first_right(dataset, RIGHT[run_id])
        options: dict[str, Any] = {"tokens": TOKENS[run_id], "cost": place / 100}
        full_run(dataset, folders, run_id, credits, settings=preset(memory), **options)
    return folders


Show = Callable[..., str]


@pytest.fixture
def show(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Show:
    """What a medium shows of runs, as text: no elements, no escapes, one space between words."""

    def terminal(folders: Folders, runs: tuple[str, ...], *options: str) -> str:
        places = [f"--results-dir={folders.results_dir}", f"--prepared-dir={folders.prepared_dir}"]
        monkeypatch.setattr(sys, "argv", ["longmemeval", "compare", *runs, *places, *options])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        assert not ended.value.code, printed.err
        return printed.out

    def raw(medium: str, folders: Folders, runs: tuple[str, ...]) -> str:
        if medium in ("terminal", "json"):
            return terminal(folders, runs, *(["--json"] if medium == "json" else []))
        if medium in ("python", "notebook"):
            found = lme.compare(*runs, folders=folders)
            return str(found) if medium == "python" else found._repr_html_()
        if medium == "view":
            answer = visitor(folders).get("/compare?" + "&".join(f"run={run}" for run in runs))
            assert answer.status_code == 200
            return str(answer.text)
        formats: dict[str, ReportFormat] = {"page": "html", "markdown": "md", "latex": "latex"}
        return render_report(runs, options=ReportOptions(format=formats[medium]), folders=folders)

    monkeypatch.setenv("COLUMNS", "240")
    return raw


def plain(medium: str, text: str) -> str:
    """The text of a medium without its markup."""
    if medium in ("page", "view", "notebook"):
        text = unescape(re.sub(r"<(script|style)\b.*?</\1>|<[^>]*>", " ", text, flags=re.DOTALL))
        return words(text).replace("\N{MINUS SIGN}", "-")
    if medium == "latex":  # Headings are broken into lines.
        text = text.replace("\\\\", " ")
    return words(text)


def words(text: str) -> str:
    return " ".join(text.split())


def escaped(medium: str, sentence: str) -> str:
    """A sentence as a medium writes it, before `plain`."""
    escapes: dict[str, Callable[[str], str]] = {"markdown": escape_markdown, "latex": escape_latex}
    return words(escapes.get(medium, str)(sentence))


def says(medium: str, text: str, sentence: str) -> bool:
    """Whether the sentence is in the text; a page breaks it into elements, which leave spaces."""
    shown, wanted = plain(medium, text), escaped(medium, sentence)
    return wanted.replace(" ", "") in shown.replace(" ", "")


def scores_in(medium: str, text: str) -> list[str]:
    """The rows of the first table of runs, markup apart, from top to bottom."""
    names = "|".join(MEMORIES.values())
    if medium in ("page", "view", "notebook"):
        table = re.search(r"<table class=\"list stack scores\">.*?</table>|<table.*?</table>", text, re.DOTALL)
        assert table
        return [plain(medium, row) for row in re.findall(r"<tr.*?</tr>", table[0], re.DOTALL)[1:]]
    begin = {"markdown": r"\| ", "latex": ""}.get(medium, r" *")
    end = {"markdown": r" [(|]", "latex": r" [(&]"}.get(medium, r" .*\d\.\d \[")
    rows = [line for line in text.splitlines() if re.match(f"{begin}({names}){end}", line)]
    return [words(row.replace("\\%", "%")) for row in rows[: len(MEMORIES)]]


@pytest.fixture(scope="module")
def found(folders: Folders) -> Comparison:
    return compare(["whole", "close", "far", "gold"], folders=folders)


def test_the_full_history_is_the_baseline_and_memories_are_what_the_verdict_is_about(found: Comparison) -> None:
    """What the media below have to agree on, counted by hand."""
    assert found.verdict.baseline == "whole"
    assert found.verdict.run == "close"
    assert [row.run_id for row in found.ranked] == ["close", "whole", "far", "gold"]
    (said,) = [one for one in found.sentences if one.code == found.verdict.code]
    assert (said.runs, said.kind) == ({"A": ("close",), "B": ("whole",)}, "verdict")
    assert (said.values["a"], said.values["b"]) == (22 / N, 20 / N)
    assert {row.run_id: row.marks for row in found.rows} == {"whole": "", "close": "", "far": "▼", "gold": ""}


@pytest.mark.parametrize("medium", MEDIA)
@pytest.mark.slow
def test_every_medium_says_the_same_verdict(medium: str, folders: Folders, found: Comparison, show: Show) -> None:
    text = show(medium, folders, NAMED)
    if medium == "json":
        document = json.loads(text)
        verdict = document["verdict"]
        assert (verdict["text"], verdict["more"]) == (found.verdict.text, found.verdict.more)
        assert (verdict["run"], verdict["baseline"]) == ("close", "whole")
        assert [one["code"] for one in document["sentences"]] == [one.code for one in found.sentences]
        return
    assert says(medium, text, found.verdict.text)
    assert says(medium, text, found.verdict.more)


@pytest.mark.parametrize("medium", TABLES)
@pytest.mark.slow
def test_every_medium_shows_the_same_table(medium: str, folders: Folders, found: Comparison, show: Show) -> None:
    rows = scores_in(medium, show(medium, folders, NAMED))
    assert [row.lstrip("| ").split()[0] for row in rows] == [MEMORIES[row.run_id] for row in found.ranked]
    for row, figures in zip(rows, found.ranked, strict=True):
        run_id = figures.run_id
        assert re.search(rf"(?<![\d.]){RIGHT[run_id] / N * 100:.1f}(?![\d.])", row), row
        assert re.search(rf"(?<![\d,]){TOKENS[run_id]:,}(?![\d,])", row), row
        assert ("baseline" in row) == (run_id == "whole"), row
        if pair := found.from_baseline.get(run_id):
            # Papers have the differences in a table of their own.
            own = medium in ("markdown", "latex") or signed(pair.difference) in row
            assert own, row
            assert (MARKS.get(medium, "▼") in row) == (run_id == "far"), row


@pytest.mark.parametrize("medium", ["markdown", "latex"])
@pytest.mark.slow
def test_papers_show_the_same_differences(medium: str, folders: Folders, found: Comparison, show: Show) -> None:
    text = show(medium, folders, NAMED)
    begin, between, mark = ("| ", " | ", " ▼") if medium == "markdown" else ("", " & ", MARKS["latex"])
    for pair in found.against:
        difference = signed(pair.difference) + (mark if pair.significant else "")
        assert f"\n{begin}{MEMORIES[pair.a]}{between}{difference}{between}" in text


@pytest.mark.slow
def test_data_has_the_same_figures(folders: Folders, found: Comparison, show: Show) -> None:
    rows = json.loads(show("json", folders, NAMED))["rows"]
    frame: Any = lme.compare(*NAMED, folders=folders).to_pandas()
    for one in rows:
        pair = found.from_baseline.get(one["run"])
        assert (one["score"], one["prompt_tokens"]) == (RIGHT[one["run"]] / N, TOKENS[one["run"]])
        assert one["memory"] == MEMORIES[one["run"]]
        expected = (pair.difference, pair.p_holm, pair.significant) if pair else (None, None, None)
        assert (one["difference"], one["p_holm"], one["significant"]) == expected
    assert [one["run"] for one in rows if one["difference"] is None] == ["whole"]
    by_run = {row["run"]: row for row in frame.astype("object").where(frame.notna(), None).to_dict("records")}
    assert {one["run"]: one for one in rows} == by_run
    assert [*rows[0]] == [*frame.columns]


@pytest.mark.slow
def test_the_baseline_asked_for_is_that_of_every_medium(folders: Folders, show: Show) -> None:
    """Named in another order, the first that does not read the gold evidence."""
    order = ("gold", "far", "whole", "close")
    expected = compare(["far", "whole", "close", "gold"], folders=folders).verdict
    assert expected.baseline == "far"
    for medium in TABLES:
        assert says(medium, show(medium, folders, order), expected.text), medium
    assert json.loads(show("json", folders, order))["verdict"]["text"] == expected.text


@pytest.mark.slow
def test_a_report_written_from_a_comparison_says_its_verdict(folders: Folders, tmp_path: Path) -> None:
    """Its family of tests, its margin and its baseline are its own."""
    graded = lme.compare("gold", "whole", "close", folders=folders).evaluations
    comparisons = {
        "pairs": lme.compare("whole", "close", "far", folders=folders, pairs=True),
        "margin": lme.compare("whole", "close", "far", folders=folders, margin=0.5),
        # A ceiling that is asked for.
        "gold": compare_runs(sorted(graded, key=lambda run: run.id != "gold"), folders),
    }
    said = {name: one.report(tmp_path / f"{name}.md").read_text() for name, one in comparisons.items()}
    assert [name for name, one in comparisons.items() if not says("markdown", said[name], one.verdict.text)] == []


@pytest.mark.slow
def test_a_report_on_common_questions_is_written_from_a_comparison(folders: Folders, tmp_path: Path) -> None:
    """A run of fewer questions beside a whole one."""
    own = with_repeats(tmp_path)
    dataset = LongMemEvalDataset(tmp_path / "colours.json")
    some = dict(list(first_right(dataset, 20).items())[:12])
    full_run(dataset, own, "part", some, settings=preset("hybrid"))
    comparison = lme.compare("whole", "part", common=True, folders=own)
    assert len(comparison.questions) == 12
    text = comparison.report(tmp_path / "common.md").read_text()
    assert says("markdown", text, comparison.verdict.text)


@pytest.fixture
def with_column(monkeypatch: pytest.MonkeyPatch) -> ShownColumn[ComparedRun]:
    """One more entry of RUN_COLUMNS, wherever it is held."""
    added: ShownColumn[ComparedRun] = ShownColumn(
        "length_of_id",
        dict.fromkeys(("terminal", "page", "paper", "frame"), "letters of id"),
        lambda comparison, row: len(row.run_id),
        lambda value: f"{value} letters",
    )
    wider = (*RUN_COLUMNS, added)
    for path in PACKAGE.rglob("*.py"):
        if "RUN_COLUMNS" in path.read_text():
            name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
            monkeypatch.setattr(f"{name}.RUN_COLUMNS", wider)
    return added


@pytest.mark.parametrize("medium", TABLES)
@pytest.mark.slow
def test_a_column_is_one_entry(medium: str, with_column: object, folders: Folders, show: Show) -> None:
    text = show(medium, folders, NAMED)
    assert "letters of id" in plain(medium, text)
    # What does not fit the width of a paper goes to a second table.
    rows = text.splitlines() if medium == "latex" else scores_in(medium, text)
    for run_id, memory in MEMORIES.items():
        of_memory = [row for row in rows if row.lstrip("| ").startswith(memory)]
        assert any(f"{len(run_id)} letters" in row for row in of_memory), memory


@pytest.mark.slow
def test_a_column_is_one_entry_in_data_too(with_column: object, folders: Folders, show: Show) -> None:
    rows = json.loads(show("json", folders, NAMED))["rows"]
    frame: Any = lme.compare(*NAMED, folders=folders).to_pandas()
    assert {one["run"]: one["letters of id"] for one in rows} == {run_id: len(run_id) for run_id in MEMORIES}
    assert dict(zip(frame["run"], frame["letters of id"], strict=True)) == {run_id: len(run_id) for run_id in MEMORIES}


KINDS: tuple[sentences.Kind, ...] = ("verdict", "caution")


@pytest.fixture(params=KINDS)
def with_sentence(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Sentence:
    """One more template, and one place that uses it: a verdict's, or that of settings that differ."""
    added = Sentence("added-by-a-test", {"x": 0.125}, {"A": ("close",)}, request.param)
    monkeypatch.setitem(TEMPLATES, "added-by-a-test", "Said by a test of {A}: {x:percent}.")
    if request.param == "verdict":
        monkeypatch.setattr(verdict, "_limits", lambda *given: iter([added]))
    else:
        monkeypatch.setattr(comparing, "what_differs", lambda *given: iter([added]))
    return added


@pytest.mark.parametrize("medium", MEDIA)
@pytest.mark.slow
def test_a_sentence_is_one_entry(medium: str, with_sentence: Sentence, folders: Folders, show: Show) -> None:
    text = show(medium, folders, NAMED)
    if medium == "json":
        document = json.loads(text)
        (said,) = [one for one in document["sentences"] if one["code"] == with_sentence.code]
        assert (said["values"], said["runs"], said["kind"]) == ({"x": 0.125}, {"A": ["close"]}, with_sentence.kind)
        where = document["verdict"]["more"] if with_sentence.kind == "verdict" else " ".join(document["warnings"])
        assert "Said by a test of bm25: 12.5%." in where
        return
    assert says(medium, text, "Said by a test of bm25: 12.5%.")


def with_repeats(path: Path) -> Folders:
    """The full history once, `bm25` in three repeats that are right on 20, 21 and 22 of 24 questions, and `last-k`."""
    dataset, folders = questions(path / "colours.json"), folders_in(path)
    full_run(dataset, folders, "whole", first_right(dataset, 20), settings=preset("full-history"))
    for repeat in (1, 2, 3):
        credits, settings = first_right(dataset, 19 + repeat), preset("bm25", repeat=repeat)
        full_run(dataset, folders, f"again-{repeat}", credits, settings=settings)
    full_run(dataset, folders, "far", first_right(dataset, 2), settings=preset("last-k"))
    return folders


REPEATED = ("whole", "again-1", "again-2", "again-3", "far")


@pytest.fixture(scope="module")
def repeated(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    return with_repeats(tmp_path_factory.mktemp("repeated"))


@pytest.mark.parametrize("medium", TABLES)
@pytest.mark.slow
def test_repeats_are_one_row_of_every_table(medium: str, repeated: Folders, show: Show) -> None:
    rows = scores_in(medium, show(medium, repeated, REPEATED))[:3]
    assert [row.lstrip("| ").split()[0] for row in rows] == ["bm25", "full-history", "last-k"]
    assert "3 repeats" in rows[0]
    assert re.search(r"(?<![\d.])87\.5(?![\d.])", rows[0])  # (20 + 21 + 22) / 72


@pytest.mark.slow
def test_repeats_are_one_row_of_data_and_one_point_of_charts(repeated: Folders, show: Show) -> None:
    document = json.loads(show("json", repeated, REPEATED))
    assert [(one["run"], one["repeats"]) for one in document["rows"]] == [("whole", 1), ("again-1", 3), ("far", 1)]
    assert [one["run"] for one in document["runs"]] == list(REPEATED)
    found = compare(REPEATED, folders=repeated)
    shown = shown_rows(found)
    assert [one.name for one in shown] == ["full-history", "bm25", "last-k"]
    drawn = [
        charts.overall_chart(found, shown),
        charts.group_chart("types", "By question type", found, shown, lambda metrics: metrics.by_type),
        charts.loss_chart(found, shown),
        *charts.tradeoff_charts(found, shown),
    ]
    for chart in drawn:
        assert chart is not None
        named = {cell for row in chart.figures.rows for cell in row} & set(found.names.values())
        assert named <= {"full-history", "bm25", "last-k"}, chart.name
        assert "(repeat 2)" not in chart.svg, chart.name


@pytest.mark.slow
def test_the_matrix_of_questions_has_a_column_per_run(repeated: Folders) -> None:
    address = "&".join(f"run={run}" for run in REPEATED)
    matrix = visitor(repeated).get(f"/data/questions?{address}").json()
    assert [run["id"] for run in matrix["runs"]] == list(REPEATED)
    assert [run["labels"].count("1") for run in matrix["runs"]] == [20, 20, 21, 22, 2]
    assert matrix["repeats"] == [[1, 2, 3]]
    # Repeats look alike, and no other run looks like them.
    looks = [(run["colour"], run["path"]) for run in matrix["runs"]]
    assert len({*looks[1:4]}) == 1
    assert len({looks[0], looks[1], looks[4]}) == 3
    page = render_report(REPEATED, folders=repeated)
    data = json.loads(re.findall(r'id="page-data">(.*?)</script>', page, re.DOTALL)[0])
    assert [run["name"] for run in data["runs"]] == [
        "full-history",
        "bm25",
        "bm25 (repeat 2)",
        "bm25 (repeat 3)",
        "last-k",
    ]
    assert {len(row["credits"]) for row in data["rows"]} == {5}
