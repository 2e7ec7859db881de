"""`run --protocol official` for LoCoMo-Plus: all prompts byte for byte, and nothing official without the words."""

import json
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from longmemeval.benchmarks.locomo_plus.loader import LocomoPlusDataset
from longmemeval.benchmarks.locomo_plus.protocol import CHOSEN, FAILED, PROMPT_FILE, TASK_FILE, compose, protocol_record
from longmemeval.benchmarks.registry import load_dataset
from longmemeval.llm.options import ModelOptions
from longmemeval.memory.items import message_item
from longmemeval.pipeline.prepare.prepare import PrepareOptions, prepare
from longmemeval.pipeline.run.plan import RunOptions
from longmemeval.pipeline.run.run import run
from longmemeval.records import Recall, RecalledItem
from longmemeval.results.selection import Selection
from longmemeval.storage.messages import haystack_messages
from tests.conftest import real_file
from tests.pipeline.helpers import folders_in
from tests.server import ModelServer
from tests.support import longmemeval

OFFICIAL = ("--protocol", "official")
KEY = "sk-not-a-real-key-0123"
WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
DAYS = {"week": 7, "month": 30, "year": 365}


@pytest.fixture(scope="module")
def templates() -> dict[str, str]:
    document = json.loads(real_file("../protocol/locomo_plus_judge_templates.json").read_text())
    return {name: template["text"] for name, template in document["templates"].items()}


@pytest.fixture(scope="module")
def real() -> LocomoPlusDataset:
    return LocomoPlusDataset(real_file("locomo_plus.json"))


def write_texts(folder: Path, templates: dict[str, str]) -> Path:
    """The authors' two files, made again from their texts."""
    folder.mkdir(parents=True, exist_ok=True)
    opening, judges = templates["CONV_START_PROMPT"], {"Cognitive": templates["Cognitive"]}
    (folder / PROMPT_FILE).write_text(f"CONV_START_PROMPT = {opening!r}\nPROMPT_TEMPLATES = {judges!r}\n")
    task = templates["INSTRUCTION_COGNITIVE"]
    (folder / TASK_FILE).write_text(
        f"CONV_START_PROMPT = {opening!r}\nINSTRUCTION_COGNITIVE = {task!r}\nraise SystemExit\n"
    )
    return folder


def expected_prompts(templates: dict[str, str]) -> Iterator[str]:
    """What `data/unified_input.py` and `task_eval/utils.py` make of the two files."""
    conversations = [one["conversation"] for one in json.loads(real_file("locomo10.json").read_bytes())]
    opening = templates["CONV_START_PROMPT"].format("A", "B") + templates["INSTRUCTION_COGNITIVE"]
    for number, item in enumerate(json.loads(real_file("locomo_plus.json").read_bytes())):
        conversation = conversations[number % 10]
        names = {side: conversation[f"speaker_{side.lower()}"] for side in "AB"}
        events = []
        session = 1
        while f"session_{session}" in conversation:
            when = datetime.strptime(conversation[f"session_{session}_date_time"], "%I:%M %p on %d %B, %Y")
            events.append((when, [(turn["speaker"], turn["text"]) for turn in conversation[f"session_{session}"]]))
            session += 1
        asked = events[-1][0] + timedelta(days=7)
        gap = re.search(rf"\b(\d+|{'|'.join(WORDS)}|an?) (week|month|year)", item["time_gap"])
        days = _count(gap[1]) * DAYS[gap[2]] if gap else 0
        for when, text in ((asked - timedelta(days=days), item["cue_dialogue"]), (asked, item["trigger_query"])):
            lines = [line.strip() for line in text.split("\n")]
            events.append((when, [(names[line[0]], line[2:].strip()) for line in lines]))
        events.sort(key=lambda event: event[0])
        said = [f'{who} said, "{text.strip()}"' for _, turns in events for who, text in turns]
        yield opening + "\n".join(said).strip()


def _count(word: str) -> int:
    return int(word) if word.isdecimal() else WORDS.index(word) + 1 if word in WORDS else 1


@pytest.mark.slow
def test_all_401_prompts_are_those_of_the_authors_code(
    tmp_path: Path, real: LocomoPlusDataset, templates: dict[str, str]
) -> None:
    make = compose(real, write_texts(tmp_path, templates), protocol_record(0, None, True))
    made = []
    for question in real.questions():
        messages = haystack_messages(real.haystack(question.haystack_id))
        (message,) = make(question, Recall(tuple(map(message_item, messages))))
        made.append(message.content)
    assert len(made) == 401
    assert made == list(expected_prompts(templates))


def test_facts_stand_before_the_trigger_as_they_are(
    tmp_path: Path, real: LocomoPlusDataset, templates: dict[str, str]
) -> None:
    question = next(real.questions())
    make = compose(real, write_texts(tmp_path, templates), protocol_record(0, None, False))
    (message,) = make(question, Recall((RecalledItem("fact", "Tea, not coffee.", None),)))
    assert message.content.endswith(f'\n\nTea, not coffee.\nCaroline said, "{question.text}"')


def test_a_run_and_its_grading_find_the_words_in_the_data_folder_that_is_named(
    tmp_path: Path, templates: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = folders_in(tmp_path).model_copy(update={"data_dir": tmp_path / "elsewhere"})
    write_texts(folders.data_dir, templates)
    for name in ("locomo_plus.json", "locomo10.json"):
        (folders.data_dir / name).symlink_to(real_file(name))
    dataset, chosen = load_dataset("locomo-plus", folders.data_dir), Selection(question_ids=("conv-26_plus_0/q",))
    prepare(dataset, ["bm25"], selection=chosen, options=PrepareOptions(jobs=1), folders=folders)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with ModelServer(lambda body: '{"label": "correct", "reason": "r"}') as server:
        options = RunOptions(run_id="r", protocol="official", model_options=ModelOptions(api_base=server.url))
        run(dataset, "bm25", "openai/local", selection=chosen, options=options, folders=folders)
        grading = ("evaluate", "r", "--data-dir", folders.data_dir, "--api-base", server.url)
        longmemeval(*grading, cwd=tmp_path, OPENAI_API_KEY=KEY)
        calls = len(server.chat_requests)
        graded = longmemeval(*grading, "--judge", "locomo-plus-substring@openai/gpt-4o-mini", cwd=tmp_path)
        (sent, judged) = [request.body for request in server.chat_requests]
    # The substring reading reads the replies that the strict one got.
    assert calls == 2
    assert (sent["temperature"], sent["max_tokens"], [one["role"] for one in sent["messages"]]) == (0.3, 1024, ["user"])
    assert sent["messages"][0]["content"].startswith(templates["CONV_START_PROMPT"].format("A", "B") + "Your task: ")
    assert judged["messages"][0]["content"].startswith(
        templates["CONV_START_PROMPT"].format("A", "B") + "You are a Mem"
    )
    settings: dict[str, Any] = json.loads((tmp_path / "results" / "r" / "run.json").read_text())["settings"]
    assert settings["protocol"]["deviations"] == [CHOSEN, FAILED]
    assert settings["model"]["temperature"] == 0.3
    shown = " ".join(graded.stdout.split())
    assert "LoCoMo-Plus's answering protocol, in the authors' words, which tell the model to show its memory" in shown
    assert CHOSEN in shown


def test_without_the_words_the_download_is_named(tmp_path: Path, templates: dict[str, str]) -> None:
    data = tmp_path / "data"
    write_texts(data, templates)
    for name in ("locomo_plus.json", "locomo10.json"):
        (data / name).symlink_to(real_file(name))
    running = (
        "run",
        "--dataset",
        "locomo-plus",
        "--memory",
        "bm25",
        "--model",
        "offline/refuse",
        "--protocol",
        "official",
    )
    refused = longmemeval(*running, *OFFICIAL, "--reading", "con", cwd=tmp_path, code=2)
    assert "The authors' protocol has its own prompt" in " ".join(refused.stderr.split())
    (data / TASK_FILE).write_text((data / TASK_FILE).read_text().replace("acknowledge", "mention"))
    refused = longmemeval(*running, *OFFICIAL, cwd=tmp_path, code=3)
    assert "does not have the official text of INSTRUCTION_COGNITIVE" in " ".join(refused.stderr.split())
    (data / TASK_FILE).unlink()
    refused = longmemeval(*running, *OFFICIAL, cwd=tmp_path, code=2)
    assert "Run `longmemeval datasets download locomo-plus`" in " ".join(refused.stderr.split())
    assert not (tmp_path / "results").exists()
