"""A memory server that speaks MCP, by a mapping file: the official client against a server of the official library."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from longmemeval.errors import HarnessError
from longmemeval.memory.configuration import MEMORIES, resolve_configuration
from longmemeval.memory.products.mcp.mapping import MappingError, at, filled, read_mapping
from tests.memory.products.products import planted
from tests.support import ROOT, json_lines, longmemeval, write_dataset

SERVER = '''
import json, os
from pathlib import Path
from mcp.server import MCPServer

server, file = MCPServer("notes"), Path(os.environ["NOTES"])

def read():
    return json.loads(file.read_text()) if file.exists() else []

@server.tool()
def write_note(text: str, day: str) -> dict:
    """Write a note."""
    notes = read()
    if "bad weather" in text:
        return {"written": False, "why": "no weather here"}
    notes.append({"id": f"n{len(notes)}", "text": text, "day": day})
    file.write_text(json.dumps(notes))
    return {"written": True, "note": notes[-1]["id"]}

@server.tool()
def find_notes(words: str, most: int) -> dict:
    """Find notes."""
    wanted = set(words.lower().split())
    found = sorted(read(), key=lambda note: -len(wanted & set(note["text"].lower().split())))
    return {"found": [{"note": note, "score": len(found) - place} for place, note in enumerate(found)][:most]}

@server.tool()
def all_notes(start: int, count: int) -> dict:
    """Every note."""
    return {"notes": read()[start:start + count]}

server.run()
'''

MAPPING = """
[server]
command = ["{bin}/python", "SERVER"]
environment = { NOTES = "{folder}/notes.json" }

[capabilities]
dates = "native"
provenance = "message"
unit = "turn"
signals = ["words"]
telemetry = "off"

[add]
tool = "write_note"
ok = "written"
ref = "note"
arguments = { text = "{speaker}: {content}", day = "{date}" }

[search]
tool = "find_notes"
arguments = { words = "{query}", most = "{limit}" }
items = "found"

[search.hit]
text = "note.text"
ref = "note.id"
date = "note.day"
score = "score"

[list]
tool = "all_notes"
arguments = { start = "{offset}", count = "{page}" }
items = "notes"
page = 2

[list.hit]
text = "text"
ref = "id"
date = "day"
"""


@pytest.fixture
def mapped(tmp_path: Path) -> Path:
    (tmp_path / "notes_server.py").write_text(SERVER)
    file = tmp_path / "notes.toml"
    file.write_text(MAPPING.replace("SERVER", str(tmp_path / "notes_server.py")))
    return file


@pytest.mark.thorough
def test_a_server_from_check_to_recall(mapped: Path, with_product: Callable[[str], Path]) -> None:
    folder = with_product("mcp")
    checked = longmemeval("memory", "check", "mcp:notes.toml", "--json", cwd=folder)
    assert {one["state"] for one in json.loads(checked.stdout)} == {"works"}
    told = planted(0)
    told["haystack_sessions"][0][0]["content"] = "What bad weather."
    write_dataset(folder / "d.json", told)
    words = ("--dataset", "d.json", "--memory", "mcp:notes.toml")
    shown = " ".join(longmemeval("prepare", *words, cwd=folder).stderr.split())
    assert "1 of 6 batches failed" in shown
    assert "write_note failed" in shown
    assert "no weather here" in shown
    longmemeval("run", *words, "--model", "offline/extractive", "--run-id", "r", cwd=folder)
    (answer,) = json_lines(folder / "results" / "r" / "answers.jsonl")
    assert answer["status"] == "ok"
    assert "answer_of_0:0" in answer["recall_ids"]
    settings = json.loads((folder / "results" / "r" / "run.json").read_text())["settings"]["memory"]
    assert (settings["name"], settings["source"]["requirements"]) == ("notes", "mcp==2.3.0")
    mapped.write_text(mapped.read_text() + "# another hash\n")
    refused = longmemeval("run", *words, "--model", "offline/extractive", "--resume", "r", cwd=folder, code=2)
    assert "was made by another recipe (source_sha256: was" in " ".join(refused.stderr.split())


@pytest.mark.parametrize(
    ("right", "wrong", "told"),
    [
        ('tool = "write_note"', 'tol = "write_note"', "there is no key 'add.tol'. Did you mean 'tool'?"),
        ('tool = "find_notes"', "", "'search.tool' is needed"),
        ("{query}", "{qurey}", "'search' has no placeholder '{qurey}'. Did you mean 'query'?"),
        ("[capabilities]", "[capabilites]", "there is no key 'capabilites'. Did you mean 'capabilities'?"),
        ('unit = "turn"', 'unit = "turns"', "'capabilities.unit' cannot be 'turns'. Did you mean 'turn'?"),
        ("page = 2", 'page = "2"', "'list.page' is a int, not '2'"),
        ('text = "note.text"', "", "'search.hit.text' is needed"),
        ("command =", "url = 'http://127.0.0.1:1/mcp'\ncommand =", "'server.command' or 'server.url' is needed"),
        ("[search.hit]", "[search.hit", "cannot be read"),
    ],
)
def test_a_faulty_mapping_names_the_key_and_the_nearest(right: str, wrong: str, told: str, mapped: Path) -> None:
    assert right in mapped.read_text()
    mapped.write_text(mapped.read_text().replace(right, wrong))
    with pytest.raises(HarnessError) as raised:
        resolve_configuration(f"mcp:{mapped}")
    assert told in str(raised.value)
    assert "See docs/memories/mcp.md." in str(raised.value)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("right", "wrong", "told"),
    [
        ('tool = "find_notes"', 'tool = "find_note"', "the server has no tool 'find_note'. Did you mean 'find_notes'?"),
        ("most =", "mst =", "'search.arguments': find_notes takes no 'mst'. Did you mean 'most'?"),
        (
            'items = "found"',
            'items = "fond"',
            "'search.items' is 'fond', but the result has no 'fond'. Did you mean 'found'?",
        ),
        ('text = "note.text"', 'text = "note.txt"', "'search.hit.text' is 'note.txt', but the result has no 'txt'"),
    ],
)
def test_what_the_server_does_not_have(
    right: str, wrong: str, told: str, mapped: Path, with_product: Callable[[str], Path]
) -> None:
    mapped.write_text(mapped.read_text().replace(right, wrong))
    checked = longmemeval("memory", "check", "mcp:notes.toml", "--json", cwd=with_product("mcp"), code=3)
    assert told in next(one["told"] for one in json.loads(checked.stdout) if one["state"] == "failed")


def test_without_a_mapping_it_says_how_to_name_one(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=r"'mcp' needs a file.*Write --memory mcp:FILE\.toml"):
        resolve_configuration("mcp")
    with pytest.raises(HarnessError, match=r"needs a file, which does not exist \(.*gone\.toml\)"):
        resolve_configuration(f"mcp:{tmp_path / 'gone.toml'}")
    assert MEMORIES.get("mcp").label == "mcp"


def test_shipped_mappings_are_whole() -> None:
    files = list((ROOT / "longmemeval" / "memory" / "products").glob("*/mapping.toml"))
    assert files
    for file in files:
        assert read_mapping(file)["add"]["tool"]


def test_placeholders_keep_their_type_and_paths_lead_into_results() -> None:
    values = {"limit": 5, "messages": ["m_1"], "query": "who?"}
    template = {"k": "{limit}", "ids": "{messages}", "q": ["say {query} {limit} times"], "n": 2}
    assert filled(template, values) == {"k": 5, "ids": ["m_1"], "q": ["say who? 5 times"], "n": 2}
    assert at({"a": [{"b": 1}]}, "a.0.b", "here") == 1
    assert at([1], "", "here") == [1]
    with pytest.raises(
        MappingError, match=r"'here' is 'a\.c', but the result has no 'c'. Did you mean 'cc'\? Valid: cc"
    ):
        at({"a": {"cc": 1}}, "a.c", "here")
