"""What an error or a note says to do works when it is typed."""

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from longmemeval.judges.plants.judged import JUDGED_FILE
from tests.server import ModelServer
from tests.support import ROOT, longmemeval, next_steps

SAMPLE = ROOT / "data" / "sample" / "sample.json"
CLASS = """
class Mine:
    def __init__(self):
        self.stored = []

    def add(self, session):
        self.stored += [message.content for message in session.messages]

    def search(self, query, *, date, limit):
        return self.stored[:limit]
"""
RUN = ["run", "-d", "sample", "-m", "none", "--model", "offline/extractive", "--sample", "4"]


def said(text: str) -> str:
    return " ".join(text.split())


def prepare(folder: Path, data: str = "sample") -> None:
    longmemeval("prepare", "-d", data, "-m", "none", "--sample", "4", cwd=folder)


@pytest.mark.parametrize(
    "line",
    [
        ["run", "-d", "sample", "-m", "none", "--model", "openai/gpt-4o-mini", "--run-id", "r", "--sample", "4"],
        ["evaluate", "r", "--judge", "openai/gpt-4o-mini"],
        ["run", "-d", "sample", "-m", "none", "--model", "gpt-for-nobody", "--run-id", "r", "--sample", "4"],
        ["evaluate", "r", "--judge", "gpt-for-nobody"],
    ],
)
def test_without_a_key_the_offline_way_fits_what_was_asked(tmp_path: Path, line: list[str]) -> None:
    prepare(tmp_path)
    if line[0] == "evaluate":
        longmemeval(*RUN, "--run-id", "r", cwd=tmp_path)
    refused = said(longmemeval(*line, cwd=tmp_path, code=2).stderr)
    option = "--judge" if line[0] == "evaluate" else "--model"
    offline = re.search(rf"work offline:.*?{option} (offline/\w+)", refused)
    assert offline
    typed = [offline[1] if line[place - 1] == option else word for place, word in enumerate(line)]
    longmemeval(*typed, cwd=tmp_path)


@pytest.mark.thorough
def test_the_check_of_a_judge_names_the_data_as_it_was_given(tmp_path: Path) -> None:
    # Named like an entry of the catalogue, which is not here.
    shutil.copy(SAMPLE, tmp_path / "locomo10.json")
    shutil.copy(SAMPLE.with_name(JUDGED_FILE), tmp_path)
    line = ["-d" if word == "-d" else "locomo10.json" if word == "sample" else word for word in RUN]
    prepare(tmp_path, "locomo10.json")
    longmemeval(*line, "--run-id", "r", cwd=tmp_path)
    shown = longmemeval("evaluate", "r", "--judge", "offline/lexical", "--json", cwd=tmp_path).stdout
    (unchecked,) = [one["text"] for one in json.loads(shown)["warnings"] if one["code"] == "unchecked-judge"]
    (command,) = re.findall(r"`longmemeval (judge check .*?)`", unchecked)
    assert "--dataset locomo10.json" in command
    longmemeval(*shlex.split(command), cwd=tmp_path)


def test_a_faulty_file_of_the_users_own_is_his_to_correct(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(f"{CLASS}\nimport json\njson.loads('{{')\n")
    line = len(file.read_text().splitlines())
    refused = longmemeval("memory", "check", "mine:Mine", cwd=tmp_path, code=2).stderr
    assert "ninstall" not in refused
    assert f"Correct {file}, line {line}" in said(refused)
    file.write_text(CLASS + "def\n")
    assert f"mine.py, line {len(CLASS.splitlines()) + 1}" in said(
        longmemeval("memory", "check", "mine:Mine", cwd=tmp_path, code=2).stderr
    )
    file.write_text(f"import nobody_has_this\n{CLASS}")
    refused = said(longmemeval("memory", "check", "mine:Mine", cwd=tmp_path, code=2).stderr)
    assert "Install nobody_has_this, which mine imports" in refused


@pytest.mark.parametrize(("given", "folder"), [("mine.py:Mine", "."), ("below/mine.py:Mine", "below")])
def test_a_memory_named_by_its_file_is_named_by_its_module(tmp_path: Path, given: str, folder: str) -> None:
    (tmp_path / folder).mkdir(exist_ok=True)
    (tmp_path / folder / "mine.py").write_text(CLASS)
    refused = said(longmemeval("memory", "check", given, cwd=tmp_path, code=2).stderr)
    remedy = re.search(r"Write (\S+?:\w+)(?:, in the folder (\w+))?\.", refused)
    assert remedy
    longmemeval("memory", "check", remedy[1], cwd=tmp_path / (remedy[2] or "."))


def test_after_an_address_was_given_nobody_else_is_called(tmp_path: Path) -> None:
    prepare(tmp_path)
    with ModelServer(lambda body: "Green.") as server:
        line = ["run", "-d", "sample", "-m", "none", "--model", "openai/gpt-4o-mini", "--sample", "4", "--run-id", "r"]
        done = longmemeval(*line, "--api-base", server.url, cwd=tmp_path, OPENAI_API_KEY="sk-test-0123456789abcdef")
        (follows,) = next_steps(done.stdout)
        assert follows == ["evaluate", "r", "--api-base", server.url]
        answered = len(server.chat_requests)
        longmemeval(*follows, cwd=tmp_path, OPENAI_API_KEY="sk-test-0123456789abcdef")
        assert {request.body["model"] for request in server.chat_requests[answered:]} == {"gpt-4o-2024-08-06"}
    prepared = longmemeval("prepare", "-d", "sample", "-m", "none", "--api-base", server.url, cwd=tmp_path)
    assert next_steps(prepared.stdout)[0][-2:] == ["--api-base", server.url]


def test_a_model_for_one_memory_is_not_in_the_recipe_of_another(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(CLASS)
    line = ["prepare", "-d", "sample", "-m", "mine:Mine", "--sample", "4"]
    longmemeval(*line, cwd=tmp_path)
    with_model = [*line, "--memory-model", "openai/gpt-4o-mini"]
    again = longmemeval(*with_model, cwd=tmp_path, OPENAI_API_KEY="sk-test-0123456789abcdef").stdout
    assert "Already prepared" in again


def test_another_recipe_is_told_without_dictionaries(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(CLASS.replace("__init__(self)", "__init__(self, embedding_base_url='')"))
    line = ["prepare", "-d", "sample", "-m", "mine:Mine", "--sample", "4"]
    longmemeval(*line, cwd=tmp_path)
    refused = said(longmemeval(*line, "--embedder", "hashing:64", cwd=tmp_path, code=2).stderr)
    assert "embedder.spec" in refused
    assert "{" not in refused
    assert "None" not in refused
    longmemeval(*line, "--embedder", "hashing:64", "--name", "own", cwd=tmp_path)


def test_a_board_without_a_ranked_run_is_no_success(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "No runs in or below" in longmemeval("board", "build", "empty", "-o", "b", cwd=tmp_path, code=2).stderr
    shutil.copy(SAMPLE, tmp_path / "mine.json")
    line = ["mine.json" if word == "sample" else word for word in RUN]
    prepare(tmp_path, "mine.json")
    longmemeval(*line, "--run-id", "r", cwd=tmp_path)
    longmemeval("evaluate", "r", "--judge", "offline/lexical", cwd=tmp_path)
    refused = longmemeval("board", "build", "results", "-o", "b", cwd=tmp_path, code=1)
    assert "--dataset FILE names it" in refused.stderr
    assert "The board has no runs" in refused.stderr
    longmemeval("board", "build", "results", "-o", "b", "--dataset", "mine.json", cwd=tmp_path)


def test_a_folder_is_verified_wherever_it_lies(tmp_path: Path) -> None:
    work, elsewhere = tmp_path / "work", tmp_path / "elsewhere"
    work.mkdir()
    elsewhere.mkdir()
    line = ["last-k" if word == "none" else word for word in RUN]
    longmemeval("prepare", "-d", "sample", "-m", "last-k", "--sample", "4", cwd=work)
    longmemeval(*line, "--run-id", "r", cwd=work)
    for folder in ("../work/results/r", work / "prepared-data" / "sample" / "default"):
        assert "checks passed" in longmemeval("verify", str(folder), cwd=elsewhere).stdout
    answers = work / "results" / "r" / "answers.jsonl"
    answers.write_text(answers.read_text().replace("hypothesis", "hypothesys", 1))
    longmemeval("verify", "../work/results/r", cwd=elsewhere, code=3)


def command_in(text: str) -> list[str]:
    """The first command line between backquotes."""
    found = re.search(r"`longmemeval ([^`]*)`", said(text))
    assert found, text
    return shlex.split(found[1])


@pytest.mark.slow
def test_what_another_verb_does_is_refused_with_its_command(tmp_path: Path) -> None:
    first = command_in(longmemeval("evaluate", cwd=tmp_path, code=2).stderr)
    assert first[:2] == ["run", "--dataset"]
    prepare(tmp_path)
    longmemeval(*RUN, "--run-id", "r", cwd=tmp_path)
    longmemeval(*RUN, "--run-id", "s", cwd=tmp_path)
    longmemeval("evaluate", "s", "--judge", "offline/lexical", cwd=tmp_path)
    # The newest has a score already.
    words = ["evaluate", "--judge", "offline/lexical"]
    grading = command_in(longmemeval(*words, cwd=tmp_path, code=2).stderr)
    assert grading == ["evaluate", "r", "--judge", "offline/lexical"]
    longmemeval(*grading, cwd=tmp_path)
    for asked, named in (
        (["--latex"], {"r", "s"}),
        (["s", "r", "--latex"], {"r", "s"}),
        (["r", "--format", "latex"], {"r"}),
    ):
        writing = command_in(longmemeval("compare", *asked, cwd=tmp_path, code=2).stderr)
        assert (writing[0], writing[-2:], set(writing[1:-2])) == ("report", ["--format", "latex"], named)
        assert "\\begin{table" in longmemeval(*writing, "-o", "-", cwd=tmp_path).stdout
    assert "Did you mean 'github'?" in longmemeval("compare", "r", "--format", "githb", cwd=tmp_path, code=2).stderr


@pytest.mark.slow
def test_a_preparation_has_one_word_and_inspect_takes_parameters(tmp_path: Path) -> None:
    few = ("-d", "sample", "-m", "bm25", "--limit", "1")
    for word, name in (("--prepared", "new"), ("--name", "old")):
        done = longmemeval("prepare", *few, word, name, cwd=tmp_path)
        assert f"--prepared {name}" in done.stdout
        longmemeval("run", *few, "--prepared", name, "--model", "offline/extractive", cwd=tmp_path)
        assert (tmp_path / "prepared-data" / "sample" / name).is_dir()
    (question,) = (json.loads((next((tmp_path / "results").glob("*/run.json"))).read_text()))["question_ids"]
    words = ["inspect", question, "--prepared", "new", "--json"]
    many, few_items = (
        len(json.loads(longmemeval(*words, "-m", "bm25", *more, cwd=tmp_path).stdout)["recalled"][0]["recall"]["items"])
        for more in ([], ["--set", "top_k=1"])
    )
    assert 0 < few_items < many
    named = command_in(longmemeval("inspect", question, "--set", "top_k=1", cwd=tmp_path, code=2).stderr)
    assert named == ["inspect", question, "--memory", "hybrid", "--set", "top_k=1"]
