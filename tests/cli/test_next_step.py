"""What is suggested can be given as it is."""

import shlex
import sys
from pathlib import Path

import pytest

from longmemeval.benchmarks.locomo.loader import LocomoDataset
from longmemeval.cli import next_step
from longmemeval.cli.options import Places
from longmemeval.core.text.figures import count_of
from tests.benchmarks.locomo.test_loader import make_conversation
from tests.benchmarks.longmemeval.test_loader import write
from tests.cli.conftest import Command
from tests.pipeline.helpers import colours


@pytest.mark.slow
def test_the_whole_way_by_following_what_is_suggested(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    line = "prepare -d sample -m hybrid --set top_k=3 --limit 2 --prepared-dir 'my fixtures'"
    followed = []
    while line:
        done = command(line)
        assert done.code == 0, done.stderr
        followed.append(line.split()[0])
        hints = [one for one in (done.stdout + done.stderr).splitlines() if one.startswith("Next: ")]
        line = hints[0].removeprefix("Next: longmemeval ") if hints else ""
    assert followed == ["prepare", "run", "evaluate"]
    (run,) = (tmp_path / "results").glob("*/run.json")
    assert '"top_k": 3' in run.read_text()


def test_an_unfinished_run_is_resumed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["longmemeval", "run", "-d", "my file.json", "--run-id", "x", "--model=m"])
    assert shlex.split(next_step.resume("x")) == [
        *("longmemeval", "run", "-d", "my file.json", "--model=m", "--resume", "x")
    ]
    assert next_step.repeat_again("x-r1").endswith("--run-id x")


def test_judge_fits_the_model_and_the_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, german = colours(tmp_path / "c.json"), colours(tmp_path / "d.json", question="Wie ist die Farbe von dem Rad?")
    places = Places(results_dir=Path("my runs"))
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    assert next_step.grade("r", data, "openai/gpt-4o", places) == ("longmemeval evaluate r --results-dir 'my runs'")
    assert "--judge offline/lexical" in next_step.grade("r", data, "offline/extractive", places)
    monkeypatch.delenv("OPENAI_API_KEY")
    assert "--judge offline/lexical" in next_step.grade("r", data, "openai/gpt-4o", places)
    # The offline judge reads English alone.
    assert "--judge MODEL" in next_step.grade("r", german, "openai/gpt-4o", places)
    locomo = LocomoDataset(write(tmp_path / "l.json", make_conversation()))
    assert "--judge" not in next_step.grade("r", locomo, "openai/gpt-4o", places)


@pytest.mark.slow
def test_a_fresh_folder_claims_no_cache(tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    fresh = command("prepare -d sample -m hybrid --limit 3").stdout
    assert "cache" not in fresh
    assert "computed" in fresh
    assert "from the cache" in command("prepare -d sample -m hybrid --limit 3 --force").stdout


@pytest.mark.parametrize(("number", "text"), [(0, "0 questions"), (1, "1 question"), (1986, "1,986 questions")])
def test_one_question_is_one(number: int, text: str) -> None:
    assert count_of(number, "question") == text
    assert count_of(2, "reply", "replies") == "2 replies"
