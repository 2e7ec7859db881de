"""Versions of one statement: which messages are, and that a search puts the newest first."""

from datetime import datetime

import msgspec
import numpy as np
import pytest

from longmemeval.embedding.hashing import HashingEmbedder
from longmemeval.llm.tokens import CharacterCounter
from longmemeval.memory.engram import Engram
from longmemeval.memory.engram.fact_memory import LeanEngram
from longmemeval.memory.engram.parameters import LeanParameters
from longmemeval.memory.engram.recall import beginnings, groups, newest_first
from longmemeval.memory.protocol import MemoryTools
from longmemeval.records import Message, Question, Recall


def said(*texts: str) -> list[Message]:
    return [Message(f"s:{n}", "s", "user", "", text, datetime(2024, 1, 1 + n), n) for n, text in enumerate(texts)]


VERSIONS = (
    ("The mayor of Ulm is Ivo Berger.", "The mayor of Ulm is Gunter Kraft."),
    ("12. Otto Brand is married to Lena Vogel.", "987. Otto Brand is married to Anna, Countess of Thurn."),
    ("The festival takes place in the city of Linz.", "The festival takes place in the city of New York."),
    ("The ferry leaves from pier three.", "The ferry leaves from pier nine."),
    ("Her bakery closes at six.", "Her bakery closes at eight!"),
)
DIFFERENT = (
    ("The mayor of Ulm is Ivo Berger.", "The mayor of Linz is Ivo Berger."),
    ("Otto Brand is married to Lena Vogel.", "Otto Brand is a citizen of Chile."),
    ("The bridge was built in 1920.", "The bridge was built by Anna Stein."),
    ("I live in Ghent.", "I live in Lille."),
    ("Is the mayor of Ulm Ivo Berger?", "Is the mayor of Ulm Gunter Kraft?"),
    ("The ferry leaves from pier three. It rains.", "The ferry leaves from pier nine. It rains."),
    ("Nice!", "Nice."),
)


@pytest.mark.parametrize("pair", VERSIONS)
def test_the_same_but_for_its_end_is_a_version(pair: tuple[str, str]) -> None:
    assert groups(said(*pair, "Nothing else is said of it.")).tolist() == [0, 0, -1]


@pytest.mark.parametrize("pair", DIFFERENT)
def test_anything_else_is_none(pair: tuple[str, str]) -> None:
    assert groups(said(*pair)).tolist() == [-1, -1]


def test_a_beginning_has_a_verb_and_its_end_is_short() -> None:
    assert beginnings("310. The mayor of Ulm is Ivo Berger.") == ("the mayor of ulm is",)
    assert beginnings("The mayor of Ulm") == ()
    assert beginnings("Ulm is " + "very " * 50 + "old.") == ()


def test_versions_share_the_places_they_had() -> None:
    group = np.array([0, -1, 0, 1, 0, 1])
    age = np.array([0, 1, 2, 3, 4, 5])
    assert newest_first(np.array([0, 1, 3, 2, 5, 4]), group, age).tolist() == [4, 1, 5, 2, 3, 0]
    assert newest_first(np.array([1, 2]), group, age).tolist() == [1, 2]


def first(recall: Recall) -> str:
    return min((item.rank or 99, item.text) for item in recall.items)[1]


def test_the_newest_version_is_ranked_first_unless_that_is_switched_off() -> None:
    memory = Engram()
    memory.tell("The mayor of Ulm is Ivo Berger.", datetime(2024, 3, 4))
    memory.tell("The museum of Ulm is closed on Mondays.", datetime(2024, 3, 5))
    memory.tell("The mayor of Ulm is Gunter Kraft.", datetime(2024, 3, 6))
    asked = Question("q", "Is Ivo Berger the mayor of Ulm?", datetime(2024, 4, 1), "", "asked")
    tools = MemoryTools(lambda text: HashingEmbedder().embed([text])[0], count_tokens=CharacterCounter().count)

    def recalled(question: Question = asked, **settings: bool) -> Recall:
        parameters = LeanParameters.model_validate(settings)
        return LeanEngram(parameters, tools).recalled(question, memory._opened())

    assert "Gunter Kraft" in first(recalled())
    assert "Ivo Berger" in first(recalled(newest_first=False))
    earlier = msgspec.structs.replace(asked, date=datetime(2024, 3, 5))
    assert "Ivo Berger" in first(recalled(earlier))
