"""Which family a model is of, by its name; where the name says nothing, none is claimed."""

import pytest

from longmemeval.llm.providers import model_families


@pytest.mark.parametrize(
    ("spec", "families"),
    [
        ("gpt-4o-2024-08-06", {"GPT"}),
        ("openai/o3-mini", {"GPT"}),
        ("azure/gpt-35-turbo", {"GPT"}),
        ("openrouter/openai/gpt-oss-120b", {"GPT"}),
        ("openrouter/anthropic/claude-3.5-sonnet", {"Claude"}),
        ("bedrock/us.anthropic.claude-3-5-haiku-20241022-v1:0", {"Claude"}),
        ("vertex_ai/gemini-2.5-flash", {"Gemini"}),
        ("ollama/llama3.1", {"Llama"}),
        ("bedrock/us.meta.llama3-1-8b-instruct-v1:0", {"Llama"}),
        ("together_ai/meta-llama/Llama-3.3-70B-Instruct-Turbo", {"Llama"}),
        ("ollama/codellama:7b", {"Llama"}),
        ("hosted_vllm/Qwen/QwQ-32B", {"Qwen"}),
        ("mistral/open-mixtral-8x7b", {"Mistral"}),
        ("deepseek/deepseek-chat", {"DeepSeek"}),
        ("groq/deepseek-r1-distill-llama-70b", {"DeepSeek", "Llama"}),
        ("openai/my-model", set()),
        ("ollama/nomic", set()),
        ("openai/proto3-mini", set()),
        ("offline/extractive", set()),
        ("", set()),
    ],
)
def test_families(spec: str, families: set[str]) -> None:
    assert model_families(spec) == families
