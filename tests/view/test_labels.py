"""Labels on the pages: kept as another judge's, in two windows at once, and blind."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from longmemeval.judges.people import PREFIX, person_identity
from longmemeval.results.run_files import RunFiles
from longmemeval.settings import Folders
from tests.pipeline.graded_runs import LENIENT, STRICT
from tests.report.report_runs import three_runs
from tests.view.client import visitor

ORIGIN = {"origin": "http://127.0.0.1:8321"}
CHOSEN = "?run=good&run=bad&judge=strict"


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return three_runs(tmp_path)


@pytest.fixture
def client(folders: Folders) -> TestClient:
    return visitor(folders)


def given(folders: Folders, run: str = "good", *, blind: bool = False) -> dict[str, bool | None]:
    labels = RunFiles(folders.results_dir / run).current_judgements(person_identity("Anna", blind=blind).id)
    return {question_id: one.label for question_id, one in labels.items()}


def label(client: TestClient, question: str, right: str, *, by: str = "Anna", why: str = "") -> int:
    sent = {"q": question, "of": "good", "right": right, "by": by, "why": why, "shown": "good"}
    return int(client.post(f"/label{CHOSEN}", data=sent, headers=ORIGIN).status_code)


def test_a_label_is_kept_and_shown(client: TestClient, folders: Folders) -> None:
    assert label(client, "q0", "no", why="<b>blue</b> it says") == 200
    assert given(folders) == {"q0": False}
    page = client.get(f"/question{CHOSEN}&q=q0").text
    assert "Anna: &lt;b&gt;blue&lt;/b&gt; it says" in re.sub(r"\s+", " ", re.sub(r"</?(span|p)[^>]*>", "", page))
    agreed = re.sub(r"<[^>]+>", " ", client.get(f"/labels{CHOSEN}").text)
    assert "Anna" in agreed
    assert "0.0%" in agreed


def test_nothing_changes_by_get_nor_from_elsewhere(client: TestClient, folders: Folders) -> None:
    assert client.get(f"/label{CHOSEN}&q=q0&of=good&right=yes&by=Anna").status_code == 405
    sent = {"q": "q0", "of": "good", "right": "yes", "by": "Anna"}
    assert client.post(f"/label{CHOSEN}", data=sent, headers={"origin": "http://evil.test"}).status_code == 403
    assert client.post(f"/label{CHOSEN}", data=sent).status_code == 403
    assert given(folders) == {}


@pytest.mark.slow
def test_faults_are_told_in_words(client: TestClient) -> None:
    assert label(client, "q0", "maybe") == 409
    assert label(client, "q0", "yes", by=" ") == 409
    assert label(client, "q99", "yes") == 409
    assert label(client, "q0", "yes", why="x" * 200_000) == 409
    assert label(client, "q0", "yes") == 200
    sent = {"q": "q0", "of": "good", "right": "no", "by": "Anna"}
    again = client.post(f"/label{CHOSEN}", data=sent, headers=ORIGIN)
    assert again.status_code == 409
    assert "has labelled this answer before, as right" in again.text


@pytest.mark.slow
def test_two_windows_at_once_lose_nothing(folders: Folders) -> None:
    windows = [visitor(folders), visitor(folders)]
    jobs = [(windows[number % 2], f"q{number}") for number in range(11)]
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(lambda job: label(job[0], job[1], "yes"), jobs)) == {200}
    assert given(folders) == {f"q{number}": True for number in range(11)}


@pytest.mark.slow
def test_blind_hides_names_in_the_page_itself(client: TestClient, folders: Folders) -> None:
    begin = client.get(f"/labels{CHOSEN}").text
    code = re.search(r'name="set" value="([^"]+)"', begin)
    assert code
    seen = []
    address = f"/labels/blind?set={code[1]}&by=Anna"
    for _ in range(30):
        page = client.get(address).text
        if "All answers are labelled" in page:
            break
        # The answers of these runs say whose they are.
        words = re.sub(r"answer \d+ of (good|bad)", "", page)
        for name in ("good", "bad", "semantic", "last-k", "strict", "lenient", STRICT.id, LENIENT.id):
            assert name not in words, name
        place = re.search(r'name="place" value="(\d+)"', page)
        assert place
        sent = {"set": code[1], "by": "Anna", "place": place[1], "right": "yes"}
        reply = client.post("/labels/blind", data=sent, headers=ORIGIN, follow_redirects=False)
        address = reply.headers["location"]
        seen.append(place[1])
    assert len(seen) == len(set(seen)) == 24
    labelled = [set(given(folders, run, blind=True)) for run in ("good", "bad")]
    assert labelled == [{*(f"q{number}" for number in range(11)), "q11_abs"}] * 2
    assert given(folders) == {}


def test_a_skipped_answer_is_asked_again_later_and_a_strange_code_is_refused(client: TestClient) -> None:
    code = re.search(r'name="set" value="([^"]+)"', client.get(f"/labels{CHOSEN}").text)
    assert code
    sent = {"set": code[1], "by": "Anna", "place": "0", "right": "skip"}
    onward = client.post("/labels/blind", data=sent, headers=ORIGIN, follow_redirects=False).headers["location"]
    assert 'value="1"' in client.get(onward).text
    assert 'name="place" value="0"' in client.get(f"/labels/blind?set={code[1]}&by=Anna").text
    assert client.get("/labels/blind?set=%00&by=Anna").status_code == 409
    assert client.get(f"/labels/blind?set={code[1]}&by=").status_code == 409


def test_people_have_files_of_their_own(client: TestClient, folders: Folders) -> None:
    before = {path.name: path.read_bytes() for path in (folders.results_dir / "good" / "judgements").iterdir()}
    label(client, "q1", "yes")
    after = {path.name: path.read_bytes() for path in (folders.results_dir / "good" / "judgements").iterdir()}
    assert {name: after[name] for name in before} == before
    assert all(name.startswith(PREFIX) for name in after.keys() - before.keys() if name.endswith(".jsonl"))
