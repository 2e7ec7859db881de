"""Split a stored prompt into instruction, memory and question, and count the tokens of each part."""

from msgspec import Struct

from longmemeval.llm.tokens import TokenCounter
from longmemeval.reading.prompts import SentPrompt, question_text
from longmemeval.reading.templates import Template, shipped_template
from longmemeval.records import Question

_HERE = "\0memory\0"
"""Placeholder for the memory while the rest of a template is filled in."""


class PromptParts(Struct, frozen=True):
    """Tokens of a prompt by part; they add up to the recorded tokens of the prompt."""

    instruction: int
    memory: int
    question: int
    """Tokens of the question and its date."""


def prompt_parts(
    prompt: SentPrompt, question: Question, template_sha256: str, tokens: int, counter: TokenCounter
) -> PromptParts | None:
    """Return the tokens of the parts of a prompt.

    Args:
        template_sha256: hash of the template in the run's settings.
        tokens: tokens of the whole prompt.
        counter: the counter that the run used.

    Returns:
        None if the parts cannot be told apart: the template is not from this package, or the prompt was not made from a
        template.
    """
    memory = memory_in(prompt, question, shipped_template(template_sha256))
    if memory is None:
        return None
    question_tokens = counter.count(question_text(question)) + counter.count(question.date_text)
    memory_tokens = min(counter.count(memory), tokens)
    question_tokens = min(question_tokens, tokens - memory_tokens)
    return PromptParts(tokens - memory_tokens - question_tokens, memory_tokens, question_tokens)


def memory_in(prompt: SentPrompt, question: Question, template: Template | None) -> str | None:
    """Return the memory as the prompt shows it; None if the prompt was not made from this template."""
    if template is None or len(prompt.messages) != 1:
        return None
    values = {"history": _HERE, "question_date": question.date_text, "question": question_text(question)}
    before, _, after = template.fill(values).partition(_HERE)
    text = prompt.messages[0].content
    if not text.startswith(before) or not text.endswith(after) or len(text) < len(before) + len(after):
        return None
    return text[len(before) : len(text) - len(after)]
