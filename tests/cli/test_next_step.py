"""What is suggested can be given as it is."""

import json
import shlex
import shutil
import sys
from itertools import chain
from pathlib import Path

import pytest

from longmemeval.benchmarks.locomo.loader import LocomoDataset
from longmemeval.benchmarks.registry import load_dataset
from longmemeval.cli import next_step
from longmemeval.cli.options import Places
from longmemeval.core.text.figures import count_of
from longmemeval.dataset import Dataset
from tests.benchmarks.locomo.test_loader import make_conversation
from tests.benchmarks.longmemeval.test_loader import write
from tests.cli.conftest import Command
from tests.pipeline.helpers import colours
from tests.server import ModelServer
from tests.support import ROOT, next_steps


def follow(command: Command, line: str) -> list[list[str]]:
    """Give a command, every command that it suggests, and all that these suggest; return them in this order.

    Those that wait for somebody are left out: a server, and questions to be typed.
    """
    left, followed = [shlex.split(line)], list[list[str]]()
    while left:
        words = left.pop(0)
        if words in followed or words[0] == "view" or words[:2] == ["datasets", "label"]:
            continue
        done = command(shlex.join(words))
        assert done.code == 0, f"{words}\n{done.stdout}\n{done.stderr}"
        followed.append(words)
        left += next_steps(done.stdout) + next_steps(done.stderr)
    return followed


@pytest.mark.slow
def test_the_whole_way_by_following_what_is_suggested(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    followed = follow(command, "prepare -d sample -m hybrid --set top_k=3 --limit 2 --prepared-dir 'my fixtures'")
    assert [words[0] for words in followed] == ["prepare", "run", "evaluate", "report"]
    (run,) = (tmp_path / "results").glob("*/run.json")
    assert '"top_k": 3' in run.read_text()
    # Of a second run, the way leads to the comparison too.
    assert "compare" in chain(*follow(command, "prepare -d sample -m bm25 --limit 2 --prepared-dir 'my fixtures'"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "leads_to"),
    [
        ("inspect smp_4ea7", {"inspect"}),
        ("facts smp_4ea7", {"facts"}),
        ("retrieval -d sample -m bm25 --limit 2", {"retrieval", "export"}),
        ("claims list", {"claims"}),
        ("claims table", {"claims"}),
        ("memory init mymem.py", {"memory", "probe", "retrieval", "export", "prepare", "run", "evaluate", "report"}),
        ("datasets import family.csv --output mine", {"datasets"}),
        ("import answers.jsonl -d sample --run-id taken", {"import", "evaluate", "report"}),
    ],
)
def test_what_a_command_suggests_can_be_given(
    line: str, leads_to: set[str], tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    if line.startswith("retrieval"):
        assert command("prepare -d sample -m bm25 --limit 2").code == 0
    answers = [{"question_id": one.question_id, "hypothesis": "Green."} for one in load_dataset("sample").questions()]
    (tmp_path / "answers.jsonl").write_text("\n".join(map(json.dumps, answers)))
    shutil.copy(ROOT / "examples" / "own-conversations" / "family.csv", tmp_path)
    assert {words[0] for words in follow(command, line)} == leads_to


def test_pages_are_suggested_only_where_their_libraries_are(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [line for line, _ in next_step.page("a", places=Places())] == ["longmemeval report a"]
    assert [line for line, _ in next_step.view(Places())] == ["longmemeval view"]
    for library in ("matplotlib", "starlette"):
        monkeypatch.setitem(sys.modules, library, None)
    assert next_step.page("a", places=Places()) == next_step.view(Places()) == []
    monkeypatch.chdir(tmp_path)
    refused = command("view --no-open")
    assert refused.code == 2
    assert f"install -e '{ROOT}[view]'" in " ".join(refused.stderr.split())


def test_an_unfinished_run_is_resumed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["longmemeval", "run", "-d", "my file.json", "--run-id", "x", "--model=m"])
    assert shlex.split(next_step.resume("x")) == [
        *("longmemeval", "run", "-d", "my file.json", "--model=m", "--resume", "x")
    ]
    assert next_step.repeat_again("x-r1").endswith("--run-id x")


def test_judge_fits_the_model_the_address_and_the_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, german = colours(tmp_path / "c.json"), colours(tmp_path / "d.json", question="Wie ist die Farbe von dem Rad?")
    places = Places(results_dir=Path("my runs"))

    def grade(data: Dataset, model: str, api_base: str | None = None) -> str:
        ((line, _),) = next_step.grade("r", data, model, places, api_base=api_base)
        return line.removeprefix("longmemeval evaluate r").removesuffix(" --results-dir 'my runs'")

    here = "http://localhost:8000/v1"
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    assert grade(data, "openai/gpt-4o") == ""
    assert grade(data, "offline/extractive") == " --judge offline/lexical"
    monkeypatch.delenv("OPENAI_API_KEY")
    assert grade(data, "openai/gpt-4o") == " --judge offline/lexical"
    assert grade(data, "openai/gpt-4o", here) == f" --api-base {here}"
    # Another provider's interface is there, which the judge does not speak.
    assert grade(data, "ollama/llama3", here) == " --judge offline/lexical"
    # The offline judge reads English alone.
    assert grade(german, "openai/gpt-4o") == " --judge MODEL"
    locomo = LocomoDataset(write(tmp_path / "l.json", make_conversation()))
    assert grade(locomo, "openai/gpt-4o") == ""


@pytest.mark.slow
def test_a_fresh_folder_claims_no_cache(tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with ModelServer() as server:
        prepare = f"prepare -d sample -m hybrid --limit 3 --embedder openai:local --api-base {server.url}"
        fresh = command(prepare).stdout
        assert "cache" not in fresh
        assert "computed" in fresh
        assert "from the cache" in command(f"{prepare} --force").stdout
    # Vectors of the offline embedder are not in it.
    assert "from the cache" not in command("prepare -d sample -m hybrid --limit 3 --prepared offline").stdout


@pytest.mark.parametrize(("number", "text"), [(0, "0 questions"), (1, "1 question"), (1986, "1,986 questions")])
def test_one_question_is_one(number: int, text: str) -> None:
    assert count_of(number, "question") == text
    assert count_of(2, "reply", "replies") == "2 replies"
