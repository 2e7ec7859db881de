"""A run without answers on the command line: it says why once, has no score, and may begin again; a class is edited."""

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pipeline.helpers import prepared_colours
from tests.server import Fault, ModelServer, Refusal
from tests.support import json_lines, longmemeval, next_steps

TRIES = ("--dataset", "colours.json", "--memory", "mymem:Mine", "--model", "offline/extractive")
MINE = '''
class Mine:
    """Keeps what was said."""
    def __init__(self): self.kept = []
    def add(self, session): self.kept += session.messages
    def search(self, query, *, date, limit):
        return [{"text": m.content, "message_ids": [m.id]} for m in self.kept[-limit:]]
'''


def told(text: str) -> str:
    return " ".join(text.split())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    prepared_colours(tmp_path, 6)
    (tmp_path / "mymem.py").write_text(MINE)
    return tmp_path


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(lambda body: "It is green.") as running:
        yield running


@pytest.mark.parametrize(
    ("fault", "code", "why"),
    [
        (Refusal(403, "Your key may not use this model"), 2, "The server refused the call, 403: Your key may not use"),
        (Refusal(400, "'top_p' is not supported"), 1, "6 of 6 questions failed: The call failed, 400: 'top_p' is not"),
    ],
)
def test_one_reason_is_told_once_and_named_by_every_verb(
    fault: Fault, code: int, why: str, folder: Path, server: ModelServer
) -> None:
    server.plan = lambda: fault
    given = ("run", "--dataset", "colours.json", "--memory", "last-k", "--api-base", server.url, "--model", "openai/m")
    done = longmemeval(*given, "--run-id", "r", cwd=folder, code=code)
    assert why in told(done.stderr)
    assert told(done.stderr).count(why.rpartition(": ")[2]) == 1
    assert "--resume" not in done.stdout + done.stderr
    again = shlex.join(["longmemeval", *given, "--resume", "r"])
    refused = longmemeval("evaluate", "r", "--judge", "offline/lexical", cwd=folder, code=2)
    assert told(refused.stderr).startswith(f"Error: Run 'r' has no answers, so it has no score. {why}")
    assert f"continue with `{again}`" in told(refused.stderr)
    assert not (folder / "results" / "r" / "metrics").exists()
    assert "no answers" in longmemeval("runs", cwd=folder).stdout
    shown = longmemeval("status", "r", cwd=folder).stdout
    assert f"cause: {why}" in told(shown)
    assert next_steps(shown) == [shlex.split(again)[1:]]
    state = json.loads(longmemeval("status", "r", "--json", cwd=folder).stdout)
    assert state["cause"].startswith(why)
    # The command works as it is printed, once the cause is gone.
    server.plan = lambda: None
    longmemeval(*shlex.split(state["next"])[1:], cwd=folder)
    shown = longmemeval("status", "r", cwd=folder).stdout
    assert "cause" not in shown
    assert next_steps(shown) == [["evaluate", "r"]]


def test_a_run_id_without_answers_may_begin_again_with_other_settings(folder: Path, server: ModelServer) -> None:
    server.plan = lambda: Refusal(400, "no")
    given = ("run", "--dataset", "colours.json", "--memory", "last-k", "--run-id", "r")
    longmemeval(*given, "--api-base", server.url, "--model", "openai/local", cwd=folder, code=1)
    longmemeval(*given, "--model", "offline/extractive", cwd=folder)
    run = folder / "results" / "r"
    assert (
        len(json_lines(run / "answers.jsonl")) == len(json_lines(run / "without-answers" / "1" / "answers.jsonl")) == 6
    )
    assert json.loads((run / "run.json").read_text())["settings"]["model"]["spec"] == "offline/extractive"
    assert "checks passed" in longmemeval("verify", "r", cwd=folder).stdout
    # With answers its settings are fixed.
    longmemeval(*given, "--model", "offline/parrot", cwd=folder, code=2)


def test_several_runs_are_graded_besides_one_without_answers(folder: Path, server: ModelServer) -> None:
    given = ("run", "--dataset", "colours.json", "--memory", "last-k")
    longmemeval(*given, "--model", "offline/extractive", "--run-id", "some-b", cwd=folder)
    server.plan = lambda: Refusal(400, "no")
    longmemeval(*given, "--api-base", server.url, "--model", "openai/l", "--run-id", "some-a", cwd=folder, code=1)
    done = longmemeval("evaluate", "some-*", "--judge", "offline/lexical", cwd=folder, code=1)
    assert "Run 'some-a' has no answers" in told(done.stderr)
    assert "some-b: " in done.stdout


def test_a_mistake_in_a_class_is_told_once_and_its_correction_is_prepared_beside_it(folder: Path) -> None:
    (folder / "mymem.py").write_text(MINE.replace('"text"', '"txt"'))
    longmemeval("prepare", *TRIES[:4], cwd=folder)
    failed = longmemeval("run", *TRIES, "--run-id", "r", cwd=folder, code=1)
    assert "Error: Mine failed at the first 3 questions, so the run stopped. At question q" in told(failed.stderr)
    assert "mymem.py, line 6: a hit has no field 'txt' (did you mean 'text'?); it can have text," in told(failed.stderr)
    assert failed.stderr.count("'txt'") == 1
    assert "--resume" not in failed.stdout + failed.stderr
    (folder / "mymem.py").write_text(MINE)
    refused = longmemeval("run", *TRIES, "--run-id", "r", cwd=folder, code=2)
    assert "The code of 'mymem:Mine' has changed since it was prepared (source_sha256: was '" in told(refused.stderr)
    assert "service:" not in refused.stderr
    assert "Run `longmemeval prepare --dataset colours.json --memory mymem:Mine`." in told(refused.stderr)
    (earlier,) = (folder / "prepared-data/colours/default/q0").glob("Mine-*")
    dry = longmemeval("prepare", *TRIES[:4], "--dry-run", cwd=folder)
    assert "has changed since it was prepared" in told(dry.stderr)
    again = longmemeval("prepare", *TRIES[:4], cwd=folder)
    assert (
        told(again.stderr).count("The code of 'mymem:Mine' has changed since it was prepared (source_sha256: was") == 1
    )
    parts = set((folder / "prepared-data/colours/default/q0").glob("Mine-*"))
    assert earlier in parts
    assert len(parts) == 2
    assert "Already prepared" in longmemeval("prepare", *TRIES[:4], cwd=folder).stdout
    # The run had no answers, so its id is free; once it has some, the next id is named.
    longmemeval("run", *TRIES, "--run-id", "r", cwd=folder)
    (folder / "mymem.py").write_text(MINE + "# edited\n")
    longmemeval("prepare", *TRIES[:4], cwd=folder)
    refused = longmemeval("run", *TRIES, "--run-id", "r", cwd=folder, code=2)
    assert told(refused.stderr).endswith("Begin a new run with --run-id r-2 (in Python: name='r-2').")
    longmemeval("run", *TRIES, "--run-id", "r-2", cwd=folder)
    # Both runs hold, by the parts of their own code.
    for run in ("r", "r-2"):
        assert "all" in longmemeval("verify", run, "--memory", "mymem:Mine", cwd=folder).stdout
    assert "all" in longmemeval("verify", "colours", "--memory", "mymem:Mine", cwd=folder).stdout


def test_status_is_in_the_help(tmp_path: Path) -> None:
    assert (
        "status     Show how runs stand, why they ended, and the next command."
        in longmemeval("--help", cwd=tmp_path).stdout
    )
