"""Families of chat models by their names: a model tends to prefer answers of its own kind."""

import re

_FAMILIES: dict[str, re.Pattern[str]] = {
    name: re.compile(rf"(?<![a-z])(?:{pattern})", re.IGNORECASE)
    for name, pattern in {
        "GPT": r"gpt-?[345]|gpt-oss|chatgpt|o[1-9](?:-|$)",
        "Claude": r"claude",
        "Gemini": r"gemini|gemma",
        "Llama": r"(?:meta-|code-?|tiny)?llama",
        "Qwen": r"qwen|qwq",
        "Mistral": r"mistral|mixtral|ministral|magistral|codestral|devstral|pixtral",
        "DeepSeek": r"deepseek",
        "Command": r"command-(?:r|a|light|nightly)|c4ai-command",
        "Grok": r"grok",
        "Phi": r"phi-?[1-9]",
        "Nova": r"nova-(?:micro|lite|pro|premier)",
        "Kimi": r"kimi",
        "GLM": r"(?:chat)?glm-?[1-9]",
    }.items()
}


def model_families(spec: str) -> frozenset[str]:
    """Return the families named in a model's own name; none if it names none.

    A leading provider says nothing by itself: `openai/my-model` may be anything. A distilled model
    (`deepseek-r1-distill-llama-70b`) belongs to two families.

    Args:
        spec: such as `gpt-4o`, `openrouter/anthropic/claude-3.5-sonnet` or `bedrock/us.meta.llama3-1-8b-instruct-v1:0`.
    """
    name = spec.rpartition("/")[2]
    return frozenset(family for family, pattern in _FAMILIES.items() if pattern.search(name))
