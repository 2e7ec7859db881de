"""What the pages say, without a browser: the terminal's own sentence, counts that can be checked by hand."""

import json
import os
import re
from html import unescape
from pathlib import Path
from typing import Any

import msgspec
import pytest

from longmemeval.benchmarks.longmemeval.loader import LongMemEvalDataset
from longmemeval.errors import HarnessError
from longmemeval.pipeline.compare.compare import compare_runs
from longmemeval.results.graded import graded_run as opening
from longmemeval.results.graded.graded_run import load_graded
from longmemeval.results.listing import RecordedRun, SweepRecord, record_plan
from longmemeval.settings import Folders
from longmemeval.statistics import paired
from longmemeval.storage.messages import haystack_messages
from longmemeval.view import opened
from longmemeval.view.opened import Choice, RunCache, Stat, stat_of
from longmemeval.view.search.patterns import RecalledTexts, matching
from tests.pipeline.graded_runs import LENIENT, graded_run
from tests.pipeline.helpers import colour_record, colours, compare, folders_in
from tests.report.report_runs import HOSTILE, hostile_run, three_runs
from tests.support import write_dataset
from tests.view.client import visitor

THREE = "run=good&run=good-again&run=bad&judge=strict"


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return three_runs(tmp_path)


def words(page: str) -> str:
    """The text of a page, minus signs as they are typed."""
    return unescape(" ".join(re.sub(r"<[^>]*>", " ", page.replace("<wbr>", "")).split())).replace("\u2212", "-")


@pytest.mark.slow
def test_runs_are_listed_with_score_interval_cost_and_filters(folders: Folders) -> None:
    client = visitor(folders)
    shown = words(client.get("/runs").text)
    assert "3 runs" in shown
    assert "bad" in words(client.get("/runs?memory=last-k").text)
    assert "good-again" not in client.get("/runs?memory=last-k").text
    assert "1 of 3 runs" in words(client.get("/runs?q=BAD").text)
    assert "No runs match" in client.get("/runs?q=nothing").text


def test_runs_are_sorted_by_links_that_keep_what_is_asked(folders: Folders) -> None:
    client = visitor(folders)

    def listed(query: str) -> tuple[list[str], list[tuple[str, str]]]:
        page = client.get(f"/runs?{query}").text
        chosen = re.findall(r'aria-sort="(\w+)"><a href="([^"]*)"', page)
        return re.findall(r'aria-label="Choose ([^"]*)"', page), chosen

    assert listed("sort=score") == (["good", "good-again", "bad"], [("descending", "/runs?sort=score")])
    assert listed("sort=run") == (["bad", "good", "good-again"], [("ascending", "/runs?sort=run")])
    newest, sorted_by = listed("q=o&sort=nonsense")
    assert sorted_by == [("descending", "/runs?q=o&amp;sort=newest")]
    assert newest == listed("q=o")[0] == listed("q=o&sort=newest")[0]


def test_controls_are_called_that_in_the_list(tmp_path: Path) -> None:
    dataset, folders = colours(tmp_path / "d.json", 6), folders_in(tmp_path)
    oracle = {"memory": {"name": "oracle", "preset": "oracle", "parameters": {}}, "reads_gold": True}
    for run_id, settings in (("plain", {}), ("gold", oracle), ("parrot", {"model": {"spec": "offline/parrot"}})):
        graded_run(dataset, folders, run_id, [True] * 6, settings=settings)
    shown = words(visitor(folders).get("/runs?sort=run").text)
    assert "last-k plain" in shown
    assert "oracle control, reads gold gold" in shown
    assert "parrot on last-k control parrot" in shown


def test_no_runs_say_what_to_do(tmp_path: Path) -> None:
    client = visitor(Folders(results_dir=tmp_path / "results", prepared_dir=tmp_path / "prepared"))
    assert "longmemeval demo" in client.get("/runs").text
    for path in ("/compare", "/questions"):
        assert client.get(path).status_code == 409
        assert "longmemeval evaluate" in client.get(path).text


@pytest.mark.slow
def test_a_damaged_run_is_listed_as_such_and_opens_nothing_else(folders: Folders) -> None:
    (folders.results_dir / "bad" / "run.json").write_text("{")
    client = visitor(folders)
    assert "damaged" in client.get("/runs").text
    answer = client.get(f"/compare?{THREE}")
    assert answer.status_code == 409
    assert "run.json" in answer.text
    assert client.get("/compare?run=good&judge=strict").status_code == 200


def said(run_ids: list[str], folders: Folders) -> str:
    """What the terminal says first of these runs."""
    return compare(run_ids, judge="strict", folders=folders).verdict.text


@pytest.mark.slow
def test_the_verdict_is_the_sentence_of_the_terminal(folders: Folders) -> None:
    expected = said(["good", "good-again", "bad"], folders)
    assert expected in words(visitor(folders).get(f"/compare?{THREE}").text)
    other = said(["bad", "good", "good-again"], folders)
    assert expected != other
    assert other in words(visitor(folders).get(f"/compare?{THREE}&baseline=bad").text)


def test_won_lost_and_unchanged_are_counted_and_lead_to_the_questions(folders: Folders) -> None:
    page = visitor(folders).get(f"/compare?{THREE}").text
    # Of 12 questions the two repeats of `good` are right on 11, at least once; `bad` is right on none.
    assert "+0 -11 =1" in words(page)
    assert "/questions?run=good&amp;run=good-again&amp;run=bad&amp;judge=strict&amp;show=lost&amp;of=bad" in page
    assert "Settings that differ" in page


def test_other_readers_are_named_above_the_table(folders: Folders) -> None:
    path = folders.results_dir / "bad" / "run.json"
    assert "Other settings that differ" not in visitor(folders).get(f"/compare?{THREE}").text
    document = json.loads(path.read_text())
    document["settings"]["model"] = {**document["settings"]["model"], "max_tokens": 77}
    path.write_text(json.dumps(document))
    page = visitor(folders).get(f"/compare?{THREE}").text
    assert 'href="#settings">Other settings that differ: longest answer</a>' in page
    assert 'id="settings"' in page


def test_what_cannot_be_compared_says_why_and_how(folders: Folders) -> None:
    client = visitor(folders)
    refused = client.get(f"/compare?run=good&run=bad&judge={LENIENT.id}")
    assert refused.status_code == 409
    assert "cannot be compared" in refused.text
    assert client.get("/data/questions?run=goof").json()["error"]["fix"]


def test_runs_of_other_questions_are_compared_on_those_they_share(folders: Folders, tmp_path: Path) -> None:
    graded_run(LongMemEvalDataset(tmp_path / "colours.json"), folders, "part", [True] * 6)
    client = visitor(folders)
    shown = words(client.get("/compare?run=good&run=part&judge=strict").text)
    assert "excluded: 6 of good." in shown
    assert len(client.get("/data/questions?run=good&run=part&judge=strict").json()["ids"]) == 6
    found = client.get("/data/search?run=good&run=part&judge=strict&q=answer").json()["found"]
    assert found == "111111"


def test_runs_of_other_data_stand_side_by_side_below_what_differs(folders: Folders, tmp_path: Path) -> None:
    other = LongMemEvalDataset(write_dataset(tmp_path / "other.json", *(colour_record(one) for one in range(4))))
    reading = {"reading": {"method": "con", "history_format": "nl"}}
    graded_run(other, folders, "elsewhere", [True, True, True, False], settings=reading)
    answer = visitor(folders).get("/compare?run=good&run=elsewhere&judge=strict")
    assert answer.status_code == 200
    shown = words(answer.text)
    assert "The runs answered different data: good: colours with content" in shown
    assert "Reading method: direct in good; con in elsewhere." in shown
    assert "Side by side, without a comparison" in shown
    assert "75.0% [30.1, 95.4] n 4" in shown
    assert "no difference between columns is tested" in shown


def test_what_a_sweep_has_yet_to_begin_is_listed_as_planned(folders: Folders) -> None:
    runs = (RecordedRun("good", "semantic", "m"), RecordedRun("night_bm25", "bm25", "offline/extractive"))
    record_plan(folders.results_dir, SweepRecord(sweep="night", dataset="colours", questions=12, runs=runs))
    client = visitor(folders)
    assert "4 runs" in words(client.get("/runs").text)
    only = client.get("/runs?status=planned").text
    assert "bm25 night_bm25 offline/extractive colours 12 planned" in words(only)
    assert "Choose night_bm25" not in only
    (folders.results_dir / "night_plan.json").write_text("{")
    assert "3 runs" in words(client.get("/runs").text)


@pytest.mark.slow
def test_the_matrix_is_packed_and_counted_by_hand(folders: Folders) -> None:
    client = visitor(folders)
    matrix = client.get(f"/data/questions?{THREE}").json()
    assert [one["labels"] for one in matrix["runs"]] == ["1" * 11 + "0", "111" + "0" * 9, "-" + "0" * 11]
    assert matrix["repeats"] == [[0, 1]]
    assert matrix["runs"][0]["disputed"] == "1" + "0" * 11  # The lenient judge differs on the first question.
    assert len(matrix["ids"]) == len(matrix["texts"]) == len(matrix["tokens"]) == 12
    page = words(client.get(f"/questions?{THREE}").text)
    assert "11 differ · 0 all right · 1 none right" in page


def test_literal_search_in_answers(folders: Folders) -> None:
    client = visitor(folders)
    opened = RunCache(folders).evaluations(Choice(("bad",), "strict"))
    (question_id, answer), *_ = opened[0].answers.items()
    found = client.get("/data/search", params={"run": "bad", "judge": "strict", "q": answer.hypothesis.upper()}).json()
    assert found["found"][list(opened[0].asked.questions).index(question_id)] == "1"
    nothing = client.get("/data/search", params={"run": "bad", "judge": "strict", "q": "(.*)+$"}).json()
    assert set(nothing["found"]) == {"0"}


@pytest.mark.slow
def test_literal_search_in_what_was_recalled(folders: Folders) -> None:
    client = visitor(folders)

    def found(text: str, run: str) -> str:
        asked = {"run": run, "judge": "strict", "q": text, "in": "recalled"}
        return str(client.get("/data/search", params=asked).json()["found"])

    asked = RunCache(folders).evaluations(Choice(("good", "bad"), "strict"))[0].asked
    places = list(asked.questions)
    history = {one.message_id: one.content for one in haystack_messages(asked.dataset.haystack(places[3]))}
    # `good` recalled the evidence and `bad` did not; each history has its own colour.
    assert found(history["answer_1:0"].upper(), "good")[3] == "1"
    assert set(found(history["answer_1:0"], "bad")) == {"0"}
    assert set(found(history["filler_2:0"], "good")) == {"0"}, "cut before the prompt"
    assert set(found("filler_1:0", "good")) == {"0"}, "an id"


def test_a_search_that_nobody_waits_for_reads_no_further(folders: Folders) -> None:
    comparison = RunCache(folders).comparison(Choice(("good",), "strict"))
    assert RecalledTexts().found(comparison, "e", lambda: True) == set()
    looks = iter([False, False, True])
    assert len(RecalledTexts().found(comparison, "e", lambda: next(looks))) == 2


@pytest.mark.slow
def test_a_pattern_is_searched_in_questions_and_answers(folders: Folders) -> None:
    client = visitor(folders)

    def answer(pattern: str) -> dict[str, Any]:
        asked = {"run": "bad", "judge": "strict", "q": pattern, "in": "pattern"}
        return dict(client.get("/data/search", params=asked).json())

    assert answer(r"^ANSWER (3|7) of")["found"] == "000100010000"
    assert set(answer(r"no such \d{9}")["found"]) == {"0"}
    assert answer("(")["error"]["what"].startswith("This is no regular expression: missing )")


@pytest.mark.slow
def test_a_hostile_pattern_is_ended_and_the_server_goes_on() -> None:
    with pytest.raises(HarnessError, match="took longer than 1 s and was ended"):
        matching(r"^(a+)+$", ["a" * 40 + "b"], lambda: False, limit_s=1)
    assert matching(r"^(a+)+$", ["a" * 40 + "b"], lambda: True, limit_s=60) == []
    assert matching("B", ["b", "c"], lambda: False) == [0]
    many = [f"answer {number}" for number in range(50_000)]
    assert matching("r 4999[89]$", many, lambda: False) == [49_998, 49_999]


def test_opened_runs_are_read_again_when_a_file_has_changed(folders: Folders) -> None:
    opened, choice = RunCache(folders), Choice(("good", "bad"), "strict")
    first, runs = opened.comparison(choice), opened.evaluations(choice)
    assert opened.comparison(choice) is first
    path = folders.results_dir / "bad" / "run.json"
    path.write_bytes(path.read_bytes() + b"\n")
    again = opened.comparison(choice)
    assert again is not first
    assert [one is other for one, other in zip(opened.evaluations(choice), runs, strict=True)] == [True, False]


@pytest.mark.slow
def test_what_was_checked_before_is_not_computed_again_and_says_the_same(
    folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders.prepared_dir.mkdir(exist_ok=True)
    choice = Choice(("good", "good-again", "bad"), "strict")
    first = RunCache(folders).comparison(choice)
    with monkeypatch.context() as patched:
        patched.setattr(opening, "recompute_scores", _never)
        patched.setattr(paired, "mcnemar", _never)
        again = RunCache(folders).comparison(choice)
    assert again == first == compare_runs(load_graded(choice.runs, folders, judge="strict"), folders)
    (folders.cache_dir / "view.sqlite").write_bytes(b"no database")
    assert RunCache(folders).comparison(choice) == first


def _never(*given: object, **named: object) -> None:
    raise AssertionError("this was known")


@pytest.mark.parametrize("name", ["answers.jsonl", "judgements/{judge}.jsonl", "metrics/{judge}.json"])
def test_a_file_changed_behind_the_clock_is_refused_though_its_figures_are_remembered(
    folders: Folders, name: str
) -> None:
    folders.prepared_dir.mkdir(exist_ok=True)
    choice = Choice(("bad",), "strict")
    judge = RunCache(folders).comparison(choice).runs[0].summary.metrics.judge.id
    path = folders.results_dir / "bad" / name.format(judge=judge)
    stat, before = path.stat(), path.read_bytes()
    # A digit of a figure, a hash or an answer, so that size and time stay as they were.
    digit = re.search(rb'"(?:hypothesis|answer_sha256|n|answered)":\s*"?[^0-9]*?([0-9])', before)
    assert digit
    place = digit.start(1)
    path.write_bytes(before[:place] + (b"7" if digit[1] != b"7" else b"3") + before[place + 1 :])
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    with pytest.raises(HarnessError, match="bad"):
        RunCache(folders).comparison(choice)
    path.write_bytes(before)
    assert RunCache(folders).comparison(choice).runs


@pytest.mark.slow
def test_a_page_looks_at_the_files_of_a_run_once(folders: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    client = visitor(folders)
    asked: list[Path] = []

    def noted(folder: Path) -> Stat:
        asked.append(folder)
        return stat_of(folder)

    monkeypatch.setattr(opened, "stat_of", noted)
    for path in (f"/compare?{THREE}", f"/questions?{THREE}", f"/data/questions?{THREE}", f"/compare/pictures?{THREE}"):
        asked.clear()
        assert client.get(path).status_code == 200
        assert len(asked) == 3, path


@pytest.mark.slow
def test_hostile_texts_are_shown_as_text(tmp_path: Path) -> None:
    folders = hostile_run(tmp_path)
    client = visitor(folders)
    for path in ("/runs", "/compare", "/questions", "/compare/pictures"):
        text = client.get(path).text
        assert "<script>window" not in text
        assert "<img" not in text
    packed = msgspec.json.decode(client.get("/data/questions").content)
    assert any("<script>" in text for text in packed["texts"]), HOSTILE
    assert client.get("/data/questions").headers["content-type"] == "application/json"


def test_live_says_what_runs_say(tmp_path: Path) -> None:
    folders = three_runs(tmp_path)
    client = visitor(folders)
    assert "Nothing is running" in client.get("/live").text
    path = folders.results_dir / "bad" / "run.json"
    path.write_text(path.read_text().replace('"status": "completed"', '"status": "interrupted"'))
    shown = words(client.get("/live").text)
    assert "1 running" in shown
    assert "interim" in shown
    assert "12 of 12" in shown
