"""Which part of a stored prompt is instruction, memory and question, and how many tokens each takes."""

from msgspec import Struct

from longmemeval.llm.tokens import TokenCounter
from longmemeval.reading.prompts import SentPrompt, question_text
from longmemeval.reading.templates import Template, shipped_template
from longmemeval.records import Question

_HERE = "\0memory\0"
"""Stands for the memory while the rest of a template is filled in."""


class PromptParts(Struct, frozen=True):
    """Tokens of a prompt, by part; their sum is that of the prompt as it was counted."""

    instruction: int
    memory: int
    question: int
    """The question and its date."""


def prompt_parts(
    prompt: SentPrompt, question: Question, template_sha256: str, tokens: int, counter: TokenCounter
) -> PromptParts | None:
    """Return the tokens of the parts of a prompt.

    Args:
        prompt: as it was sent.
        question: as it was put.
        template_sha256: hash of the template in the run's settings.
        tokens: of the whole prompt.
        counter: the one that the run counted with.

    Returns:
        None where the parts cannot be told: the template is not of this package, or the prompt was not made by one.
    """
    memory = memory_in(prompt, question, shipped_template(template_sha256))
    if memory is None:
        return None
    asked = counter.count(question_text(question)) + counter.count(question.date_text)
    shown = min(counter.count(memory), tokens)
    asked = min(asked, tokens - shown)
    return PromptParts(tokens - shown - asked, shown, asked)


def memory_in(prompt: SentPrompt, question: Question, template: Template | None) -> str | None:
    """Return the memory as the prompt shows it; None where the prompt was not made by this template."""
    if template is None or len(prompt.messages) != 1:
        return None
    values = {"history": _HERE, "question_date": question.date_text, "question": question_text(question)}
    before, _, after = template.fill(values).partition(_HERE)
    text = prompt.messages[0].content
    if not text.startswith(before) or not text.endswith(after) or len(text) < len(before) + len(after):
        return None
    return text[len(before) : len(text) - len(after)]
