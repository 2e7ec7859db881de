"""`longmemeval facts`: what a history says, on both axes of time, as a table, as JSON and drawn."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support import longmemeval, record, write_dataset

DATES = ("2024/03/04 (Mon) 09:00", "2024/03/14 (Thu) 09:00")
SAID = ("I live in Ghent. My favourite colour is <green>.", "I moved to Lille yesterday.")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_dataset(
        tmp_path / "d.json",
        record(
            question_date="2024/04/01 (Mon) 10:00",
            haystack_dates=list(DATES),
            haystack_session_ids=["s1", "s2"],
            answer_session_ids=["s1"],
            haystack_sessions=[[{"role": "user", "content": text}] for text in SAID],
        ),
    )
    return tmp_path


def homes(folder: Path, *arguments: str) -> list[str]:
    shown = longmemeval("facts", "q1", "--dataset", "d.json", "--predicate", "home", "--json", *arguments, cwd=folder)
    return [fact["object"] for fact in json.loads(shown.stdout)]


def test_both_axes(folder: Path) -> None:
    assert homes(folder) == ["Ghent", "Lille"]
    assert homes(folder, "--as-of", "2024-03-10") == ["Ghent"]
    assert homes(folder, "--as-of", "2024-03-13") == ["Lille"]
    assert homes(folder, "--as-of", "2024-03-13", "--believed-at", "2024-03-13") == ["Ghent"]


def test_a_table_and_a_mistaken_name(folder: Path) -> None:
    shown = longmemeval("facts", "q1", "--dataset", "d.json", cwd=folder).stdout
    assert "Haystack q1: 3 facts" in shown
    assert "s2:0" in shown
    refused = longmemeval("facts", "q2", "--dataset", "d.json", cwd=folder, code=2)
    assert "Dataset 'd' has no question or haystack 'q2'" in refused.stderr
    refused = longmemeval("facts", "q1", "--dataset", "d.json", "--subject", "usr", cwd=folder, code=2)
    assert "This history has no facts about 'usr'. Did you mean 'user'?" in refused.stderr
    refused = longmemeval("facts", "q1", "--dataset", "d.json", "--predicate", "homes", cwd=folder, code=2)
    assert "This history has no facts of kind 'homes'. Did you mean 'home'?" in refused.stderr


def test_inspect_shows_what_took_the_place_of_a_fact(folder: Path) -> None:
    longmemeval("prepare", "--dataset", "d.json", "--memory", "engram-full", "--memory", "typed-nodes", cwd=folder)
    lines = longmemeval("inspect", "q1", "--dataset", "d.json", "--all", cwd=folder).stdout.splitlines()
    ghent = lines.index("user lives in Ghent  [2024-03-04 to 2024-03-13]")
    assert lines[ghent + 1] == "  then user lives in Lille (2024-03-13)  [2024-03-13 to now]"
    assert any(line.startswith("- 2024-03-04: the user: lives in Ghent") for line in lines)
    recalled = longmemeval("inspect", "q1", "--dataset", "d.json", "-m", "engram-full", cwd=folder).stdout
    assert " fact: user lives in " in recalled


def test_drawn(folder: Path) -> None:
    longmemeval("facts", "q1", "--dataset", "d.json", "--draw", "svg", "--output", "facts.svg", cwd=folder)
    drawn = ElementTree.parse(folder / "facts.svg").getroot()
    titles = [one.text for one in drawn.iter("{http://www.w3.org/2000/svg}title")]
    assert "user lives in Ghent, 2024-03-04 to 2024-03-13" in titles
    shown = longmemeval("facts", "q1", "--dataset", "d.json", "--draw", "mermaid", cwd=folder).stdout
    assert shown.splitlines()[0] == "gantt"
    assert "    Ghent :done, 2024-03-04, 2024-03-13" in shown.splitlines()
    assert "    section favourite colour" in shown.splitlines()


def test_profiles(folder: Path) -> None:
    def profile(*arguments: str) -> list[tuple[str, list[str]]]:
        shown = longmemeval("facts", "q1", "--dataset", "d.json", "--profile", "--json", *arguments, cwd=folder)
        (one,) = json.loads(shown.stdout)
        return [(trait["predicate"], [fact["object"] for fact in trait["facts"]]) for trait in one["traits"]]

    assert profile() == [("home", ["Lille"]), ("favourite:colour", ["<green>"])]
    assert profile("--predicate", "home", "--as-of", "2024-03-10") == [("home", ["Ghent"])]
    shown = longmemeval("facts", "q1", "--dataset", "d.json", "--profile", cwd=folder).stdout
    assert "Lille (since 2024-03-13)" in shown
    assert "s2:0" in shown
    refused = longmemeval("facts", "q1", "--dataset", "d.json", "--profile", "--draw", "svg", cwd=folder, code=2)
    assert "A profile cannot be drawn" in refused.stderr
