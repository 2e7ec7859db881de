"""What the pages say, without a browser: the terminal's own sentence, counts that can be checked by hand."""

import json
import re
from pathlib import Path

import msgspec
import pytest

from longmemeval.pipeline.compare.compare import compare
from longmemeval.settings import Folders
from longmemeval.view.choice import Choice
from longmemeval.view.opened import OpenRuns
from tests.pipeline.graded_runs import LENIENT
from tests.report.report_runs import HOSTILE, hostile_run, three_runs
from tests.view.client import visitor

THREE = "run=good&run=good-again&run=bad&judge=strict"


@pytest.fixture
def where(tmp_path: Path) -> Folders:
    return three_runs(tmp_path)


def words(page: str) -> str:
    """The text of a page, minus signs as they are typed."""
    return " ".join(re.sub(r"<[^>]*>", " ", page).split()).replace("\u2212", "-")


def test_runs_are_listed_with_score_interval_cost_and_filters(where: Folders) -> None:
    client = visitor(where)
    shown = words(client.get("/runs").text)
    assert "3 runs" in shown
    assert "bad" in words(client.get("/runs?memory=last-k").text)
    assert "good-again" not in client.get("/runs?memory=last-k").text
    assert "1 of 3 runs" in words(client.get("/runs?q=BAD").text)
    assert "No run matches" in client.get("/runs?q=nothing").text


def test_no_runs_say_what_to_do(tmp_path: Path) -> None:
    client = visitor(Folders(results_dir=tmp_path / "results", prepared_dir=tmp_path / "prepared"))
    assert "longmemeval demo" in client.get("/runs").text
    for path in ("/compare", "/questions"):
        assert client.get(path).status_code == 404
        assert "longmemeval evaluate" in client.get(path).text


def test_a_damaged_run_is_listed_as_such_and_opens_nothing_else(where: Folders) -> None:
    (where.results_dir / "bad" / "run.json").write_text("{")
    client = visitor(where)
    assert "damaged" in client.get("/runs").text
    answer = client.get(f"/compare?{THREE}")
    assert answer.status_code == 409
    assert "run.json" in answer.text
    assert client.get("/compare?run=good&judge=strict").status_code == 200


def test_the_verdict_is_the_sentence_of_the_terminal(where: Folders) -> None:
    expected = compare(["good", "good-again", "bad"], judge="strict", where=where).verdict.text
    assert expected in words(visitor(where).get(f"/compare?{THREE}").text)
    other = compare(["bad", "good", "good-again"], judge="strict", where=where).verdict.text
    assert expected != other
    assert other in words(visitor(where).get(f"/compare?{THREE}&baseline=bad").text)


def test_won_lost_and_unchanged_are_counted_and_lead_to_the_questions(where: Folders) -> None:
    page = visitor(where).get(f"/compare?{THREE}").text
    # Of 12 questions `good` is right on 11, `good-again` on the first three of them, `bad` on none.
    assert "+0 -8 =4" in words(page)
    assert "+0 -11 =1" in words(page)
    assert "/questions?run=good&amp;run=good-again&amp;run=bad&amp;judge=strict&amp;show=lost&amp;of=bad" in page
    assert "Settings that differ" in page


def test_other_readers_are_marked_in_red(where: Folders) -> None:
    path = where.results_dir / "bad" / "run.json"
    assert "More differs than the memories" not in visitor(where).get(f"/compare?{THREE}").text
    document = json.loads(path.read_text())
    document["settings"]["reading"] = {**document["settings"]["reading"], "method": "con"}
    path.write_text(json.dumps(document))
    assert "More differs than the memories" in visitor(where).get(f"/compare?{THREE}").text


def test_what_cannot_be_compared_says_why_and_how(where: Folders) -> None:
    client = visitor(where)
    refused = client.get(f"/compare?run=good&run=bad&judge={LENIENT.id}")
    assert refused.status_code == 409
    assert "cannot be compared" in refused.text
    assert client.get("/data/questions?run=goof").json()["error"]["fix"]


def test_the_matrix_is_packed_and_counted_by_hand(where: Folders) -> None:
    client = visitor(where)
    matrix = client.get(f"/data/questions?{THREE}").json()
    assert [one["labels"] for one in matrix["runs"]] == ["1" * 11 + "0", "111" + "0" * 9, "-" + "0" * 11]
    assert matrix["repeats"] == [[0, 1]]
    assert matrix["runs"][0]["disputed"] == "1" + "0" * 11  # The lenient judge differs on the first question.
    assert len(matrix["ids"]) == len(matrix["texts"]) == len(matrix["tokens"]) == 12
    page = words(client.get(f"/questions?{THREE}").text)
    assert "none right 1 · differ 11" in page


def test_literal_search_in_answers(where: Folders) -> None:
    client = visitor(where)
    opened = OpenRuns(where).evaluations(Choice(("bad",), "strict"))
    (question_id, answer), *_ = opened[0].answers.items()
    found = client.get("/data/search", params={"run": "bad", "judge": "strict", "q": answer.hypothesis.upper()}).json()
    assert found["found"][list(opened[0].asked.questions).index(question_id)] == "1"
    nothing = client.get("/data/search", params={"run": "bad", "judge": "strict", "q": "(.*)+$"}).json()
    assert set(nothing["found"]) == {"0"}


def test_opened_runs_are_read_again_when_a_file_has_changed(where: Folders) -> None:
    opened, choice = OpenRuns(where), Choice(("good", "bad"), "strict")
    first, runs = opened.comparison(choice), opened.evaluations(choice)
    assert opened.comparison(choice) is first
    path = where.results_dir / "bad" / "run.json"
    path.write_bytes(path.read_bytes() + b"\n")
    again = opened.comparison(choice)
    assert again is not first
    assert [one is other for one, other in zip(opened.evaluations(choice), runs, strict=True)] == [True, False]


def test_hostile_texts_are_shown_as_text(tmp_path: Path) -> None:
    where = hostile_run(tmp_path)
    client = visitor(where)
    for path in ("/runs", "/compare", "/questions", "/compare/pictures"):
        text = client.get(path).text
        assert "<script>window" not in text
        assert "<img" not in text
    packed = msgspec.json.decode(client.get("/data/questions").content)
    assert any("<script>" in text for text in packed["texts"]), HOSTILE
    assert client.get("/data/questions").headers["content-type"] == "application/json"


def test_live_says_what_runs_say(tmp_path: Path) -> None:
    where = three_runs(tmp_path)
    client = visitor(where)
    assert "Nothing is under way" in client.get("/live").text
    path = where.results_dir / "bad" / "run.json"
    path.write_text(path.read_text().replace('"status": "completed"', '"status": "interrupted"'))
    shown = words(client.get("/live").text)
    assert "1 under way" in shown
    assert "interim" in shown
    assert "12 of 12" in shown
