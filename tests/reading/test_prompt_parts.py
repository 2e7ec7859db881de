"""The parts of a stored prompt: their tokens add up, and where they cannot be told nothing is said."""

import pytest

from longmemeval.benchmarks.registry import load_dataset
from longmemeval.llm.protocol import ChatMessage
from longmemeval.llm.tokens import CharacterCounter
from longmemeval.reading.prompts import SentPrompt
from longmemeval.reading.reader import memory_in, prompt_parts
from longmemeval.reading.templates import READER_FIELDS, load_template, shipped_template
from longmemeval.results.run_files import RunFiles
from longmemeval.results.settings import AnswerSettings
from tests.made_once import sample_demo
from tests.support import ROOT

QUESTION = next(iter(load_dataset("sample", ROOT / "data").questions()))


def sent(*texts: str) -> SentPrompt:
    return SentPrompt(QUESTION.question_id, "answer", tuple(ChatMessage("user", text) for text in texts), "")


@pytest.mark.parametrize("name", ["direct", "con", "short", "memories", "evidence"])
def test_the_memory_of_a_prompt_is_what_was_filled_in(name: str) -> None:
    template = load_template(name, None, READER_FIELDS)
    assert shipped_template(template.sha256) == template
    history = f"Question: {QUESTION.text} {{history}} \n{QUESTION.date_text}\nAnswer:"
    text = template.fill({"history": history, "question_date": QUESTION.date_text, "question": QUESTION.text})
    assert memory_in(sent(text), QUESTION, template) == history


def test_another_prompt_has_no_parts() -> None:
    counter, direct = CharacterCounter(), load_template("direct", None, READER_FIELDS)
    assert prompt_parts(sent("something else"), QUESTION, direct.sha256, 100, counter) is None
    assert prompt_parts(sent("one", "two"), QUESTION, direct.sha256, 100, counter) is None
    assert prompt_parts(sent("one"), QUESTION, "of my own", 100, counter) is None


def test_the_parts_of_a_run_add_up_to_the_tokens_it_counted(tmp_path_factory: pytest.TempPathFactory) -> None:
    files = RunFiles(sample_demo(tmp_path_factory).folder / "results" / "demo-hybrid")
    settings = files.manifest.settings
    assert isinstance(settings, AnswerSettings)
    answer = files.answers[QUESTION.question_id]
    (prompt,) = files.prompts_to(QUESTION.question_id)
    assert prompt.sha256 == answer.prompt_sha256
    parts = prompt_parts(prompt, QUESTION, settings.reading.template, answer.prompt_tokens, CharacterCounter())
    assert parts is not None
    assert parts.instruction + parts.memory + parts.question == answer.prompt_tokens
    assert parts.memory > parts.instruction > parts.question > 0
    assert files.prompts_to("nothing of that name") == []
