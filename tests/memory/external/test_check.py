"""`memory init` and `memory check`: a working example, and what is wrong or missing with others."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from longmemeval.errors import HarnessError
from longmemeval.memory.configuration import resolve_configuration
from longmemeval.memory.external.contract_check import Finding, MemoryCheck, write_example
from tests.memory.external.transported import NODE, SERVE, http_served
from tests.support import COMMAND, ROOT, clean_environment, longmemeval

BASE = """
class Mine:
    def __init__(self):
        self.stored = []

    def add(self, session):
        for message in session.messages:
            self.stored.append(
                {"text": message.content, "message_ids": [message.id], "date": session.date, "score": 1.0}
            )

    def search(self, query, *, date, limit):
        words = query.split()
        return [hit for hit in self.stored if any(word in hit["text"].split() for word in words)][:limit]

    def save(self, folder):
        (folder / "all.py").write_text(repr(self.stored))

    def load(self, folder):
        import datetime

        self.stored = eval((folder / "all.py").read_text(), {"datetime": datetime})

    def list(self):
        return self.stored
"""

CHANGED = {
    "": {},
    "no ids": {"message ids": "missing"},
    "sessions": {"message ids": "missing"},
    "no dates": {"dates": "missing"},
    "moved dates": {"dates": "failed"},
    "worst first": {"order": "failed"},
    "one for all": {"search": "failed"},
    "one for all, no ids": {
        "message ids": "missing",
        "histories apart": "failed",
        "what it holds": "failed",
        "reset": "failed",
    },
    "no limit": {},
    "forgets": {"restart": "failed"},
    "not saved": {"restart": "missing"},
    "strange ids": {"search": "failed"},
    "shuffled": {"same question, same hits": "missing"},
    "no list": {"what it holds": "missing"},
    "a session lost": {"what it holds": "failed"},
    "lost, no ids": {"message ids": "missing", "what it holds": "failed"},
    "stored twice": {"same batch twice": "failed"},
    "no reset": {"reset": "failed"},
    "finds nothing": {"search": "failed", "message ids": "missing", "dates": "missing", "order": "missing"},
    "returns nothing": {"search": "failed"},
    "returns one": {"search": "failed"},
}
CODE = {
    "no ids": ('"message_ids": [message.id]', '"speaker": ""'),
    "sessions": ('"message_ids": [message.id]', '"session_ids": [session.id]'),
    "no dates": ('"date": session.date', '"speaker": ""'),
    "moved dates": ("session.date", "session.date.replace(year=2025)"),
    "worst first": ('"score": 1.0', '"score": float(len(self.stored))'),
    "one for all": ("self.stored = []", "self.stored = STORED"),
    "no limit": ("[:limit]", ""),
    "forgets": ("eval(", "[] and eval("),
    "not saved": ("def load", "def reload"),
    "strange ids": ("[message.id]", '["m_1"]'),
    "shuffled": ("words = query.split()", "words = query.split(); self.stored.reverse()"),
    "no list": ("def list", "def listed"),
    "a session lost": ("in session.messages:", "in () if 'Alice' in str(session) else session.messages:"),
    "stored twice": (
        "def search",
        "def ready(self):\n        self.stored.append(self.stored[0])\n        return True\n\n    def search",
    ),
    "no reset": ("def search", "def reset(self): ...\n\n    def search"),
    "lost": ("return self.stored\n", "return []\n"),
    "finds nothing": ("[:limit]", "[:0]"),
    "returns nothing": ("return [hit", "found = [hit"),
    "returns one": ("[:limit]", "[0]"),
}


@pytest.mark.parametrize("fault", CHANGED)
def test_check_says_what_is_wrong_or_missing(fault: str, tmp_path: Path) -> None:
    code = BASE
    for one in fault.split(", "):
        before, after = CODE.get(one, ("", ""))
        assert before in code
        code = code.replace(before, after)
    (tmp_path / "mine.py").write_text(f"STORED = []\n{code}")
    exit_code = 3 if "failed" in CHANGED[fault].values() else 0
    done = longmemeval("memory", "check", "mine:Mine", "--json", cwd=tmp_path, code=exit_code)
    found = {one["what"]: one["state"] for one in json.loads(done.stdout)}
    assert {what: state for what, state in found.items() if state != "works"} == CHANGED[fault]
    if "search" not in CHANGED[fault]:
        assert len(found) == 14


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        ("None", "search returned None; return a list of hits"),
        ("self.stored[0]", "search returned a dict; return a list of hits"),
        ("'Pixel'", "search returned a str; return a list of hits"),
        ("7", "search returned a int; return a list of hits"),
        ("[]", "nothing is ever found, not even by the words of a message that was added"),
    ],
)
def test_a_search_that_returns_no_hits_is_wrong(returned: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(BASE.replace("return [hit for", f"return {returned}\n        [hit for"))
    done = longmemeval("memory", "check", "mine:Mine", "--json", cwd=tmp_path, code=3)
    (search,) = [one for one in json.loads(done.stdout) if one["what"] == "search"]
    assert search["state"] == "failed"
    assert said in search["told"]


def test_an_error_names_the_line_of_the_class_not_of_a_library(tmp_path: Path) -> None:
    fault = "        import json\n        json.loads('{')\n        return []\n"
    code = BASE.replace("        words = query.split()\n", fault)
    (tmp_path / "mine.py").write_text(code)
    line = 1 + code.splitlines().index("        json.loads('{')")
    done = longmemeval("memory", "check", "mine:Mine", "--json", cwd=tmp_path, code=3)
    assert f"mine.py, line {line}: JSONDecodeError" in json.loads(done.stdout)[-1]["told"]


@pytest.mark.thorough
def test_each_row_is_shown_as_soon_as_it_is_known(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        BASE.replace(
            "        words = query.split()\n",
            "        import os, time\n        while not os.path.exists('go'):\n            time.sleep(0.01)\n"
            "        words = query.split()\n",
        )
    )
    line = [*COMMAND, "memory", "check", "mine:Mine"]
    with subprocess.Popen(line, cwd=tmp_path, env=clean_environment(), stdout=subprocess.PIPE, text=True) as command:
        assert command.stdout
        assert [command.stdout.readline().split()[:2] for _ in range(2)] == [["begin", "yes"], ["add", "yes"]]
        (tmp_path / "go").touch()
        assert "\n reset " in command.stdout.read()


def test_the_example_works_over_every_carrier(tmp_path: Path) -> None:
    written = longmemeval("memory", "init", "mymem.py", cwd=tmp_path)
    assert "longmemeval memory check mymem:MyMemory" in written.stdout
    with http_served("mymem:MyMemory", tmp_path) as address:
        for spec in ("mymem:MyMemory", f"process:{SERVE} mymem:MyMemory", f"process:node {NODE}", address):
            done = longmemeval("memory", "check", spec, "--set", "shortest=4", cwd=tmp_path)
            assert [line.split("  ")[0] for line in done.stdout.splitlines() if "  yes  " in line][-1] == " reset"
            assert "7 items of 7 messages" in done.stdout
            assert done.stdout.count("  yes  ") == 14


def test_the_example_takes_no_other_place(tmp_path: Path) -> None:
    write_example(tmp_path / "mymem.py")
    before = (tmp_path / "mymem.py").read_bytes()
    with pytest.raises(HarnessError, match="The file already exists"):
        write_example(tmp_path / "mymem.py")
    with pytest.raises(HarnessError, match="This is not the name of a Python module"):
        write_example(tmp_path / "my-mem.py")
    assert (tmp_path / "mymem.py").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["mymem.py"]


@pytest.mark.slow
def test_a_memory_is_tried_from_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    spec = f"process:node {NODE}"
    told = list[Finding]()
    found = MemoryCheck(resolve_configuration(spec), spec).check(told.append)
    assert (tuple(told), found.failed, found.failed_calls) == (found.findings, False, ())
    assert (found.findings[0].what, found.findings[-1].what, len(found.findings)) == ("begin", "reset", 14)
    assert list(tmp_path.glob("longmemeval-check-*")) == []
    with pytest.raises(HarnessError, match="This memory cannot be checked"):
        MemoryCheck(resolve_configuration("bm25"), "bm25")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("check", "there:nothing"), "there has no 'nothing'"),
        (
            ("check", "there:Only"),
            "This is not a class with add(session) and search(query, *, date, limit) (there:Only)",
        ),
        (("check", "there:Only", "--set", "x"), "--set 'x' is not of the form key=value"),
    ],
)
def test_mistakes_are_refused(arguments: tuple[str, ...], told: str, tmp_path: Path) -> None:
    (tmp_path / "there.py").write_text("class Only:\n    def add(self, session): ...\n")
    if "--set" in arguments:
        (tmp_path / "there.py").write_text(BASE.replace("Mine", "Only"))
    refused = longmemeval("memory", *arguments, cwd=tmp_path, code=2)
    assert told in " ".join(refused.stderr.split())


def test_registered_names_and_configurations_are_tried(tmp_path: Path) -> None:
    info = tmp_path / "site" / "my_memory-1.0.dist-info"
    info.mkdir(parents=True)
    (tmp_path / "site" / "mine.py").write_text(BASE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-memory\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[longmemeval.memory]\nnotebook = mine:Mine\n")
    (tmp_path / "mine.yaml").write_text("preset: notebook\nparameters: {limit: 3}\n")
    path = f"{ROOT}:{tmp_path / 'site'}"
    for name in ("notebook", "mine.yaml"):
        done = longmemeval("memory", "check", name, "--set", "budget=90", "--json", cwd=tmp_path, PYTHONPATH=path)
        found = json.loads(done.stdout)
        assert [one["state"] for one in found] == ["works"] * 14
        assert found[0]["told"].startswith("Mine, ")
    refused = longmemeval("memory", "check", "bm25", cwd=tmp_path, code=2)
    assert "This memory cannot be checked: it has no add and search" in " ".join(refused.stderr.split())
    refused = longmemeval("memory", "check", "notebok", cwd=tmp_path, code=2, PYTHONPATH=path)
    assert "notebook" in refused.stderr


def test_a_memory_that_cannot_begin_says_why(tmp_path: Path) -> None:
    spec = f"process:{sys.executable} -c 'raise SystemExit(\"no key\")'"
    done = longmemeval("memory", "check", spec, "--json", cwd=tmp_path, code=3)
    (only,) = json.loads(done.stdout)
    assert (only["what"], only["state"]) == ("begin", "failed")
    assert "It last logged:\nno key" in only["told"]


ON_A_SERVER = """
import pathlib, uuid

class Mine:
    def __init__(self):
        self.graph = pathlib.Path("server", uuid.uuid4().hex)

    def add(self, session):
        with self.graph.open("a") as file:
            file.writelines(f"{one.content}\\n" for one in session.messages)
        FAILS

    def search(self, query, *, date, limit):
        held = self.graph.read_text().splitlines() if self.graph.exists() else []
        return [one for one in held if set(query.split()) & set(one.split())][:limit]

    def save(self, folder):
        (folder / "graph").write_text(str(self.graph))

    def load(self, folder):
        self.graph = pathlib.Path((folder / "graph").read_text())

    def reset(self):
        self.graph.unlink(missing_ok=True)
"""


@pytest.mark.parametrize("fails", ["", "if 'Alice' in str(session): raise ValueError('full')"])
def test_nothing_is_left_where_a_saved_memory_keeps_histories_elsewhere(fails: str, tmp_path: Path) -> None:
    """What it saves is the name of a place, made up for each object."""
    (tmp_path / "server").mkdir()
    (tmp_path / "mine.py").write_text(ON_A_SERVER.replace("FAILS", fails))
    done = longmemeval("memory", "check", "mine:Mine", "--json", cwd=tmp_path, code=3 if fails else 0)
    assert json.loads(done.stdout)[-1]["what"] == ("add" if fails else "reset")
    assert list((tmp_path / "server").iterdir()) == []
