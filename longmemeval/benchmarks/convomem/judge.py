"""ConvoMem's own judge."""

from pathlib import Path

from longmemeval.judges.definition import JudgeDefinition

PROMPTS = JudgeDefinition(prompt_set=Path(__file__).with_name("judge_prompts.json"))
"""Our wording of the rules by which its authors have Gemini 2.5 Flash grade."""
