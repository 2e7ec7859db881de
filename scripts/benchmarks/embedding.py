"""How fast chat turns are embedded: file order in batches, sorted batches, and one by one as `LocalEmbedder` does it.

Prints seconds, the ratio of file order to the chosen way, and whether all ways gave the same bits. Wants a local model
folder at models/minilm (`scripts/get_minilm` builds it). The hashing fallback is timed beside it.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from longmemeval.core.arrays import Vectors
from longmemeval.embedding.hashing import HashingEmbedder
from longmemeval.embedding.local import LocalEmbedder

PROJECT = Path(__file__).resolve().parents[2]
REAL = PROJECT.parent / "shared" / "data" / "longmemeval_e47becba.json"
SAMPLE = PROJECT / "data" / "sample" / "sample.json"
MODEL = PROJECT / "models" / "minilm"
TURNS = 150


def main() -> None:
    if not MODEL.is_dir():
        sys.exit("There is no model at models/minilm: run scripts/get_minilm first.")
    source = REAL if REAL.exists() else SAMPLE
    texts = read_turns(source)[:TURNS]
    print(
        f"{len(texts)} turns of {source.name}, {sum(len(t.split()) for t in texts) / len(texts):.0f} words on average"
    )

    embedder = LocalEmbedder(str(MODEL))
    embedder.embed(["the first call loads the model"])
    by_length = np.argsort([len(text) for text in texts], kind="stable")
    file_order = np.arange(len(texts))

    unsorted_seconds, reference = timed(lambda: in_batches(embedder, texts, file_order, 64))
    print(f"batches of 64 in file order    {unsorted_seconds:6.2f} s")
    for size in (64, 16, 8, 4):
        seconds, vectors = timed(lambda size=size: in_batches(embedder, texts, by_length, size))
        print(f"batches of {size:2} sorted by length {seconds:6.2f} s  {same_bits(vectors, reference)}")
    seconds, vectors = timed(lambda: embedder.embed(texts))
    print(f"one by one (chosen)            {seconds:6.2f} s  {same_bits(vectors, reference)}")
    print(f"ratio file order : chosen      {unsorted_seconds / seconds:6.1f}")
    seconds, _ = timed(lambda: HashingEmbedder().embed(texts))
    print(f"hashing:512                    {seconds:6.2f} s  {len(texts) / seconds:.0f} turns per second")


def read_turns(path: Path) -> list[str]:
    records = json.loads(path.read_text())
    sessions = (session for record in records for session in record["haystack_sessions"])
    return [turn["content"] for session in sessions for turn in session if turn["content"].strip()]


def in_batches(embedder: LocalEmbedder, texts: list[str], order: np.ndarray, size: int) -> Vectors:
    vectors = np.empty((len(texts), embedder.dimension), dtype=np.float32)
    for row, vector in zip(order, embedder.model.embed([texts[i] for i in order], batch_size=size), strict=True):
        vectors[row] = vector / np.linalg.norm(vector)
    return vectors


def timed(work: Callable[[], Vectors]) -> tuple[float, Vectors]:
    started = time.perf_counter()
    vectors = work()
    return time.perf_counter() - started, vectors


def same_bits(vectors: Vectors, reference: Vectors) -> str:
    return "same bits" if np.array_equal(vectors, reference) else "other bits"


if __name__ == "__main__":
    main()
