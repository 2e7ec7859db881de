"""A judge is also where it is served: who answers at another address is not the official judge, nor the same one."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from longmemeval.benchmarks.longmemeval.benchmark import LONGMEMEVAL
from longmemeval.benchmarks.registry import load_judge
from longmemeval.llm.http import endpoints
from longmemeval.llm.http.endpoints import OWN_ENDPOINT
from longmemeval.llm.options import ModelOptions
from longmemeval.llm.tokens import CallCounter
from longmemeval.pipeline.evaluate.evaluate import EvaluateOptions, evaluate
from longmemeval.pipeline.verify.verify import verify
from longmemeval.results.graded.graded_run import Evaluation
from longmemeval.settings import Folders
from tests.pipeline.finished import finished
from tests.pipeline.helpers import answer_all
from tests.server import ModelServer
from tests.support import json_lines, longmemeval, tree

MODEL = "gpt-4o-2024-08-06"
KEY = "sk-not-a-real-key-0123"


@pytest.fixture
def server() -> Iterator[ModelServer]:
    """Says that everything is right, and that it is the official model."""
    with ModelServer(lambda body: "yes", served_model=MODEL) as server:
        yield server


@pytest.fixture
def folders(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folders:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    dataset, folders = finished(tmp_path_factory, tmp_path, judge="")
    answer_all(dataset, folders, "s")
    return folders


def judged(folders: Folders, server: ModelServer, *, path: str = "") -> Evaluation:
    asked = EvaluateOptions(
        judge=f"openai/{MODEL}", model_options=ModelOptions(api_base=server.url + path, max_attempts=1), concurrency=1
    )
    return evaluate("r", options=asked, folders=folders)


@pytest.mark.variants
@pytest.mark.parametrize("by", ["option", "OPENAI_BASE_URL", "OPENAI_API_BASE"])
def test_a_server_that_says_yes_is_nowhere_called_official(
    folders: Folders, server: ModelServer, tmp_path: Path, by: str
) -> None:
    option = ("--api-base", server.url) if by == "option" else ()
    commands = [
        ("evaluate", "r", *option),
        ("evaluate", "s", *option),
        ("evaluate", "r", *option, "--json"),
        ("verify", "r"),
        ("compare", "r", "s"),
        ("compare", "r", "s", "--json"),
        ("compare", "r", "s", "--across"),
        ("report", "r", "s", "--format", "md", "--output", "-"),
        ("report", "r", "s", "--format", "latex", "--output", "-"),
        ("report", "r", "s"),
        ("compare", "r", "--save-baseline", "baseline.json"),
    ]
    environment = {"OPENAI_API_KEY": KEY} | ({} if by == "option" else {by: server.url})
    if by != "option":
        # What follows reads the same files, however the address came into them.
        commands = [*commands[:3], ("compare", "r", "s"), ("report", "r", "s")]
    said = [longmemeval(*command, cwd=tmp_path, code=0, **environment) for command in commands]
    assert len(server.chat_requests) == 8
    texts = {" ".join(command): one.stdout + one.stderr for command, one in zip(commands, said, strict=True)}
    texts |= {name: data.decode(errors="replace") for name, data in tree(tmp_path).items() if "prepared" not in name}
    for name, text in texts.items():
        assert "Official." not in text, name
        assert '"official":true' not in text.replace(" ", ""), name
    for name in (" ".join(commands[0]), "compare r s", "report.html"):
        assert f"official prompts, served at {server.url}" in " ".join(texts[name].split()), name
        assert "not official" in texts[name].lower().replace("not the official judge", "not official"), name
    (document, index) = json.loads(said[2].stdout), json_lines(folders.results_dir / "index.jsonl")
    assert document["judge"]["endpoint"] == index[0]["endpoint"] == server.url


def test_labels_of_one_address_are_not_those_of_another(folders: Folders, server: ModelServer) -> None:
    with ModelServer(lambda body: "no", served_model=MODEL) as other:
        first, second = judged(folders, server), judged(folders, other)
        assert (len(server.chat_requests), len(other.chat_requests)) == (4, 4)
        assert (first.metrics.overall.correct, second.metrics.overall.correct) == (4, 0)
        assert first.metrics.judge.id != second.metrics.judge.id
        assert len(list((folders.results_dir / "r" / "judgements").iterdir())) == 2
        # Another path at the same host is another address; a final slash is not.
        assert judged(folders, server).newly_judged == 0
        assert judged(folders, server, path="/").newly_judged == 0
    assert verify("r", folders=folders).problems == ()


@pytest.mark.parametrize(
    ("spec", "votes", "repeat"),
    [(MODEL, 1, 1), (f"strict@openai/{MODEL}", 1, 1), (MODEL, 3, 1), (MODEL, 1, 2), (f"lenient@{MODEL}", 3, 2)],
)
def test_every_kind_of_judge_is_also_where_it_is_served(spec: str, votes: int, repeat: int) -> None:
    bases = [None, "https://api.openai.com/v1", "http://127.0.0.1:8000/v1", "http://127.0.0.1:8001/v1"]
    own, named, here, there = (
        load_judge(
            spec, CallCounter, benchmark=LONGMEMEVAL, votes=votes, repeat=repeat, options=ModelOptions(api_base=base)
        ).identity
        for base in bases
    )
    assert own == named
    assert (own.endpoint, here.endpoint, there.endpoint) == (OWN_ENDPOINT, bases[2], bases[3])
    assert len({own.id, here.id, there.id}) == 3
    assert not here.official


def test_what_is_labelled_is_shown_again_without_a_key(folders: Folders, server: ModelServer, tmp_path: Path) -> None:
    first = longmemeval("evaluate", "r", "--api-base", server.url, "--json", cwd=tmp_path, OPENAI_API_KEY=KEY)
    again = longmemeval("evaluate", "r", "--api-base", server.url, "--json", cwd=tmp_path)
    assert again.stdout == first.stdout
    # The same for a provider that no placeholder key reaches, and with a limit on the cost of calls.
    spec = ("evaluate", "r", "--judge", f"openai/{MODEL}", "--max-cost", "1")
    refused = longmemeval(*spec, cwd=tmp_path, code=2)
    assert "needs credentials that are not set" in " ".join(refused.stderr.split())
    assert len(list((folders.results_dir / "r" / "judgements").iterdir())) == 1


def test_the_default_judge_asks_for_no_key_where_nothing_is_left(
    folders: Folders, server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The test's server stands for OpenAI's own.
    monkeypatch.setitem(endpoints.OWN_ADDRESSES, "openai", server.url)
    done = judged(folders, server)
    assert done.metrics.judge.official
    shown = longmemeval("evaluate", "r", cwd=tmp_path).stdout
    assert f"Judge: openai/{MODEL}. Official." in shown
    assert "Newly graded: 0" in shown
    nothing = longmemeval("evaluate", "s", cwd=tmp_path, code=2)
    assert "needs credentials that are not set" in " ".join(nothing.stderr.split())


def test_the_id_of_a_judge_cannot_be_asked_anew(folders: Folders, server: ModelServer, tmp_path: Path) -> None:
    known = judged(folders, server).metrics.judge.id
    told = longmemeval("evaluate", "r", "--judge", known, "--rejudge", cwd=tmp_path, code=2).stderr
    assert "which cannot be asked again" in " ".join(told.split())
