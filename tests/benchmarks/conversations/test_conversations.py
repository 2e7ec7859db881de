"""Exports of chat programs to a data set, to labelled evidence, to a comparison."""

import json
import shutil
import subprocess
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from longmemeval.benchmarks.conversations.importing import accept, import_chats, proposals, read_export
from longmemeval.benchmarks.registry import load_dataset
from longmemeval.errors import DataError
from tests.support import COMMAND, ROOT, clean_environment, longmemeval

EXAMPLE = ROOT / "examples" / "own-conversations"
EXPORTS = ("chatgpt-conversations.json", "claude-conversations.json", "family.csv")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(EXAMPLE, tmp_path / "own"))


def test_three_exports_are_one_history_in_time_order(folder: Path) -> None:
    done = import_chats([folder / name for name in EXPORTS], folder / "mine", questions=folder / "questions.yaml")
    assert (done.sessions, done.messages, done.questions, done.left_out) == (8, 22, 10, {})
    data = load_dataset(folder / "mine")
    (history,) = data.haystacks()
    assert [f"{session.date:%m-%d}" for session in history.sessions] == [
        *("02-03", "02-11", "02-20", "03-14", "03-30", "04-02", "04-20", "05-02")
    ]
    assert history.sessions[1].turns[0].speaker == "Ana"
    assert [turn.role for turn in history.sessions[0].turns] == ["user", "assistant"] * 2
    last = list(data.questions())[-1]
    assert data.gold(last.question_id).abstention
    assert last.date == history.sessions[-1].date


def test_of_an_edited_conversation_the_branch_shown_last_counts(tmp_path: Path) -> None:
    def node(role: str, text: str | None, parent: str | None) -> dict[str, Any]:
        parts = [text] if text else [{"content_type": "image_asset_pointer"}]
        content = {"content_type": "multimodal_text", "parts": parts}
        return {"message": {"author": {"role": role}, "content": content, "create_time": 1.7e9}, "parent": parent}

    mapping = {
        "root": {"message": None, "parent": None},
        "system": node("system", "You are ChatGPT", "root"),
        "first": node("user", "I have a cat", "system"),
        "edited": node("user", "I have a dog", "system"),
        "picture": node("user", None, "edited"),
        "reply": node("assistant", "What is it called?", "picture"),
    }
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("conversations.json", json.dumps([{"mapping": mapping, "current_node": "reply"}]))
    export = read_export(path)
    assert [said.text for said in export.conversations[0]] == ["I have a dog", "What is it called?"]
    assert {what: count for what, count in export.left_out.items() if count} == {
        "messages of earlier versions of a conversation": 1,
        "messages of system": 1,
        "messages without text, such as pictures and calls of tools": 1,
    }


def test_an_archive_far_larger_than_text_can_be_is_refused_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thirty megabytes of blanks in thirty kilobytes; no more than the limit is unpacked."""
    monkeypatch.setattr("longmemeval.benchmarks.conversations.importing._ALWAYS", 1_000_000)
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", b" " * 30_000_000)
    tracemalloc.start()
    with pytest.raises(DataError, match=r"conversations\.json in the archive has 30 MB in \d+ kB") as refused:
        read_export(path)
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()
    assert "unpack it" in str(refused.value.fix)


@pytest.mark.parametrize("ending", ["json", "jsonl"])
def test_message_lists_in_the_openai_form(tmp_path: Path, ending: str) -> None:
    parts = [{"type": "text", "text": "Hello"}, {"type": "image_url", "image_url": {}}]
    one = {"date": "2026-01-02T10:00:30+01:00", "messages": [{"role": "user", "content": parts}]}
    two = {
        "messages": [{"role": "assistant", "content": "Hi", "created_at": 1767398400}, {"role": "tool", "content": "x"}]
    }
    path = tmp_path / f"export.{ending}"
    path.write_text(json.dumps([one, two]) if ending == "json" else f"{json.dumps(one)}\n\n{json.dumps(two)}\n")
    first, second = read_export(path).conversations
    assert (first[0].text, f"{first[0].when}") == ("Hello", "2026-01-02 10:00:00")
    assert (second[0].text, f"{second[0].when}") == ("Hi", "2026-01-03 00:00:00")


def test_one_session_a_day_and_each_once(tmp_path: Path) -> None:
    messages = [
        {"role": "user", "content": "one", "date": "2026-01-02T23:50"},
        {"role": "assistant", "content": "two", "date": "2026-01-02T23:55"},
        {"role": "user", "content": "x" * 30_000, "date": "2026-01-03T00:05"},
    ]
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text(json.dumps(messages))
    done = import_chats([tmp_path / "a.json", tmp_path / "b.json"], tmp_path / "mine")
    assert (done.sessions, done.messages, done.questions) == (2, 3, 0)
    assert done.left_out == {"sessions that come twice": 2}
    assert list(done.misleading.values()) == [1]


Change = Callable[[list[Any]], None]


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        (EXPORTS[0], lambda records: records[1].update(mapping=3), "conversation 2, mapping"),
        (
            EXPORTS[0],
            lambda records: records[0]["mapping"]["m1"]["message"].update(author={}),
            "`author` ",
        ),
        (
            EXPORTS[1],
            lambda records: records[2]["chat_messages"][1].update(text=7),
            "conversation 3, chat_messages[1].text",
        ),
        (
            EXPORTS[1],
            lambda records: records[0].pop("chat_messages"),
            "Unrecognised conversation format (export.json",
        ),
        (
            EXPORTS[1],
            lambda records: records[0]["chat_messages"][0].update(created_at="May"),
            "chat_messages[0].created_at",
        ),
    ],
)
def test_a_fault_is_named_by_record_and_field(
    name: str, change: Change, said: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    records = json.loads((folder / name).read_text())
    change(records)
    Path("export.json").write_text(json.dumps(records))
    with pytest.raises(DataError) as caught:
        read_export(Path("export.json"))
    assert said.strip("` ") in str(caught.value)


def test_null_where_an_export_has_text_is_no_text(tmp_path: Path) -> None:
    part = [{"type": "text", "text": None}, {"type": "text", "text": "Green"}]
    claude = {"sender": "human", "text": None, "content": part, "created_at": "2026-01-01"}
    silent = {"sender": "human", "text": None, "content": None, "created_at": "2026-01-01"}
    sent = {"role": "user", "content": part, "date": "2026-01-01"}
    no_parts = {"author": {"role": "user"}, "content": {"content_type": "text", "parts": None}}
    mapping = {"a": {"message": no_parts, "parent": None}}
    path = tmp_path / "export.json"
    path.write_text(json.dumps([{"chat_messages": [claude, silent]}, {"messages": [sent]}, {"mapping": mapping}]))
    export = read_export(path)
    assert [[message.text for message in conversation] for conversation in export.conversations] == [["Green"]] * 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("date,speaker\n2026-01-01,Ana\n", "The column 'text' is missing (export.csv, line 2)"),
        ("date,speaker,text\n2026-01-01,Ana,Hi\n1 May,Ana,Hi\n", "'1 May' is not a date (export.csv, line 3, date)"),
        ("", "The exports hold no message with text"),
    ],
)
def test_faults_of_a_csv(text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("export.csv").write_text(text)
    with pytest.raises(DataError) as caught:
        import_chats([Path("export.csv")], Path("mine"))
    assert said in str(caught.value)
    assert not Path("mine").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- question: Who?\n- answer: Ana\n", "question 2"),
        ("- question: Who?\n  anwser: Ana\n", "question 1"),
        ("question: Who?\n", "not a list of questions"),
        ("- question: Who?\n  answer: Ana\n  evidence: [s0009:0]\n", "s0009"),
    ],
)
def test_faults_of_questions(text: str, said: str, folder: Path) -> None:
    (folder / "asked.yaml").write_text(text)
    with pytest.raises(DataError, match=said):
        import_chats([folder / "family.csv"], folder / "mine", questions=folder / "asked.yaml")


def test_messages_without_a_date_need_one(folder: Path) -> None:
    path = folder / "plain.json"
    path.write_text(json.dumps([{"role": "user", "content": "Hello"}]))
    with pytest.raises(DataError, match=r"no date \(.*plain.json, conversation 1, message 1\).*--date"):
        import_chats([path], folder / "mine")
    longmemeval("datasets", "import", "plain.json", "--output", "mine", "--date", "2026-01-01", cwd=folder)


def test_evidence_is_proposed_accepted_and_asked_for_once(folder: Path) -> None:
    import_chats([folder / name for name in EXPORTS], folder / "mine", questions=folder / "questions.yaml")
    before = load_dataset(folder / "mine").content_sha256
    found = list(proposals(folder / "mine", 3))
    assert len(found) == 9
    assert found[0].messages[0].content.startswith("My sourdough starter is called Bertha.")
    accept(folder / "mine", found[0].asked.id, [found[0].messages[0].message_id])
    assert len(list(proposals(folder / "mine", 3))) == 8
    data = load_dataset(folder / "mine")
    assert data.gold("q01").evidence_turns == ("s0001:0",)
    assert data.gold("q01").evidence_sessions == ("s0001",)
    assert data.content_sha256 != before


def test_from_three_exports_to_a_comparison(folder: Path) -> None:
    """The commands of the example's page; `label` is told to take the first proposal of each question."""
    page = (EXAMPLE / "README.md").read_text()
    lines = page.partition("```sh\n")[2].partition("```")[0].splitlines()
    assert len(lines) == 7
    printed = ""
    for line in lines:
        if " label " in line:
            command = [*COMMAND, *line.split()[1:]]
            done = subprocess.run(
                command,
                cwd=folder,
                input="1\n" * 9,
                text=True,
                capture_output=True,
                env=clean_environment(),
                check=True,
            )
            assert "Labelled 9 questions" in done.stdout
        else:
            printed = longmemeval(*line.split()[1:], cwd=folder, COLUMNS="100").stdout
    assert printed.startswith("No significant difference between bm25 (90.0%) and last-k (30.0%)")
    assert "With 10 questions, this comparison has 80% power to detect" in " ".join(printed.split())
    assert "100.0%" in printed
