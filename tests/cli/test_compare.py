"""`longmemeval compare`: tables, the document, and exit code 4 for a run that is worse than its baseline."""

import json
import re
from pathlib import Path

import pytest

from longmemeval.benchmarks.locomo.loader import LocomoDataset
from longmemeval.benchmarks.longmemeval.loader import LongMemEvalDataset
from longmemeval.pipeline.evaluate.evaluate import evaluate
from longmemeval.results.formats.hypotheses import adopt_hypotheses
from tests.benchmarks.locomo.test_loader import make_conversation
from tests.benchmarks.longmemeval.test_loader import write
from tests.cli.conftest import Command
from tests.pipeline.graded_runs import graded_run, labels
from tests.pipeline.helpers import colours, folders_in
from tests.support import next_steps


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with graded runs over 100 questions: good 80, fair 75, bad 50 and odd 80 right."""
    dataset, folders = colours(tmp_path / "d.json", 100), folders_in(tmp_path)
    for run_id, right in (("good", 80), ("fair", 75), ("bad", 50)):
        graded_run(dataset, folders, run_id, labels(right, 100 - right))
    hostile = {"memory": {"name": "[bold]x[/]\x1b[31m", "parameters": {}}}
    graded_run(dataset, folders, "odd", labels(80, 20), settings=hostile)
    graded_run(dataset, folders, "few", labels(8, 2))
    monkeypatch.chdir(tmp_path)


@pytest.mark.slow
def test_tables(command: Command) -> None:
    done = command("compare good fair bad --tables --pairs --notes")
    assert (done.code, done.stderr) == (0, "")
    assert "d, 100 questions, judge test/strict" in done.stdout
    assert "80.0 [71.1, 86.7]" in done.stdout
    assert "▼ -30.0 [" in done.stdout
    (close,) = [line for line in done.stdout.splitlines() if line.split()[:2] == ["good", "fair"]]
    assert close.split()[2] == "+5.0"
    assert "All pairs (3 comparisons, Holm)" in done.stdout
    assert "Published" not in done.stdout


@pytest.mark.slow
def test_the_answer_comes_first_and_the_rest_is_asked_for(command: Command) -> None:
    short = command("compare good fair bad").stdout
    assert short.startswith("No significant difference between fair (75.0%) and good (80.0%): -5.0 points, 95% CI [")
    assert "All pairs" not in short
    assert "By question type" not in short
    assert "are missing or were made from other data" not in short
    assert short.partition("\nNext steps:")[0].endswith("Details: add --tables, --pairs, --notes, --questions")
    assert next_steps(short) == [["report", "good", "fair", "bad"]]
    others = (("--tables", "By question type"), ("--pairs", "All pairs ("), ("--notes", "made from other data since"))
    for option, shown in others:
        longer = command(f"compare good fair bad {option}").stdout
        assert shown in longer
        assert option not in longer.partition("\nNext steps:")[0].splitlines()[-1]


@pytest.mark.slow
def test_the_baseline_is_chosen(command: Command) -> None:
    document = json.loads(command("compare good fair bad --baseline bad --json").stdout)
    assert [run["run"] for run in document["runs"]] == ["bad", "good", "fair"]
    assert (document["verdict"]["run"], document["verdict"]["baseline"]) == ("good", "bad")
    assert document["verdict"]["finding"] == "better"
    assert document["verdict"]["winner"] is None
    text = command("compare good --baseline bad").stdout
    assert text.startswith("good (80.0%) is significantly better than bad (50.0%): +30.0 points, 95% CI [+2")


@pytest.mark.slow
def test_the_margin_decides_on_as_well_as(command: Command) -> None:
    narrow = json.loads(command("compare good fair --json").stdout)["verdict"]
    assert (narrow["code"], narrow["finding"]) == ("not-significant", "not shown")
    wide = json.loads(command("compare good fair --margin 0.3 --json").stdout)["verdict"]
    assert (wide["code"], wide["finding"], wide["margin"]) == ("equivalent", "as well as", 0.3)


@pytest.mark.slow
def test_json_document(command: Command) -> None:
    done = command("compare good bad --against good --margin 0.4 --published all --questions --json")
    assert (done.code, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    assert [run["run"] for run in document["runs"]] == ["good", "bad"]
    (pair,) = document["pairs"]
    assert (pair["a"], pair["b"], pair["difference"]) == ("good", "bad", pytest.approx(0.3))
    assert pair["mcnemar"] == {"a_only": 30, "b_only": 0, "p": pytest.approx(2 / 2**30)}
    assert pair["p_holm"] == pair["mcnemar"]["p"]
    assert [result["worse"] for result in document["against"]] == [False, False]
    assert len(document["questions"]) == 100
    fields = ["dataset", "variant", "system", "value", "metric", "n", "judge", "reader", "source", "by_group", "note"]
    assert {tuple(figure) for figure in document["published"]} == {tuple(fields)}


@pytest.mark.slow
def test_a_deliberate_regression_ends_with_4(command: Command) -> None:
    saved = command("compare good --save-baseline base.json")
    assert (saved.code, saved.stderr) == (0, "Baseline of good: base.json\n")
    done = command("compare bad --against base.json")
    assert done.code == 4
    assert done.stderr.startswith("Error: Run 'bad' is 30.0 points worse than baseline 'good', 95% CI")
    assert (
        "It lost 30 questions and won 0; lost: q50, q51, q52, q53, q54, q55, q56, q57, q58, q59 and 20 more"
        in done.stderr
    )
    assert done.stderr.count("\n") == 1
    assert "bad vs. good: -30.0 points" in done.stdout
    assert command("compare bad --against base.json --margin 0.4").code == 0
    assert command("compare fair --against base.json --margin 0.02").code == 0
    assert command("compare odd --against good").code == 0


@pytest.mark.slow
def test_json_of_a_regression_is_whole(command: Command) -> None:
    done = command("compare bad --against good --json")
    assert done.code == 4
    assert json.loads(done.stdout)["against"][0]["worse"] is True


@pytest.mark.slow
def test_a_worse_run_makes_no_baseline(command: Command) -> None:
    command("compare good --save-baseline base.json")
    before = Path("base.json").read_bytes()
    assert command("compare bad --against base.json --save-baseline base.json").code == 4
    assert Path("base.json").read_bytes() == before


@pytest.mark.slow
def test_questions_published_and_common(command: Command) -> None:
    done = command("compare good few --common --questions --published all")
    assert done.code == 0
    assert "d, 10 common questions" in done.stdout
    assert "few vs. good, worse (2): q8, q9" in done.stdout
    assert "Published scores (comparable only with the same judge and data)" in done.stdout


@pytest.mark.slow
def test_published_alone_keeps_to_the_same_judge_and_metric(command: Command) -> None:
    done = command("compare --published good fair")
    assert done.code == 0
    assert "No published figure has this judge and metric (test/strict, accuracy)." in done.stdout
    assert "system" not in done.stdout
    assert "published" not in json.loads(command("compare good --published --json").stdout)


@pytest.mark.slow
def test_text_from_files_is_shown_escaped(command: Command) -> None:
    done = command("compare odd")
    assert "[bold]x[/]\\x1b[31m" in done.stdout.replace("\n", "")
    assert "\x1b" not in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("compare good few", "--common"),
        ("compare good goo", "Did you mean 'good'?"),
        ("compare good good", "given twice"),
        ("compare good --judge gpt", "no judge of that name: 'gpt'"),
        ("compare good --against nothing.json", "neither a file nor a run"),
        ("compare good fair --save-baseline x.json", "takes one run"),
        ("compare good --against fair --margin 2", "--margin"),
        ("compare good fair --across --against fair", "--across takes no"),
        ("compare good --across --save-baseline x.json", "--across takes no"),
    ],
)
def test_mistakes_end_with_2(command: Command, line: str, said: str) -> None:
    done = command(line)
    assert (done.code, done.stdout) == (2, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_baseline_in_the_place_of_a_folder_names_it(command: Command) -> None:
    done = command("compare good --save-baseline results")
    assert done.code == 2
    assert done.stderr == "Error: A file was expected, but this is a folder (results). Name a file.\n"


@pytest.mark.slow
def test_no_run_id_is_broken_in_a_pipe(command: Command, tmp_path: Path) -> None:
    names = [f"a-run-id-of-thirty-characters{place}" for place in range(2)]
    for name, right in zip(names, (80, 20), strict=True):
        graded_run(LongMemEvalDataset(tmp_path / "d.json"), folders_in(tmp_path), name, labels(right, 100 - right))
    shown = command(f"compare {' '.join(names)} --tables --pairs").stdout
    rows = [line.split() for line in shown.splitlines()]
    # Each row goes by what tells it apart, and the whole id is said once.
    ids = [line.rpartition(" ")[2] for line in shown.splitlines() if line.endswith(tuple(names))]
    assert ids == names
    assert any(row[2:4] == ["+60.0", "▲"] for row in rows)


@pytest.mark.slow
def test_runs_on_different_data_share_a_table_by_ability(command: Command, tmp_path: Path) -> None:
    talks = LocomoDataset(write(tmp_path / "talks.json", make_conversation()))
    folders = folders_in(tmp_path)
    lines = [{"question_id": question.question_id, "hypothesis": "Oslo"} for question in talks.questions()]
    (tmp_path / "answers.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    run_id = adopt_hypotheses(tmp_path / "answers.jsonl", talks, folders.results_dir, run_id="talks").run_id
    evaluate(run_id, folders=folders)
    refused = command("compare good talks")
    assert refused.code == 2
    assert "--across" in refused.stderr
    shown = command("compare good talks --across")
    assert (shown.code, shown.stderr) == (0, "")
    cells = [re.split(r"\s{2,}", line.strip()) for line in shown.stdout.splitlines()]
    rows = {line[0]: line[1:] for line in cells if len(line) == 3}
    assert rows["judge"] == ["not official", "official"]
    assert rows["multi-hop"][0] == "\N{EN DASH}"
    assert "abstention" in rows
    assert "80.0%" in shown.stdout
    said = " ".join(shown.stdout.split())
    assert "A: good (" in said
    assert "LoCoMo: fact-recall is single-hop; inference is open-domain" in said
    assert "no difference between columns is tested" in said
    # Under several columns it is said of which; the haystack is the second's alone.
    assert re.search(r"\bB: [A-Z]", said)
    for ending, sign in (("md", "| overall |"), ("latex", r"\toprule")):
        page = command(f"report good talks --across --format {ending} -o -")
        assert (page.code, page.stderr) == (0, "")
        assert sign in page.stdout
        assert "LoCoMo: fact-recall is single-hop" in page.stdout
    assert command("report good talks --across -o across.html").code == 0
    assert "80.0%\n[" in (tmp_path / "across.html").read_text()
    assert command("report good talks --across --full").code == 2
    document = json.loads(command("compare good talks --across --json").stdout)
    assert [run["dataset"] for run in document["runs"]] == ["d", "talks"]
    assert set(document["runs"][1]["by_ability"]) == {
        "fact-recall", "multi-hop", "temporal", "inference", "abstention",
    }  # fmt: skip
