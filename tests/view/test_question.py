"""One question over several runs: what is on its page, and that it is read from the files and nowhere else."""

from pathlib import Path

import pytest

from longmemeval import settings
from longmemeval.errors import HarnessError
from longmemeval.pipeline.compare.comparison import Comparison
from longmemeval.pipeline.inspect.recalling import Recaller
from longmemeval.settings import Folders
from longmemeval.view.question.gather import (
    Asked,
    Track,
    dates_below,
    differing_words,
    history_strip,
    in_words,
    question_page,
    track_strip,
)
from longmemeval.view.question.prompt import prompt_view
from tests.made_once import sample_demo
from tests.pipeline.helpers import compare
from tests.report.report_runs import HOSTILE, hostile_run, three_runs
from tests.support import ROOT
from tests.view.client import visitor

RUNS = ("demo-full-history", "demo-hybrid", "demo-last-k")
KAYAK = "smp_a001"
"""The full history has its three pieces of evidence, the others two of them."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    demo = sample_demo(tmp_path_factory).folder
    return settings.folders(ROOT / "data", demo / "prepared-data", demo / "results")


@pytest.fixture(scope="module")
def compared(folders: Folders) -> Comparison:
    return compare(RUNS, folders=folders)


def marked(text: str, other: str) -> list[str]:
    return [one.text for one in differing_words(text, other) if one.differs]


def test_words_that_differ() -> None:
    assert marked("36 km (14 + 22)", "45 km (14 + 22 + 9)") == ["36 "]
    assert marked("It is Red, I think.", "it is red I think") == []
    assert marked("nothing of the kind", "forty-five kilometres") == ["nothing of the kind"]
    text = "  two  spaces\nand a line"
    assert "".join(one.text for one in differing_words(text, "two lines")) == text
    assert marked("", "words") == []
    assert not any(one.differs for one in differing_words("a " * 3_000, "b " * 3_000))


def test_the_page_says_who_lost_it_and_why(compared: Comparison) -> None:
    page = question_page(compared, KAYAK)
    assert (page.detail.answer, page.number, page.total) == ("45 km", 39, 108)
    assert page.credits == (1, 0, 0)
    assert page.lost == {"saw 2 of 3 pieces of the evidence: the rest was not retrieved": [1, 2]}
    assert sum(one.evidence for one in page.sessions) == 3
    assert [list(track.sessions.values()).count("evidence") for track in page.tracks] == [3, 2, 2]
    ids = [row.question_id for row in compared.questions]
    assert (page.previous, page.next) == (ids[37], ids[39])
    assert len(set(compared.questions[ids.index(page.next_that_differs)].credits)) > 1


def test_a_question_that_is_not_there_is_named(compared: Comparison) -> None:
    with pytest.raises(HarnessError, match="no question 'smp_a00l'"):
        question_page(compared, "smp_a00l")


def test_the_prompt_is_shown_by_rank_with_the_tokens_of_its_parts(compared: Comparison, folders: Folders) -> None:
    hybrid = compared.evaluations[1]
    view = prompt_view(hybrid, KAYAK, Recaller(hybrid.asked.dataset, "default", folders))
    assert view.remark == ""
    ranks = [line.rank for line in view.lines if line.rank is not None]
    assert ranks == list(range(1, 11))
    assert [line.missed for line in view.lines if line.evidence] == [True, False, False]
    assert (view.lines[0].date, view.lines[0].speaker) == ("2024-07-07", "user")
    full = prompt_view(compared.evaluations[0], KAYAK, None)
    assert not any(line.missed for line in full.lines)
    assert [name for name, _ in view.parts] == ["instruction", "memory", "question"]
    assert sum(int(tokens.replace(",", "")) for _, tokens in view.parts) == int(view.total.replace(",", ""))
    without = prompt_view(hybrid, KAYAK, None)
    assert {line.text for line in without.lines} == {line.text for line in view.lines}
    assert all(line.rank is None for line in without.lines)


def test_what_was_cut_is_marked(tmp_path: Path) -> None:
    folders = three_runs(tmp_path)
    (bad,) = compare(["bad"], judge="strict", folders=folders).evaluations
    lines = prompt_view(bad, "q1", None).lines
    assert [(line.cut, line.evidence) for line in lines] == [(False, False), (True, True)]


def test_a_strip_draws_each_session_and_says_it_in_words() -> None:
    sessions = tuple(Asked(f"2024-01-{day:02}", 4, day == 3) for day in range(1, 8))
    track = Track(0, {0: "beside", 2: "evidence", 5: "cut"}, known=True)
    assert in_words(track, sessions) == "recalled from 2 of 7 sessions, 1 of 1 with evidence"
    drawn = track_strip(track, sessions, "<b>", 3)
    assert [drawn.count(f'class="{one}"') for one in ("beside", "evidence", "cut")] == [1, 1, 1]
    assert "style" not in drawn
    assert "<b>" not in drawn
    assert dates_below(sessions) == ["2024-01-01", "2024-01-03", "2024-01-04", "2024-01-05", "2024-01-07"]
    long = tuple(Asked("2024-01-01", 1, False) for _ in range(500))
    assert history_strip(long).count("<rect") == 1
    assert "does not say" in in_words(Track(0, {}, known=False), sessions)


def test_the_page_is_readable_without_scripts_and_small(folders: Folders) -> None:
    client = visitor(folders, RUNS)
    reply = client.get("/question", params={"q": KAYAK})
    assert reply.status_code == 200
    for text in ("How many kilometres", "45 km", "saw 2 of 3 pieces of the evidence", "1,101 tokens", "instruction"):
        assert text in reply.text
    assert len(reply.content) < 300_000
    assert " style=" not in reply.text
    other = client.get("/question", params={"q": KAYAK, "run": RUNS, "shown": "demo-last-k"})
    assert "demo-last-k" in other.text
    assert client.get("/question", params={"q": "nothing"}).status_code == 409
    assert client.get("/question", params={"q": KAYAK, "shown": "nothing"}).status_code == 409
    assert client.get("/question", follow_redirects=False).headers["location"].startswith("/question?run=")


@pytest.mark.slow
def test_texts_from_the_data_are_shown_as_text(tmp_path: Path) -> None:
    client = visitor(hostile_run(tmp_path), ["one", "two"])
    page = client.get("/question").text
    assert HOSTILE[:20] not in page
    assert "&lt;script&gt;window.harmed" in page
    assert "⟨U+202E⟩" in page
    for path in ("/labels", "/explore"):
        assert "<script>window" not in client.get(path).text
