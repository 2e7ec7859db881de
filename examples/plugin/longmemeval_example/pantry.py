"""Pantry: ten questions about what two households told their kitchen assistant."""

from datetime import datetime
from pathlib import Path
from typing import Any

from longmemeval.benchmarks.in_memory import InMemoryDataset, read_records
from longmemeval.benchmarks.spec import Benchmark
from longmemeval.judges.plants.answers import answer_planting
from longmemeval.judges.question_types import QuestionTypes
from longmemeval.records import Gold, Haystack, Question, Session, Turn


def load(path: Path, name: str) -> InMemoryDataset:
    """Return the households of a file, each a haystack whose chats are sessions."""
    households = read_records(path)
    haystacks = [Haystack(one["household"], tuple(_session(chat) for chat in one["chats"])) for one in households]
    asked = [_question(one, number) for one in households for number in range(len(one["questions"]))]
    return InMemoryDataset("pantry", path, name, haystacks, asked)


def _session(chat: dict[str, Any]) -> Session:
    turns = tuple(Turn("user" if place % 2 == 0 else "assistant", said) for place, said in enumerate(chat["said"]))
    return Session(chat["chat"], datetime.fromisoformat(chat["date"]), chat["date"], turns)


def _question(household: dict[str, Any], number: int) -> tuple[Question, Gold]:
    one, asked = household["questions"][number], household["asked"]
    name = f"{household['household']}-{number}"
    shown = Question(name, one["text"], datetime.fromisoformat(asked), asked, household["household"])
    sessions = tuple(dict.fromkeys(turn.partition(":")[0] for turn in one["turns"]))
    gold = Gold(name, one["type"], one["answer"], sessions, tuple(one["turns"]), abstention=one["type"] == "never-said")
    return shown, gold


PANTRY = Benchmark(
    name="pantry",
    title="Pantry",
    claims=lambda data: {"household", "chats"} <= data.keys,
    load=load,
    shape="records with household, chats and questions",
    licence="MIT",
    types=QuestionTypes(
        order=("stock", "latest", "never-said"),
        abilities={"stock": "fact-recall", "latest": "knowledge-update", "never-said": "abstention"},
    ),
    default_judge="offline/pantry",
    planting=answer_planting(),
)
