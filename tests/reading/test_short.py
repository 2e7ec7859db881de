"""Short answers, and what a protocol adds to a question: both as the prompt shows them."""

import asyncio

import msgspec
import pytest

from longmemeval.reading.configuration import reading_configuration
from longmemeval.reading.options import READING_METHODS, ReadingMethod
from longmemeval.reading.reader import Reader
from longmemeval.reading.templates import READER_FIELDS, load_template
from tests.reading.test_reader import QUESTION, THREE, Characters, FakeModel, read

ADDED = "Choose: (a) At {home} (b) Not mentioned"


def test_short_answers_have_their_own_prompt_and_length() -> None:
    model = FakeModel()
    answer = read(model, THREE, reading_configuration("short")).answer
    (request,) = model.requests
    assert (request.max_tokens, answer.hypothesis) == (32, "At home.")
    (prompt,) = model.prompts
    assert "short phrase" in prompt
    assert prompt.endswith("Question: Where is my dog?\nShort answer:")
    for text in (*(item.text for item in THREE.items), "2023/05/30 (Tue) 23:40"):
        assert text in prompt


def test_the_shipped_template_shows_every_field_once() -> None:
    prompt = load_template("short", None, READER_FIELDS).fill({field: f"<<{field}>>" for field in READER_FIELDS})
    assert all(prompt.count(f"<<{field}>>") == 1 for field in READER_FIELDS)


@pytest.mark.parametrize("method", READING_METHODS)
def test_what_a_protocol_adds_follows_the_question_in_every_prompt(method: ReadingMethod) -> None:
    model = FakeModel()
    question = msgspec.structs.replace(QUESTION, appended=ADDED, options=("At {home}", "Not mentioned"))
    asyncio.run(Reader(reading_configuration(method), model, Characters()).read(question, THREE))
    assert model.prompts
    for request, prompt in zip(model.requests, model.prompts, strict=True):
        assert f"Question: Where is my dog? {ADDED}\n" in prompt
        # Models that search what was recalled search by the question alone.
        assert request.question == "Where is my dog?"


@pytest.mark.parametrize("method", READING_METHODS)
def test_without_an_addition_the_question_stands_alone(method: ReadingMethod) -> None:
    model = FakeModel()
    read(model, THREE, reading_configuration(method))
    assert all("Question: Where is my dog?\n" in prompt for prompt in model.prompts)


def test_evidence_is_quoted_and_dated_before_the_answer() -> None:
    model = FakeModel()
    read(model, THREE, reading_configuration("evidence"))
    (prompt,) = model.prompts
    assert "marked [current] is the newest known value" in prompt
    assert "say that you don't know" in prompt
    assert prompt.endswith("Question: Where is my dog?\nEvidence:")


def test_memories_are_read_by_a_prompt_of_their_own() -> None:
    model = FakeModel()
    read(model, THREE, reading_configuration("memories"))
    (prompt,) = model.prompts
    assert "say that you don't know" in prompt
    assert "Days in brackets" in prompt
    assert prompt.endswith("Question: Where is my dog?\nAnswer, in one or two sentences:")
