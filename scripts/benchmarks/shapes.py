"""Writes a data set of the shape of LongMemEval_M, or one haystack of ten million tokens, in LongMemEval's file format.

    python scripts/benchmarks/shapes.py m m.json [--haystacks 50] [--sessions 475]
    python scripts/benchmarks/shapes.py short short.json --haystacks 75000 --sessions 2
    python scripts/benchmarks/shapes.py 10m big.json [--messages 20000]

M (500 haystacks of 475 sessions, 2.4 million turns) draws the sessions of its haystacks from one pool, so that a
session is in several of them: here each is in about five. The other shape is BEAM's largest: 20,000 messages,
9.8 million tokens, one question. `short` is many questions after
little: a session or two of ten messages of thirty words. All words are made up, from a seed; how often they occur
follows Zipf's law over a vocabulary of 40,000.
"""

import argparse
import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

VOCABULARY = 40_000
SHARED_BY = 5
"""Haystacks of M that have the same session, on average."""
TURNS = {"m": 10, "short": 10, "10m": 40}
"""Of a session."""
WORDS = {"m": 175, "short": 30, "10m": 325}
"""Of a message, on average."""
BEGIN = datetime(2023, 1, 1, 9)


class Writer:
    """Makes words, messages and sessions; the same seed makes the same.

    Args:
        shape: whose length messages and sessions have.
        seed: of everything.
    """

    def __init__(self, shape: str, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self._length, self._turns = WORDS[shape], TURNS[shape]
        self._words = self._vocabulary()
        frequencies = 1 / np.arange(1, VOCABULARY + 1)
        self._cumulative = np.cumsum(frequencies / frequencies.sum())

    def _vocabulary(self) -> NDArray[np.str_]:
        """Words of one to four syllables, the frequent ones short."""
        syllables = np.array(
            [first + vowel + last for first in "bdfgklmnprst" for vowel in "aeiou" for last in ("", "n", "r")]
        )
        found: dict[str, None] = {}
        while len(found) < VOCABULARY:
            parts = 1 + len(found) // 60 if len(found) < 180 else int(self.random.integers(2, 4))
            found["".join(self.random.choice(syllables, size=min(parts, 4)))] = None
        return np.array(list(found))

    def message(self) -> str:
        """Sentences of about twelve words, every tenth a question."""
        count = max(8, int(self.random.gamma(2.0, self._length / 2)))
        ranks = np.searchsorted(self._cumulative, self.random.random(count))
        words = self._words[np.minimum(ranks, VOCABULARY - 1)].tolist()
        ends = np.flatnonzero(self.random.random(count) < 1 / 12).tolist()
        for place in [*ends, count - 1]:
            words[place] += "?" if place % 10 == 3 else "."
        return " ".join(words)

    def session(self, turns: int | None = None) -> list[dict[str, Any]]:
        """User and assistant in turn."""
        roles = ("user", "assistant")
        return [{"role": roles[turn % 2], "content": self.message()} for turn in range(turns or self._turns)]

    def record(self, number: int, sessions: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
        """One question and its haystack: `sessions`, and among them one that answers it."""
        key, value = self._words[self.random.integers(1_000, VOCABULARY, size=2)].tolist()
        evidence = self.session(2)
        evidence[0] |= {"content": f"I keep my {key} in the {value}. {evidence[0]['content']}", "has_answer": True}
        items = [*sessions.items()]
        items.insert(int(self.random.integers(len(items) + 1)), (f"answer_{number}", evidence))
        dates = [BEGIN + timedelta(hours=7 * place) for place in range(len(items) + 1)]
        return {
            "question_id": f"q{number}",
            "question_type": "single-session-user",
            "question": f"Where do I keep my {key}?",
            "question_date": _written(dates[-1]),
            "answer": f"In the {value}.",
            "answer_session_ids": [f"answer_{number}"],
            "haystack_dates": [_written(date) for date in dates[:-1]],
            "haystack_session_ids": [session_id for session_id, _ in items],
            "haystack_sessions": [session for _, session in items],
        }


def _written(date: datetime) -> str:
    return date.strftime("%Y/%m/%d (%a) %H:%M")


def shape_of_m(haystacks: int, sessions: int, seed: int = 0, shape: str = "m") -> Iterator[dict[str, Any]]:
    """Records whose haystacks share sessions, as those of LongMemEval_M."""
    writer = Writer(shape, seed)
    pool = {f"pool_{number}": writer.session() for number in range(max(sessions, haystacks * sessions // SHARED_BY))}
    names = [*pool]
    for number in range(haystacks):
        chosen = writer.random.choice(len(names), size=sessions - 1, replace=False).tolist()
        yield writer.record(number, {names[place]: pool[names[place]] for place in chosen})


def shape_of_10m(messages: int, seed: int = 0) -> Iterator[dict[str, Any]]:
    """One record with a haystack of so many messages."""
    writer = Writer("10m", seed)
    full, rest = divmod(messages - 2, TURNS["10m"])
    lengths = [TURNS["10m"]] * full + ([rest] if rest else [])
    yield writer.record(0, {f"s{number}": writer.session(length) for number, length in enumerate(lengths)})


def write(path: Path, records: Iterator[dict[str, Any]]) -> None:
    """Write the file record by record."""
    with path.open("w") as file:
        for number, record in enumerate(records):
            file.write(("," if number else "[") + json.dumps(record))
        file.write("]\n")


def main() -> None:
    """Write the file that is asked for; without arguments say what can be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", nargs="?", choices=("m", "short", "10m"))
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--haystacks", type=int, default=50)
    parser.add_argument("--sessions", type=int, default=475)
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    if not asked.file:
        parser.print_help()
    elif asked.shape in ("m", "short"):
        write(asked.file, shape_of_m(asked.haystacks, asked.sessions, asked.seed, asked.shape))
    else:
        write(asked.file, shape_of_10m(asked.messages, asked.seed))


if __name__ == "__main__":
    main()
