"""`longmemeval inspect`: what is asked, stored and recalled, shown as it is and never run as terminal codes."""

import base64
import json
from pathlib import Path

import numpy as np
import pytest

from longmemeval.core.files import sha256_file
from longmemeval.memory.configuration import MEMORIES
from longmemeval.pipeline.prepare.prepare import prepare
from tests.pipeline.helpers import colour_record, colours, folders_in, prepared_colours
from tests.support import longmemeval, next_steps, tree, write_dataset


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prepared data set, `colours.json`."""
    folder = tmp_path_factory.mktemp("inspected")
    prepared_colours(folder, 3, "combined")
    return folder


def inspect(folder: Path, *arguments: str, code: int = 0) -> str:
    done = longmemeval("inspect", *arguments, "--dataset", "colours.json", cwd=folder, code=code)
    return done.stderr if code else done.stdout


def test_question_shows_its_haystack_what_is_stored_and_what_is_recalled(folder: Path) -> None:
    before = tree(folder)
    shown = inspect(folder, "q1", "--all")
    assert "q1  What colour is my bicycle1?  (asked 2023/05/30 (Tue) 23:40)" in shown
    assert "3 sessions" in shown
    assert "answer_1" in shown
    assert "Prepared as 'default' in prepared-data/colours/default/q1: parts db, vector" in shown
    assert "3 threads, 6 messages" in shown
    assert "I painted my bicycle1 green today" in shown
    rows = {line.split()[0]: line.split()[1:3] for line in shown.splitlines() if line.split()[:1] and line[1:2].strip()}
    assert rows["none"] == ["0", "0"]
    assert rows["full-history"][0] == "6"
    assert rows["oracle"][0] == "2"
    assert set(MEMORIES.built_in) <= set(rows)
    assert tree(folder) == before


def test_gold_is_not_shown(folder: Path) -> None:
    document = json.loads(inspect(folder, "q1", "--json"))
    assert {"haystack_id", "questions", "sessions", "stored", "recalled"} == set(document)
    text = json.dumps({key: value for key, value in document.items() if key != "sessions"})
    assert "single-session-user" not in text
    assert "has_answer" not in json.dumps(document)
    assert [one["memory"] for one in document["recalled"]] == list(MEMORIES.built_in)


def test_session_is_shown_in_full(folder: Path) -> None:
    shown = inspect(folder, "q2", "--session", "answer_1")
    assert shown.startswith("answer_1  2023/05/21 (Sun) 10:00\nuser: I painted my bicycle2 blue today. Any tips?\n")
    assert "assistant: Let it dry for a day." in shown
    assert "boil" not in shown


def test_recall_of_one_configuration_is_shown_in_full(folder: Path) -> None:
    shown = inspect(folder, "q1", "--memory", "semantic-recall")
    assert "What each configuration" not in shown
    best = [line for line in shown.splitlines() if " #1 (" in line]
    assert len(best) == 1
    assert best[0].startswith("2023-05-21 10:00 answer_1:0 #1 (")
    assert best[0].endswith("user: I painted my bicycle1 green today. Any tips?")


def test_vectors_are_printed_as_the_numbers_that_are_stored(folder: Path) -> None:
    rows = [json.loads(line) for line in inspect(folder, "q1", "--vectors").splitlines()]
    stored = json.loads((folder / "prepared-data/colours/default/q1/vector.json").read_text())
    of_messages = [row for row in rows if row["part"] == "vector"]
    keys = ("id", "thread_id", "index")
    assert [{key: row[key] for key in keys} for row in of_messages] == stored["items"]
    numbers = np.array([row["vector"] for row in of_messages], "<f4")
    assert numbers.shape == (6, stored["index"]["dimension"])
    assert numbers.tobytes() == base64.b64decode(stored["vectors"])


def test_vectors_that_are_not_there_say_how_to_get_them(folder: Path) -> None:
    told = inspect(folder, "q1", "--vectors", "--prepared", "other", code=2)
    assert "Haystack 'q1' is not prepared" in told
    assert "--name other --memory hybrid" in told


def test_hint_can_be_followed(folder: Path) -> None:
    hints = next_steps(inspect(folder, "q1"))
    assert len(hints) == 2
    for hint in hints:
        done = longmemeval(*hint, cwd=folder)
        assert "I painted my bicycle1 green today" in done.stdout


def test_recall_comes_first_and_the_rest_on_request(folder: Path) -> None:
    short, whole = inspect(folder, "q1"), inspect(folder, "q1", "--all")
    assert short.index("What each configuration would recall") < short.index("Next steps:")
    assert "Prepared as" not in short
    assert "3 sessions" not in short
    assert whole.index("What each configuration") < whole.index("3 sessions") < whole.index("Prepared as")


def test_gold_is_shown_to_who_asks(folder: Path) -> None:
    assert "Answer (single-session-user): green" in inspect(folder, "q1", "--gold")
    document = json.loads(inspect(folder, "q1", "--gold", "--json"))
    assert document["answers"] == [
        {
            "question_id": "q1",
            "question_type": "single-session-user",
            "answer": "green",
            "evidence_sessions": ["answer_1"],
        }
    ]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["q11"], "no question or haystack 'q11'. Did you mean 'q1'?"),
        (["q1", "--session", "answer_2"], "no session 'answer_2'. Did you mean 'answer_1'?"),
        (["q1", "--memory", "last_k"], "Did you mean 'last-k'?"),
        (["../../x"], "no question or haystack '../../x'"),
    ],
)
def test_unknown_names_are_refused_with_the_nearest(folder: Path, arguments: list[str], told: str) -> None:
    shown = inspect(folder, *arguments, code=2)
    assert shown.startswith("Error: ")
    assert told in shown
    assert "Traceback" not in shown


def test_what_is_not_prepared_is_said_and_the_rest_shown(tmp_path: Path) -> None:
    colours(tmp_path / "colours.json", 1)
    shown = inspect(tmp_path, "q0")
    assert "What colour is my bicycle0?" in shown
    assert "Not prepared yet." in shown
    assert "`longmemeval prepare --dataset colours.json --memory last-k`" in " ".join(shown.split())
    assert sorted(tmp_path.iterdir()) == [tmp_path / "colours.json"]


def test_embedder_that_cannot_be_asked_hides_only_what_needs_it(folder: Path, tmp_path: Path) -> None:
    """A preparation made by a model that has moved since: everything else is still shown."""
    dataset = colours(tmp_path / "colours.json", 1)
    prepare(dataset, ["combined"], folders=folders_in(tmp_path))
    for path in tmp_path.glob("prepared-data/colours/default/q0/*.json"):
        path.write_text(path.read_text().replace("hashing:512", "fastembed:gone"))
    meta = tmp_path / "prepared-data/colours/default/q0/meta.json"
    document = json.loads(meta.read_text())
    document["parts"]["vector"]["sha256"] = sha256_file(meta.parent / "vector.json")
    meta.write_text(json.dumps(document))
    recalled = {one["memory"]: one for one in json.loads(inspect(tmp_path, "q0", "--json"))["recalled"]}
    assert recalled["last-k"]["problem"] == ""
    assert "gone" in recalled["combined"]["problem"]


def test_control_characters_and_markup_of_the_data_are_shown_escaped(tmp_path: Path) -> None:
    nasty = "\x1b[31mred\x07 [bold]x[/bold] [link=http://x]y[/link] :warning: \u202eabc"
    record = colour_record(0, question_id="q[red]0", question=f"What {nasty}?")
    record["haystack_sessions"][1][0]["content"] = f"It says {nasty} indeed"
    record["haystack_session_ids"] = ["s[1]", "answer_1", "s\x1b[2m"]
    dataset = write_dataset(tmp_path / "colours.json", record)
    longmemeval("prepare", "--dataset", dataset, "--memory", "combined", cwd=tmp_path)
    escaped = "\\x1b[31mred\\x07 [bold]x[/bold] [link=http://x]y[/link] :warning: \\u202eabc"
    for arguments in ([], ["--session", "answer_1"], ["--memory", "full-history"]):
        shown = inspect(tmp_path, "q[red]0", *arguments)
        assert escaped in shown
        assert not any(letter in shown for letter in "\x1b\x07\u202e")
    assert "s[1]" in inspect(tmp_path, "q[red]0", "--all")
    assert "s\\x1b[2m" in inspect(tmp_path, "q[red]0", "--all")
    refused = inspect(tmp_path, "q[red]0", "--session", "\x1b[31m", code=2)
    assert "\x1b" not in refused
