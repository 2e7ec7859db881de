"""Classes of a notebook or script: changed code is another memory, and what cannot be hashed is not used again."""

import asyncio
import re
import signal
import time
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

import longmemeval as lme
from longmemeval.memory.live import code_hash
from tests.pipeline.helpers import MODEL, colours, folders_in, start
from tests.server import ModelServer
from tests.support import json_lines

CELL = '''
LIMIT = 3
WORDS = {"a": 1, "b": [2, (3,)]}

def shorten(text):
    return text[:40 * LIMIT]

class Notes:
    """Keeps what was said."""
    seen: int = 0
    def __init__(self): self.kept = []
    def add(self, session):
        self.kept += [shorten(m.content) for m in session.messages]  # the whole session
    def search(self, query, *, date, limit):
        return sorted(self.kept, key=lambda text: -sum(word in text for word in query.split()) - len(WORDS))[:limit]
'''


def defined(code: str) -> type:
    """The class that a cell defines."""
    known: dict[str, Any] = {"__name__": "__main__"}
    FunctionType(compile(code, "<cell>", "exec"), known)()
    found: type = known["Notes"]
    return found


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LIMIT = 3", "LIMIT = 4"),
        ("[2, (3,)]", "[2, (4,)]"),
        ("text[:40 *", "text[1:40 *"),
        ("-sum(", "+sum("),
        ("seen: int = 0", "seen: int = 1"),
        ("limit):\n", "limit=5):\n"),
    ],
)
def test_changed_code_or_values_are_another_memory(old: str, new: str) -> None:
    assert old in CELL
    first, again, changed = (code_hash(defined(code)) for code in (CELL, CELL, CELL.replace(old, new)))
    assert first == again
    assert first.unknown == ()
    assert first.sha256 != changed.sha256


@pytest.mark.parametrize(("old", "new"), [("  # the whole session", ""), ("WORDS = {", "\n\n# So:\nWORDS = {")])
def test_comments_and_layout_are_not(old: str, new: str) -> None:
    assert code_hash(defined(CELL)) == code_hash(defined(CELL.replace(old, new)))


def test_a_global_that_no_code_uses_does_not_count() -> None:
    assert code_hash(defined(CELL)) == code_hash(defined(f"{CELL}\nkept = query = object()\n"))


@pytest.mark.slow
def test_a_dataclass_and_library_calls_are_hashed() -> None:
    code = """
import dataclasses, functools, json, re
WORD = re.compile("x+")

@dataclasses.dataclass
class Notes:
    limit: int = 3
    kept: list = dataclasses.field(default_factory=list)
    def add(self, session): self.kept.append(json.dumps([WORD.findall(m.content) for m in session.messages]))
    @functools.lru_cache
    def search(self, query, *, date, limit): return self.kept
"""
    assert code_hash(defined(code)).unknown == ()
    changed = code.replace("limit: int = 3", "limit: int = 4")
    assert code_hash(defined(code)).sha256 != code_hash(defined(changed)).sha256


UNHASHED = CELL.replace("LIMIT = 3", "import threading\nLIMIT = 3\nMODEL = threading.Lock()").replace(
    "return text[", "MODEL; return text["
)


@pytest.mark.slow
def test_what_cannot_be_hashed_is_marked_and_prepared_anew(tmp_path: Path) -> None:
    data, folders = colours(tmp_path / "d.json", 2), folders_in(tmp_path)
    first, second = defined(UNHASHED), defined(UNHASHED)
    assert lme.Memory(first).unhashed == "MODEL (lock)"
    assert lme.Memory(first) == lme.Memory(first) != lme.Memory(second)
    with pytest.warns(UserWarning, match=r"Notes uses something that cannot be hashed .*: MODEL \(lock\)"):
        runs = [lme.run(data, loaded, MODEL, folders=folders) for loaded in (first, second)]
    assert runs[0].id != runs[1].id
    memory = runs[0].manifest.settings.plain["memory"]
    assert memory["source"]["unhashed"] == "MODEL (lock)"


@pytest.mark.slow
def test_a_changed_cell_is_another_memory_beside_the_first(tmp_path: Path) -> None:
    data, folders = colours(tmp_path / "d.json", 2), folders_in(tmp_path)
    first = lme.run(data, defined(CELL), MODEL, folders=folders)
    changed = lme.run(data, defined(CELL.replace("LIMIT = 3", "LIMIT = 1")), MODEL, folders=folders)
    again = lme.run(data, defined(CELL), MODEL, folders=folders)
    assert (again.id, again.answers) == (first.id, first.answers)
    assert changed.id != first.id
    assert again.report
    assert again.report.newly_answered == 0
    assert len(list(folders.prepared_dir.glob("d/default/q0/Notes-*"))) == 2


def test_workers_are_refused_and_so_is_an_object(tmp_path: Path) -> None:
    data, folders = colours(tmp_path / "d.json", 2), folders_in(tmp_path)
    with pytest.raises(lme.HarnessError, match="runs in this process, without workers"):
        lme.prepare(data, defined(CELL), options=lme.PrepareOptions(jobs=2), folders=folders)
    with pytest.raises(lme.HarnessError, match="has the wrong type or value"):
        lme.run(data, defined(CELL)(), MODEL, folders=folders)


SCRIPT = """
import sys
from longmemeval import ModelOptions, RunOptions, load_dataset, run
{cell}
made = run(load_dataset("d.json"), Notes, "openai/gpt-x", concurrency=1,
           options=RunOptions(model_options=ModelOptions({url!r})))
print(made.id, made.status, made.report.newly_answered)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=["killed", "interrupted"])
def test_stopped_in_the_middle_and_rerun_it_goes_on(tmp_path: Path, number: int) -> None:
    colours(tmp_path / "d.json", 6)
    with ModelServer(lambda body: "red") as server:
        (tmp_path / "try.py").write_text(SCRIPT.format(cell=CELL, url=server.url))
        server.faults.extend(["slow:0"] * 3 + ["hang"])
        begun = start("try.py", cwd=tmp_path, OPENAI_API_KEY="sk-test")
        deadline = time.monotonic() + 60
        while not (answers := list(tmp_path.glob("results/*/answers.jsonl"))) or len(json_lines(answers[0])) < 3:
            assert begun.poll() is None, begun.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        begun.send_signal(number)
        begun.communicate()
        server.faults.clear()
        again = start("try.py", cwd=tmp_path, OPENAI_API_KEY="sk-test")
        printed, told = again.communicate()
    assert again.returncode == 0, told
    assert re.fullmatch(r"d_Notes_openai-gpt-x_\w{8} completed 3\n", printed)
    assert len(json_lines(answers[0])) == 6


def test_arun_leaves_the_loop_free_and_can_be_cancelled(tmp_path: Path) -> None:
    data, folders = colours(tmp_path / "d.json", 6), folders_in(tmp_path)
    with ModelServer(lambda body: "red") as server:
        options = lme.RunOptions(model_options=lme.ModelOptions(server.url))

        async def cancelled() -> int:
            server.faults.extend(["slow:0"] * 3 + ["slow:60"])
            begun = asyncio.create_task(
                lme.arun(data, "bm25", "openai/gpt-x", concurrency=1, name="r", options=options, folders=folders)
            )
            ticks = 0
            while not (folders.results_dir / "r" / "answers.jsonl").exists() or (
                len(json_lines(folders.results_dir / "r" / "answers.jsonl")) < 3
            ):
                await asyncio.sleep(0.01)
                ticks += 1
            begun.cancel()
            with pytest.raises(asyncio.CancelledError):
                await begun
            return ticks

        async def goes_on() -> lme.Run:
            return await lme.arun(data, "bm25", "openai/gpt-x", name="r", options=options, folders=folders)

        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("OPENAI_API_KEY", "sk-test")
            assert asyncio.run(cancelled()) > 1
            assert lme.Run.open("r", folders=folders).status in ("incomplete", "interrupted")
            server.faults.clear()
            run = asyncio.run(goes_on())
    assert (run.status, run.report and run.report.newly_answered) == ("completed", 3)
