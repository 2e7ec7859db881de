"""Many calls at once: the event loop stays free, and what is measured is the model's time, not the harness's."""

import asyncio
import json
import random
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from longmemeval.benchmarks.longmemeval.loader import LongMemEvalDataset
from longmemeval.core.event_loop import in_thread
from longmemeval.dataset import Dataset
from longmemeval.llm.litellm_package import load_litellm
from longmemeval.llm.options import ModelOptions, SpendingLimit
from longmemeval.llm.tokens import TiktokenCounter, token_counter
from longmemeval.memory.definition import MemoryDefinition
from longmemeval.memory.parameters import Parameters
from longmemeval.pipeline.prepare.prepare import PrepareOptions, prepare
from longmemeval.pipeline.run import answering
from longmemeval.pipeline.run.answering import RunReport
from longmemeval.pipeline.run.plan import RunOptions
from longmemeval.pipeline.run.run import run
from longmemeval.pipeline.workers import run_bounded
from longmemeval.reading.configuration import reading_configuration
from longmemeval.records import Question, Recall
from longmemeval.results.selection import Selection
from longmemeval.settings import Folders
from longmemeval.storage.fixture import Fixture
from longmemeval.storage.messages_part import MESSAGES
from tests.pipeline.helpers import add_memory, answers, folders_in, manifest, prepared_colours
from tests.server import ModelServer
from tests.support import json_lines, longmemeval_anew, record, write_dataset

MODEL = "openai/gpt-4o"
TRIES = 3
"""A machine that does something else for a moment is no fault of ours: the best try counts."""
Made = tuple[Dataset, Folders]

_TEXT = """
    garden window letter mountain river kitchen bottle engine paper silver yellow winter summer morning evening people
    remember believe follow travel listen answer question market village station ticket doctor teacher animal horse
    bread butter cheese orange lemon coffee water sugar music guitar piano dance theatre picture camera colour shadow
    forest island ocean bridge tower castle church school office factory machine computer keyboard pencil notebook
    because although whenever between under above around behind never always often seldom quickly slowly carefully
"""
_WORDS = _TEXT.split()


def haystack(number: int, characters: int) -> dict[str, Any]:
    """A question on a history of its own of about so many characters, in sessions of twelve turns of a thousand."""
    draw = random.Random(number)

    def turn(place: int) -> dict[str, str]:
        text = " ".join(draw.choices(_WORDS, k=145)).capitalize() + "."
        return {"role": "assistant" if place % 2 else "user", "content": text}

    sessions = [[turn(place) for place in range(12)] for _ in range(characters // 12_000)]
    return record(
        f"q{number}",
        question=f"What did I say about the {draw.choice(_WORDS)} and the {draw.choice(_WORDS)}?",
        haystack_sessions=sessions,
        haystack_session_ids=[f"s{place}" for place in range(len(sessions))],
        haystack_dates=["2023/05/20 (Sat) 02:21"] * len(sessions),
        answer_session_ids=["s0"],
    )


def prepared(folder: Path, memories: Sequence[str], questions: int, characters: int) -> Made:
    records = [haystack(number, characters) for number in range(questions)]
    dataset, folders = LongMemEvalDataset(write_dataset(folder / "h.json", *records)), folders_in(folder)
    prepare(dataset, memories, options=PrepareOptions(jobs=1), folders=folders)
    return dataset, folders


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Histories of 480,000 characters each."""
    return prepared(tmp_path_factory.mktemp("large"), ["full-history", "hybrid"], 8, 480_000)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return prepared_colours(tmp_path_factory.mktemp("small"), 64)


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "test")


def served(
    server: ModelServer,
    made: Made,
    options: RunOptions,
    memory: str = "last-k",
    *,
    limit: int | None = None,
    timeout_s: float = 60.0,
) -> RunReport:
    options = structs.replace(options, model_options=ModelOptions(api_base=server.url, timeout_s=timeout_s))
    return run(made[0], memory, MODEL, selection=Selection(limit=limit), options=options, folders=made[1])


def slow(server: ModelServer, *seconds: float) -> None:
    server.faults.extend(f"slow:{one}" for one in seconds)


def latencies(folders: Folders, run_id: str) -> list[float]:
    return [float(answer["latency_ms"]) for answer in answers(folders, run_id)]


def best(attempt: Callable[[int], float]) -> float:
    """The least of what up to `TRIES` attempts say is too much; the first that is none ends them."""
    excess = float("inf")
    for number in range(TRIES):
        excess = min(excess, attempt(number))
        if excess <= 0:
            break
    return excess


@pytest.mark.thorough
@pytest.mark.parametrize("memory", ["full-history", "hybrid"])
def test_the_loop_is_never_blocked(large: Made, monkeypatch: pytest.MonkeyPatch, memory: str) -> None:
    longest = 0.0

    async def beat() -> None:
        nonlocal longest
        while True:
            due = time.perf_counter() + 0.01
            await asyncio.sleep(0.01)
            longest = max(longest, time.perf_counter() - due)

    async def watched(
        questions: Sequence[Question], work: Callable[[Question], Awaitable[None]], concurrency: int
    ) -> None:
        heart = asyncio.create_task(beat())
        await run_bounded(questions, work, concurrency)
        heart.cancel()

    monkeypatch.setattr(answering, "run_bounded", watched)
    with ModelServer() as server:

        def attempt(number: int) -> float:
            nonlocal longest
            longest = 0.0
            options = RunOptions(run_id=f"{memory}-{number}", concurrency=8)
            assert served(server, large, options, memory).answered == 8
            return longest - 0.25

        assert best(attempt) <= 0, f"blocked for {longest:.3f} s"


@pytest.mark.thorough
def test_latency_does_not_depend_on_the_concurrency(small: Made) -> None:
    def attempt(number: int) -> float:
        with ModelServer() as server:
            slow(server, *[1.0] * 67)
            served(server, small, RunOptions(run_id=f"one-{number}", concurrency=1), limit=3)
            served(server, small, RunOptions(run_id=f"many-{number}", concurrency=24))
        one, many = (statistics.median(latencies(small[1], f"{kind}-{number}")) for kind in ("one", "many"))
        assert one >= 1000
        return many - 1.2 * one

    assert best(attempt) <= 0


@pytest.mark.thorough
def test_latency_at_64_is_that_of_a_plain_script(small: Made) -> None:
    litellm = load_litellm()

    async def plain(url: str, prompts: Sequence[str]) -> list[float]:
        async def call(prompt: str) -> float:
            started = time.perf_counter()
            messages = [{"role": "user", "content": prompt}]
            await litellm.acompletion(model=MODEL, messages=messages, max_tokens=500, api_base=url)
            return (time.perf_counter() - started) * 1000

        return await asyncio.gather(*map(call, prompts))

    def attempt(number: int) -> float:
        with ModelServer() as server:
            slow(server, *[1.0] * 128)
            served(server, small, RunOptions(run_id=f"all-{number}", concurrency=64))
            sent = json_lines(small[1].results_dir / f"all-{number}" / "prompts.jsonl")
            theirs = asyncio.run(plain(server.url, [line["messages"][0]["content"] for line in sent]))
        return statistics.median(latencies(small[1], f"all-{number}")) - 1.15 * statistics.median(theirs)

    assert best(attempt) <= 0


@pytest.mark.thorough
def test_no_attempt_runs_out_of_time_that_the_harness_took(tmp_path: Path) -> None:
    made = prepared(tmp_path, ["hybrid"], 31, 120_000)

    def attempt(number: int) -> float:
        with ModelServer() as server:
            slow(server, *[0.3] * 31)
            report = served(server, made, RunOptions(run_id=f"r-{number}", concurrency=31), "hybrid", timeout_s=1.5)
            assert report.answered == 31
            tried = len(server.chat_requests)
        assert sum(answer["attempts"] for answer in answers(made[1], f"r-{number}")) == tried
        return tried - 31

    assert best(attempt) == 0


@pytest.mark.thorough
def test_the_first_call_of_a_process_takes_no_longer_than_the_others(tmp_path: Path) -> None:
    prepared_colours(tmp_path, 3)

    def attempt(number: int) -> float:
        with ModelServer() as server:
            command = ("run", "--dataset", "colours.json", "--memory", "last-k", "--model", MODEL)
            served_at = ("--api-base", server.url, "--concurrency", "1", "--run-id", f"r-{number}")
            longmemeval_anew(*command, *served_at, cwd=tmp_path, OPENAI_API_KEY="test")
            # Nothing is asked but the questions.
            assert len(server.chat_requests) == 3
        first, *others = latencies(folders_in(tmp_path), f"r-{number}")
        # LiteLLM loads for a second with its first call.
        return first - max(others) - 400

    assert best(attempt) <= 0


class Sleeps:
    """Recalls nothing, after 0.05 s in the work thread and 0.05 s elsewhere."""

    async def recall(self, question: Question, fixture: Fixture) -> Recall:
        await in_thread(time.sleep, 0.05)
        await asyncio.sleep(0.05)
        return Recall(())


class Blocks:
    """Recalls nothing, and stops everything for a while."""

    async def recall(self, question: Question, fixture: Fixture) -> Recall:
        time.sleep(0.06)
        return Recall(())


def use(monkeypatch: pytest.MonkeyPatch, memory: Sleeps | Blocks) -> str:
    definition = MemoryDefinition("", Parameters, lambda parameters: (MESSAGES,), lambda parameters, tools: memory)
    return add_memory(monkeypatch, "own", definition)


@pytest.mark.thorough
def test_recall_time_is_that_of_the_recall_itself(small: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = use(monkeypatch, Sleeps())

    def attempt(number: int) -> float:
        with ModelServer() as server:
            served(server, small, RunOptions(run_id=f"recall-{number}", concurrency=16), memory, limit=16)
        found = [float(answer["recall_ms"]) for answer in answers(small[1], f"recall-{number}")]
        # Sixteen at once wait up to 0.8 s for the thread.
        assert min(found) >= 99
        return statistics.median(found) - 200

    assert best(attempt) <= 0


def test_load_that_distorts_latency_is_told(small: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = use(monkeypatch, Blocks())
    with ModelServer() as server:
        # Replies that all come at once would find the loop free; one after the other, each waits for a recall.
        slow(server, *(0.02 + 0.02 * (number % 16) for number in range(64)))
        report = served(server, small, RunOptions(run_id="busy", concurrency=16), memory)
    assert report.load.startswith("The latencies are too high: this process was so busy that calls had to wait")
    load = manifest(small[1], "busy")["totals"]["load"]
    assert load["note"] == report.load
    assert load["longest_block_ms"] >= 20
    middle = statistics.median(latencies(small[1], "busy"))
    assert 0.05 * middle < load["added_p50_ms"] <= middle + 0.1


def test_a_finished_run_keeps_what_was_told_of_its_load(small: Made) -> None:
    with ModelServer() as server:
        served(server, small, RunOptions(run_id="again"), limit=4)
        before = json.dumps(manifest(small[1], "again")["totals"])
        assert "longest_block_ms" in before
        assert served(server, small, RunOptions(run_id="again"), limit=4).newly_answered == 0
    assert json.dumps(manifest(small[1], "again")["totals"]) == before


@pytest.mark.thorough
@pytest.mark.parametrize("concurrency", [1, 4])
def test_latency_of_notes_and_answer_is_the_critical_path(small: Made, concurrency: int) -> None:
    run_id = f"notes-{concurrency}"
    with ModelServer() as server:
        # Three notes, of which one is slow, and then the answer. One at a time they wait for each other: no latency.
        slow(server, 0.5, 1.0, 0.5, 0.3)
        reading = reading_configuration("con-separate")
        served(server, small, RunOptions(run_id=run_id, concurrency=concurrency, reading=reading), limit=1)
    (answer,) = answers(small[1], run_id)
    assert answer["attempts"] == 4
    assert 1300 <= answer["latency_ms"] < 2290


def test_tokens_are_counted_once(large: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = 0
    plain = TiktokenCounter.encode_count

    def spied(self: TiktokenCounter, text: str) -> int:
        nonlocal counted
        counted += len(text)
        return plain(self, text)

    monkeypatch.setattr(TiktokenCounter, "encode_count", spied)
    with ModelServer() as server:
        options = RunOptions(run_id="once", concurrency=2, spending=SpendingLimit(100.0))
        served(server, large, options, "full-history", limit=2)
    prompts = json_lines(large[1].results_dir / "once" / "prompts.jsonl")
    sent = {line["question_id"]: line["messages"][0]["content"] for line in prompts}
    characters = sum(map(len, sent.values()))
    assert characters > 900_000
    assert counted < 1.1 * characters
    counter = token_counter(MODEL)
    assert isinstance(counter, TiktokenCounter)
    for answer in answers(large[1], "once"):
        assert answer["prompt_tokens"] == plain(counter, sent[answer["question_id"]])
