"""What many calls at once cost: latency, processor time and stops of the event loop, beside a plain LiteLLM script.

    python scripts/benchmarks/load.py [--questions 64] [--seconds 1.0] [--shared] [--processes]

A server on the loopback, in a process of its own, answers every call after so many seconds. Asked are questions of the
size of LongMemEval_S, each on a haystack of its own (the real one of the tests under many ids, with a word of its own
in every message; else a made-up one), prepared before; with `--shared` all on one haystack, as LoCoMo's are, whose
fixture is then opened once. The plain script sends the same prompts with
`litellm.acompletion` and `asyncio.gather`, in a fresh process. The server notes how long it took itself for each
call of ours, from the head of the request to the reply. On both sides one call is made before the clock is
started, so that imports are left out. Processor time is that of the process, all threads together. With `--processes`
it is that of whole processes at concurrency 64, from start to end, imports included: the command `longmemeval run`, and
a script that imports LiteLLM and nothing else; and that of 5 questions, and of the same command once they are answered.
"""

import argparse
import asyncio
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import msgspec
from msgspec import Struct

from longmemeval.benchmarks.registry import load_dataset
from longmemeval.dataset import Dataset
from longmemeval.llm.litellm_package import load_litellm
from longmemeval.llm.options import ModelOptions
from longmemeval.pipeline.prepare.prepare import PrepareOptions, prepare
from longmemeval.pipeline.run.plan import RunOptions
from longmemeval.pipeline.run.run import run
from longmemeval.results.selection import Selection
from longmemeval.settings import Folders

REAL_FILE = Path(__file__).resolve().parents[3] / "shared" / "data" / "longmemeval_e47becba.json"
MODEL = "openai/gpt-4o-2024-08-06"
MEMORIES = ("hybrid", "full-history")
CONCURRENCIES = (1, 24, 64)
ONE_BY_ONE = 5
"""Questions that are asked at concurrency 1."""


class Figures(Struct):
    """Of one side at one concurrency."""

    p50_ms: float
    p95_ms: float
    processor_ms: float
    """Per question."""
    longest_stop_ms: float
    served_p50_ms: float = 0.0
    """What the server took by its own clock."""


def figures(latencies_ms: Sequence[float], processor_s: float, stop_ms: float) -> Figures:
    ordered = sorted(latencies_ms)
    p95 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]
    return Figures(statistics.median(ordered), p95, processor_s / len(ordered) * 1000, stop_ms)


async def serve(seconds: float) -> None:
    """Answer every request after so long; print the port."""
    message = {"role": "assistant", "content": "It is green."}
    reply = {
        "id": "chatcmpl-load",
        "object": "chat.completion",
        "created": 0,
        "model": MODEL.partition("/")[2],
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14},
    }
    body = json.dumps(reply).encode()
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)

    taken: list[float] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                began = time.perf_counter()
                if head.startswith(b"get"):
                    noted = json.dumps([taken.pop() for _ in range(len(taken))]).encode()
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(noted), noted))
                    continue
                length = head.partition(b"content-length:")[2].partition(b"\r\n")[0]
                await reader.readexactly(int(length or 0))
                await asyncio.sleep(seconds)
                writer.write(answer)
                taken.append((time.perf_counter() - began) * 1000)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, limit=1 << 22, backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextmanager
def served(seconds: float) -> Iterator[str]:
    command = [sys.executable, __file__, "--serve", "--seconds", str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}/v1"
        finally:
            process.kill()


def base_record() -> tuple[dict[str, Any], str]:
    """One record of LongMemEval; what it is made of."""
    if REAL_FILE.exists():
        return json.loads(REAL_FILE.read_text())[0], REAL_FILE.name
    words = ["green", "bicycle", "market", "bread", "cheese", "holiday", "train", "letter", "music", "garden"]
    text = " ".join(random.Random(0).choices(words, k=140))
    sessions = [[{"role": "user", "content": f"{turn} {text}"} for turn in range(11)] for _ in range(48)]
    record = {
        "question_type": "multi-session",
        "question": "What colour is my bicycle?",
        "question_date": "2023/05/30 (Tue) 23:40",
        "answer": "green",
        "answer_session_ids": ["s0"],
        "haystack_dates": ["2023/05/20 (Sat) 02:21"] * len(sessions),
        "haystack_session_ids": [f"s{number}" for number in range(len(sessions))],
        "haystack_sessions": sessions,
    }
    return record, "made-up messages"


def write_data(path: Path, questions: int, *, shared: bool) -> str:
    """The data set; what it is made of."""
    base, made_of = base_record()
    path.write_text(json.dumps(one_haystack(base, questions) if shared else own_haystacks(base, questions)))
    return made_of


def own_haystacks(base: dict[str, Any], questions: int) -> list[dict[str, Any]]:
    """Records of LongMemEval."""

    def record(number: int) -> dict[str, Any]:
        sessions = [
            [turn | {"content": f"Number{number} {turn['content']}"} for turn in session]
            for session in base["haystack_sessions"]
        ]
        return base | {"question_id": f"q{number}", "haystack_sessions": sessions}

    return [record(number) for number in range(questions)]


def one_haystack(base: dict[str, Any], questions: int) -> list[dict[str, Any]]:
    """The same messages as one conversation of LoCoMo."""
    conversation: dict[str, Any] = {"speaker_a": "user", "speaker_b": "assistant"}
    for number, session in enumerate(base["haystack_sessions"], start=1):
        conversation[f"session_{number}_date_time"] = f"1:00 pm on {number % 28 + 1} May, 2023"
        conversation[f"session_{number}"] = [
            {"speaker": turn["role"], "dia_id": f"D{number}:{place}", "text": turn["content"]}
            for place, turn in enumerate(session, start=1)
        ]
    qa = [
        {"question": f"{number}: {base['question']}", "answer": "green", "evidence": ["D1:1"], "category": 4}
        for number in range(questions)
    ]
    return [{"sample_id": "shared", "conversation": conversation, "qa": qa}]


def ours(folders: Folders, dataset: Dataset, memory: str, concurrency: int, url: str) -> Figures:
    """A run; its longest stop is the one it tells of itself."""

    def ask(run_id: str, limit: int | None) -> None:
        options = RunOptions(run_id=run_id, concurrency=concurrency, model_options=ModelOptions(api_base=url))
        run(dataset, memory, MODEL, selection=Selection(limit=limit), options=options, folders=folders)

    run_id = f"{memory}-{concurrency}"
    ask(f"warm-{run_id}", 1)
    own_times(url)
    started = time.process_time()
    ask(run_id, ONE_BY_ONE if concurrency == 1 else None)
    processor = time.process_time() - started
    served_p50 = statistics.median(own_times(url))
    folder = folders.results_dir / run_id
    told = json.loads((folder / "run.json").read_text())["totals"]["load"]
    latencies = [json.loads(line)["latency_ms"] for line in (folder / "answers.jsonl").read_text().splitlines()]
    return msgspec.structs.replace(figures(latencies, processor, told["longest_block_ms"]), served_p50_ms=served_p50)


def own_times(url: str) -> list[float]:
    """Milliseconds that the server took for each call since this was asked last."""
    with urlopen(f"{url}/times") as reply:
        found: list[float] = json.loads(reply.read())
    return found


async def plain(prompts: Sequence[str], concurrency: int, url: str) -> Figures:
    """The same calls as a script would make them."""
    import litellm

    free, longest = asyncio.Semaphore(concurrency), 0.0

    async def call(prompt: str) -> float:
        async with free:
            started = time.perf_counter()
            messages = [{"role": "user", "content": prompt}]
            await litellm.acompletion(model=MODEL, messages=messages, temperature=0.0, max_tokens=500, api_base=url)
            return (time.perf_counter() - started) * 1000

    async def beat() -> None:
        nonlocal longest
        while True:
            due = time.perf_counter() + 0.02
            await asyncio.sleep(0.02)
            longest = max(longest, time.perf_counter() - due)

    await call(prompts[0])
    heart = asyncio.create_task(beat())
    started = time.process_time()
    latencies = await asyncio.gather(*map(call, prompts[: ONE_BY_ONE if concurrency == 1 else None]))
    processor = time.process_time() - started
    heart.cancel()
    return figures(latencies, processor, longest * 1000)


def plain_script(prompts: Path, concurrency: int, url: str) -> Figures:
    command = [sys.executable, __file__, "--plain", str(prompts), "--concurrency", str(concurrency), "--url", url]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return msgspec.json.decode(done.stdout.splitlines()[-1], type=Figures)


WHOLE_SCRIPT = """
import asyncio, json, sys, litellm

prompts = [json.loads(line)["messages"][0]["content"] for line in open(sys.argv[1])]
free = asyncio.Semaphore(int(sys.argv[3]))

async def call(prompt):
    async with free:
        messages = [{"role": "user", "content": prompt}]
        await litellm.acompletion(
            model=sys.argv[4], messages=messages, temperature=0.0, max_tokens=500, api_base=sys.argv[2]
        )

async def main():
    await asyncio.gather(*map(call, prompts))

asyncio.run(main())
"""


def whole_processes(folders: Folders, data: Path, url: str, repeats: int = 3) -> None:
    """Print the processor time of the command and of the script, each the least of some repeats."""
    named = {"DATA": folders.data_dir, "PREPARED": folders.prepared_dir, "RESULTS": folders.results_dir}
    environment = os.environ | {f"LONGMEMEVAL_{name}_DIR": str(folder) for name, folder in named.items()}
    # Compiled, as what is installed is.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    limit = str(CONCURRENCIES[-1])

    def seconds(*arguments: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True, env=environment)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    for memory in MEMORIES:
        own, other, served = list[float](), list[float](), 0.0
        for number in range(repeats + 1):
            run_id = f"whole-{memory}-{number}"
            asked = ("--dataset", str(data), "--memory", memory, "--model", MODEL, "--run-id", run_id)
            own_times(url)
            own.append(seconds("-m", "longmemeval", "run", *asked, "--concurrency", limit, "--api-base", url))
            served = statistics.median(own_times(url))
            prompts = str(folders.results_dir / run_id / "prompts.jsonl")
            other.append(seconds("-c", WHOLE_SCRIPT, prompts, url, limit, MODEL))
        # The first of each compiles.
        best, plain_best = min(own[1:]), min(other[1:])
        latency = recorded_p50(folders, f"whole-{memory}-{repeats}")
        print(
            f"{memory:13} {best:6.2f} s | script {plain_best:6.2f} s | {best / plain_best:.2f}x; p50 of latency "
            f"{latency:.0f} ms, server {served:.0f} ms, {latency / served:.3f}x",
            flush=True,
        )
    starting, again, one_call = list[float](), list[float](), list[float]()
    few = str(folders.results_dir / "few.jsonl")
    for number in range(repeats + 1):
        asked = ("run", "--dataset", str(data), "--memory", "hybrid", "--model", MODEL, "--run-id", f"few-{number}")
        command = ("-m", "longmemeval", *asked, "--limit", "5", "--api-base", url)
        starting.append(seconds(*command))
        again.append(seconds(*command))
        Path(few).write_bytes((folders.results_dir / f"few-{number}" / "prompts.jsonl").read_bytes())
        one_call.append(seconds("-c", WHOLE_SCRIPT, few, url, "5", MODEL))
    script = min(one_call[1:])
    for what, own in (("5 questions", starting), ("asked again", again)):
        best = min(own[1:])
        print(f"{what:13} {best:6.2f} s | script {script:6.2f} s | {best / script:.2f}x", flush=True)


def recorded_p50(folders: Folders, run_id: str) -> float:
    """The median latency that a run recorded, in milliseconds."""
    lines = (folders.results_dir / run_id / "answers.jsonl").read_text().splitlines()
    return statistics.median(json.loads(line)["latency_ms"] for line in lines)


def retried(folders: Folders, dataset: Dataset, url: str, timeout_s: float) -> int:
    """Attempts beyond the first of `hybrid` at concurrency 31, when each may take so long."""
    options = RunOptions(
        run_id="timeouts", concurrency=31, model_options=ModelOptions(api_base=url, timeout_s=timeout_s)
    )
    run(dataset, "hybrid", MODEL, options=options, folders=folders)
    lines = (folders.results_dir / "timeouts" / "answers.jsonl").read_text().splitlines()
    return sum(json.loads(line)["attempts"] - 1 for line in lines)


def compare(questions: int, seconds: float, *, shared: bool, processes: bool) -> None:
    load_litellm()
    with tempfile.TemporaryDirectory() as name, served(seconds) as url:
        folder = Path(name)
        folders = Folders(data_dir=folder, prepared_dir=folder / "prepared", results_dir=folder / "results")
        made_of = write_data(folder / "load.json", questions, shared=shared)
        dataset = load_dataset(folder / "load.json")
        prepare(dataset, MEMORIES, options=PrepareOptions(jobs=1), folders=folders)
        on = "one haystack" if shared else "haystacks of their own"
        print(f"{questions} questions on {on} ({made_of}); the server takes {seconds} s\n")
        if processes:
            whole_processes(folders, folder / "load.json", url)
            return
        print("                          |     longmemeval run           |     plain LiteLLM script      | ours /")
        print("memory        concurrency |   p50    p95  cpu ms  stop ms |   p50    p95  cpu ms  stop ms | cpu, p50")
        for memory in MEMORIES:
            for concurrency in CONCURRENCIES:
                own = ours(folders, dataset, memory, concurrency, url)
                prompts = folders.results_dir / f"{memory}-{concurrency}" / "prompts.jsonl"
                other = plain_script(prompts, concurrency, url)
                ratios = (
                    f"{own.processor_ms / other.processor_ms:.1f}x, {own.p50_ms / other.p50_ms:.2f}x; "
                    f"server {own.p50_ms / own.served_p50_ms:.3f}x"
                )
                print(f"{memory:13} {concurrency:11} | {columns(own)} | {columns(other)} | {ratios}", flush=True)
        print(f"\nattempts after the first at concurrency 31, --timeout 3: {retried(folders, dataset, url, 3.0)}")


def columns(one: Figures) -> str:
    return f"{one.p50_ms:5.0f}  {one.p95_ms:5.0f}  {one.processor_ms:6.1f}  {one.longest_stop_ms:7.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure a run's load beside a plain LiteLLM script.")
    parser.add_argument("--questions", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=1.0, help="what the server takes for an answer")
    parser.add_argument("--shared", action="store_true", help="all questions on one haystack")
    parser.add_argument("--processes", action="store_true", help="whole processes, imports included")
    for internal in ("--plain", "--url"):
        parser.add_argument(internal, default="", help=argparse.SUPPRESS)
    parser.add_argument("--concurrency", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    os.environ.update(OPENAI_API_KEY="none", LITELLM_LOCAL_MODEL_COST_MAP="True")
    if arguments.serve:
        asyncio.run(serve(arguments.seconds))
    elif arguments.plain:
        lines = Path(arguments.plain).read_text().splitlines()
        prompts = [json.loads(line)["messages"][0]["content"] for line in lines]
        print(msgspec.json.encode(asyncio.run(plain(prompts, arguments.concurrency, arguments.url))).decode())
    else:
        compare(arguments.questions, arguments.seconds, shared=arguments.shared, processes=arguments.processes)


if __name__ == "__main__":
    main()
