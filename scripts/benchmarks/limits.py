"""How much of a provider's rate is used under its limits, and how much is refused.

    python scripts/benchmarks/limits.py [--seconds 20] [--concurrency 64]

A server on the loopback, in a process of its own, lets requests and tokens through by a sliding window or by a bucket
that is refilled all the time, and answers after 50 to 200 ms. It is asked by one process and by two at once, each with
so many calls under way. A run lasts as long as the limit makes it; of the rate, the server's own clock tells.
"""

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from longmemeval.errors import ModelError
from longmemeval.llm.options import ModelOptions
from longmemeval.llm.protocol import ChatMessage, ChatRequest
from longmemeval.llm.rates import Rate, RateLimits
from longmemeval.llm.registry import load_chat_model
from tests.llm.rates.limited import Limited
from tests.llm.rates.simulated import Server, SlidingWindow, TokenBucket
from tests.server import ModelServer

RPM, TPM = 1200.0, 240_000.0
KINDS: dict[str, type[Server]] = {"sliding window": SlidingWindow, "bucket": TokenBucket}


def limits_of(kind: str, what: str, window: float) -> dict[str, Server]:
    return {what: KINDS[kind]((RPM if what == "requests" else TPM) * window / 60, window)}


def rate_of(what: str, window: float) -> Rate:
    return Rate(rpm=RPM, window=window) if what == "requests" else Rate(tpm=TPM, window=window)


def serve(kind: str, what: str, window: float) -> None:
    chance = random.Random(1)

    def answer(body: dict[str, Any]) -> str:
        time.sleep(chance.uniform(0.05, 0.2))
        return "An answer"

    with ModelServer(answer) as server:
        print(server.url, flush=True)
        sys.stdin.readline()
        # The first call of each process is not what is measured.
        server.limits = limited = Limited(limits_of(kind, what, window))
        print("limited", flush=True)
        sys.stdin.readline()
        print(json.dumps([*limited.per_minute, limited.share_refused]), flush=True)


def ask(url: str, folder: str, what: str, window: float, calls: int, concurrency: int) -> None:
    usual = ModelOptions(url, max_attempts=1000)
    limited = ModelOptions(
        url, max_attempts=1000, rates=RateLimits(otherwise=rate_of(what, window), folder=Path(folder))
    )
    chance = random.Random(2)

    def request() -> ChatRequest:
        return ChatRequest((ChatMessage("user", "word " * chance.randint(200, 800)),), max_tokens=10)

    async def work() -> None:
        await load_chat_model("openai/m", usual).complete(request())
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        model, places = load_chat_model("openai/m", limited), asyncio.Semaphore(concurrency)

        async def one() -> None:
            async with places:
                try:
                    await model.complete(request())
                except ModelError as error:
                    print(error, file=sys.stderr)

        await asyncio.gather(*(one() for _ in range(calls)))

    asyncio.run(work())
    print("done", flush=True)


def measure(kind: str, what: str, window: float, processes: int, seconds: float, concurrency: int) -> list[float]:
    def begin(*arguments: object) -> subprocess.Popen[str]:
        words = [sys.executable, __file__, *map(str, arguments)]
        return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def told(process: subprocess.Popen[str], line: str = "\n") -> None:
        assert process.stdin
        process.stdin.write(line)
        process.stdin.flush()

    def said(process: subprocess.Popen[str]) -> str:
        assert process.stdout
        return process.stdout.readline().strip()

    per_second = RPM / 60 if what == "requests" else TPM / 502 / 60
    calls = int(per_second * seconds / processes)
    with tempfile.TemporaryDirectory() as folder:
        server = begin("serve", kind, what, window)
        url = said(server)
        workers = [begin("ask", url, folder, what, window, calls, concurrency) for _ in range(processes)]
        for worker in workers:
            said(worker)
        told(server)
        said(server)
        for worker in workers:
            told(worker)
        for worker in workers:
            said(worker)
            worker.wait()
        told(server)
        found: list[float] = json.loads(said(server))
        server.wait()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--window", type=float, default=10.0, help="seconds over which the server counts")
    given = parser.parse_args()
    print(f"{'limit':>10} {'counted by':>15} {'processes':>10} {'of the rate':>12} {'refused':>8}")
    for what, allowed in (("requests", RPM), ("tokens", TPM)):
        for kind in KINDS:
            for processes in (1, 2):
                *rates, refused = measure(kind, what, given.window, processes, given.seconds, given.concurrency)
                used = rates[what == "tokens"] / allowed
                print(f"{what:>10} {kind:>15} {processes:>10} {used:>12.1%} {refused:>8.2%}", flush=True)


if __name__ == "__main__":
    os.environ.setdefault("OPENAI_API_KEY", "sk-benchmark-0123456789")
    if sys.argv[1:2] == ["serve"]:
        serve(sys.argv[2], sys.argv[3], float(sys.argv[4]))
    elif sys.argv[1:2] == ["ask"]:
        ask(sys.argv[2], sys.argv[3], sys.argv[4], float(sys.argv[5]), int(sys.argv[6]), int(sys.argv[7]))
    else:
        main()
