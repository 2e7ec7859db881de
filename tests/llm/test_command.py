"""A program as a chat model: real child processes."""

import asyncio
import json
import signal
import sys
import time
from pathlib import Path

import pytest

from longmemeval import settings
from longmemeval.core.text.figures import UNKNOWN
from longmemeval.errors import FatalModelError, HarnessError, TransientModelError
from longmemeval.llm.costs import Account, price
from longmemeval.llm.http.endpoints import served_at
from longmemeval.llm.options import ModelOptions, SpendingLimit
from longmemeval.llm.protocol import ChatMessage, ChatReply, ChatRequest, LimitedChatModel
from longmemeval.llm.registry import check_batches, is_priced, load_chat_model, load_forwarded, model_warning
from longmemeval.llm.tokens import context_window, token_counter
from longmemeval.records import Usage
from tests.memory.external.test_outliving import gone_within
from tests.pipeline.helpers import start
from tests.support import ROOT, json_lines, longmemeval
from tests.view.client import visitor


def program(folder: Path, script: str, name: str = "reply.py") -> str:
    """The spec of a program of Python."""
    (folder / name).write_text(f"import json, os, pathlib, subprocess, sys, time\n{script}\n")
    return f"command:{sys.executable} {folder / name}"


def ask(spec: str, *texts: str, timeout_s: float = 20.0, max_attempts: int = 2) -> ChatReply:
    options = ModelOptions(timeout_s=timeout_s, max_attempts=max_attempts, max_wait_s=0.02)
    messages = tuple(ChatMessage("assistant" if place % 2 else "user", text) for place, text in enumerate(texts))
    return asyncio.run(load_chat_model(spec, options).complete(ChatRequest(messages, max_tokens=5)))


def test_the_prompt_goes_in_and_the_reply_comes_out(tmp_path: Path) -> None:
    reply = ask(program(tmp_path, "print('<think>Hm.</think>\\n' + sys.stdin.read().upper())"), "ein Tee — “ja”\n")
    assert (reply.text, reply.reasoning) == ("EIN TEE — “JA”", "Hm.")
    assert (reply.finish_reason, reply.attempts, reply.served_model) == ("stop", 1, "")
    # Tokens and price are unknown, not 0.
    assert reply.usage == Usage(calls=1, unpriced_calls=1)
    assert (reply.usage.has_tokens, reply.usage.dollars) == (False, None)
    assert (reply.latency_ms or 0.0) > 0


def test_the_prompt_may_be_an_argument(tmp_path: Path) -> None:
    spec = program(tmp_path, "print(json.dumps([sys.argv[1:], sys.stdin.read()]))") + " -p {prompt} --x='{prompt}!'"
    assert json.loads(ask(spec, "a 'b' $HOME; ls").text) == [
        ["-p", "a 'b' $HOME; ls", "--x=a 'b' $HOME; ls!"],
        "",
    ]
    with pytest.raises(HarnessError, match="too long for an argument"):
        ask(spec, "x" * 3_000_000)


def test_several_messages_are_shown_with_their_roles(tmp_path: Path) -> None:
    spec = program(tmp_path, "print(sys.stdin.read())")
    assert ask(spec, "one", "two", "three").text == "[user]\none\n\n[assistant]\ntwo\n\n[user]\nthree"


def test_a_long_prompt_need_not_be_read(tmp_path: Path) -> None:
    assert ask(program(tmp_path, "print('ok')"), "x" * 2_000_000).text == "ok"


def test_it_runs_in_an_empty_folder_with_our_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that looks around it, as agents do, finds no data."""
    monkeypatch.setenv("OWN_SETTING", "kept")
    monkeypatch.chdir(tmp_path)
    spec = program(tmp_path, "print(json.dumps([os.listdir('.'), os.getcwd(), os.environ['OWN_SETTING']]))")
    spec = spec.replace(f"{tmp_path}/", "")  # A file of ours is found all the same.
    files, folder, setting = json.loads(ask(spec, "?").text)
    assert (files, setting) == ([], "kept")
    assert folder != str(tmp_path)
    assert not Path(folder).exists()


def test_a_failure_names_its_exit_code_and_the_last_words(tmp_path: Path) -> None:
    with pytest.raises(TransientModelError) as caught:
        ask(program(tmp_path, "print('limit reached', file=sys.stderr); sys.exit(3)"), "?")
    assert "The program ended with exit code 3: limit reached" in caught.value.what
    with pytest.raises(TransientModelError, match="exit code 1: on standard output"):
        ask(program(tmp_path, "print('on standard output'); sys.exit(1)"), "?")
    with pytest.raises(TransientModelError, match="killed by signal 9"):
        ask(program(tmp_path, "os.kill(os.getpid(), 9)"), "?")


def test_a_program_that_never_replies_is_not_started_for_long(tmp_path: Path) -> None:
    spec = program(tmp_path, f"open({str(tmp_path / 'n')!r}, 'a').write('x'); sys.exit(3)")
    with pytest.raises(FatalModelError, match="exit code 3"):
        ask(spec, "?", max_attempts=9)
    assert (tmp_path / "n").read_text() == "xxx"


def test_one_failure_is_tried_again(tmp_path: Path) -> None:
    script = f"p = pathlib.Path({str(tmp_path / 'n')!r})\nif not p.exists(): p.touch(); sys.exit(1)\nprint('ok')"
    reply = ask(program(tmp_path, script), "?")
    assert (reply.text, reply.attempts) == ("ok", 2)


def test_a_time_limit_ends_it_with_what_it_has_started(tmp_path: Path) -> None:
    script = f"child = subprocess.Popen(['sleep', '600'])\nopen({str(tmp_path / 'p')!r}, 'w').write(str(child.pid))\n"
    with pytest.raises(TransientModelError, match="no reply in 1 s"):
        ask(program(tmp_path, script + "time.sleep(600)"), "?", timeout_s=1.0, max_attempts=1)
    assert gone_within([int((tmp_path / "p").read_text())], 60)


def test_at_most_so_many_at_a_time(tmp_path: Path) -> None:
    log = str(tmp_path / "log")
    script = f"f = open({log!r}, 'a')\nf.write('+'); f.flush(); time.sleep(0.05); f.write('-'); f.flush(); print('ok')"
    model = LimitedChatModel(load_chat_model(program(tmp_path, script)), 2)

    async def all_() -> None:
        request = ChatRequest((ChatMessage("user", "?"),), max_tokens=5)
        await asyncio.gather(*(model.complete(request) for _ in range(6)))

    asyncio.run(all_())
    under_way = most = 0
    for mark in Path(log).read_text():
        under_way += 1 if mark == "+" else -1
        most = max(most, under_way)
    assert (most, under_way) == (2, 0)


@pytest.mark.parametrize(
    ("spec", "what"),
    [
        ("command:", "names no program"),
        ("command:no-such-program -p", "'no-such-program' not found"),
        ("command:sh -c 'oops", "cannot be read"),
        ("command:sh --api-key abcdef", "contains a secret"),
    ],
)
def test_a_command_that_cannot_work_is_refused_before_any_call(spec: str, what: str) -> None:
    for refuse in (load_chat_model, model_warning):
        with pytest.raises(FatalModelError, match=what) as caught:
            refuse(spec)
        assert "abcdef" not in str(caught.value)


def test_nothing_is_known_of_it_and_nothing_made_up(tmp_path: Path) -> None:
    spec = program(tmp_path, "") + " gpt-4o"
    assert (price(spec, 1000, 1000), is_priced(spec), context_window(spec)) == (None, False, None)
    assert served_at(spec, ModelOptions("http://127.0.0.1:9/v1")) is None
    assert token_counter(spec).count("one two") == 2
    assert "tokens and cost are unknown" in str(model_warning(spec))
    with pytest.raises(FatalModelError, match="price"):
        load_chat_model(spec, account=Account(None, SpendingLimit(1.0)))
    with pytest.raises(FatalModelError, match="no batches"):
        check_batches(spec)
    with pytest.raises(FatalModelError, match="not requests of a memory system"):
        load_forwarded(spec)
    model, request = load_chat_model(spec), ChatRequest((ChatMessage("user", "?"),), max_tokens=5, tools=({},))
    with pytest.raises(FatalModelError, match="cannot call tools"):
        asyncio.run(model.complete(request))


def test_a_run_and_a_judge_by_programs(tmp_path: Path) -> None:
    """From the answer to what `inspect` shows and `verify` computes again; unknown figures are dashes."""
    longmemeval("prepare", "--dataset", "sample", "--memory", "bm25", "--limit", "2", cwd=tmp_path)
    reader = program(tmp_path, "print('<think>Surely coffee.</think>Tea.')", "reader.py")
    judge = program(tmp_path, "print('<think>no, no</think>Yes.' if 'Tea.' in sys.stdin.read() else 'No.')", "judge.py")
    run = ("run", "--dataset", "sample", "--memory", "bm25", "--limit", "2", "--model", reader, "--run-id", "mine")
    said = longmemeval(*run, cwd=tmp_path)
    assert "2 calls, tokens unknown, cost unknown" in said.stdout
    done = longmemeval("evaluate", "mine", "--judge", judge, cwd=tmp_path)
    graded, note = done.stdout, f"Note: {judge} gets the prompt only"
    assert (said.stderr.count(f"Note: {reader} gets the prompt only"), done.stderr.count(note)) == (1, 1)
    assert note not in longmemeval("evaluate", "mine", "--judge", judge, cwd=tmp_path).stderr
    rows = {line.split()[0]: line.split()[1:] for line in graded.splitlines() if line.split()}
    assert rows["answers"] == rows["judge"] == ["2", "0", UNKNOWN, UNKNOWN, UNKNOWN]
    assert rows["total"] == ["4", "0", UNKNOWN, UNKNOWN, UNKNOWN]
    assert "Not the official judge" in graded
    answer = json_lines(tmp_path / "results/mine/answers.jsonl")[0]
    assert (answer["hypothesis"], answer["reasoning"]) == ("Tea.", "Surely coffee.")
    judgements = json_lines(next((tmp_path / "results/mine/judgements").iterdir()))
    assert [(one["label"], one["raw"], one["reasoning"]) for one in judgements] == [(True, "Yes.", "no, no")] * 2
    shown = longmemeval("inspect", answer["question_id"], "--run", "mine", "--json", cwd=tmp_path).stdout
    (seen,) = json.loads(shown)["runs"]
    assert (seen["hypothesis"], seen["reasoning"], seen["judgements"][0]["reasoning"]) == (
        "Tea.",
        "Surely coffee.",
        "no, no",
    )
    printed = longmemeval("inspect", answer["question_id"], "--run", "mine", cwd=tmp_path).stdout
    assert "Reasoning (not judged): Surely coffee." in printed
    assert "checks passed" in longmemeval("verify", "mine", cwd=tmp_path).stdout
    folders = settings.folders(ROOT / "data", tmp_path / "prepared-data", tmp_path / "results")
    page = visitor(folders, ["mine"]).get("/question").text
    for reasoning in ("its reasoning, which is not judged</summary>", "Surely coffee.", "no, no"):
        assert reasoning in page


def test_it_ends_with_a_command_that_is_killed(tmp_path: Path) -> None:
    longmemeval("prepare", "--dataset", "sample", "--memory", "bm25", "--limit", "1", cwd=tmp_path)
    started = tmp_path / "pid"
    spec = program(tmp_path, f"pathlib.Path({str(started)!r}).write_text(str(os.getpid())); time.sleep(600)")
    process = start("run", "--dataset", "sample", "--memory", "bm25", "--limit", "1", "--model", spec, cwd=tmp_path)
    deadline = time.monotonic() + 120
    while not (started.exists() and started.read_text()):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate(120)
    assert gone_within([int(started.read_text())], 60)
