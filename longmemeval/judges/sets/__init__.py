"""Template sets for any benchmark."""

from pathlib import Path

from longmemeval.judges.definition import JudgeDefinition

LENIENT = JudgeDefinition(prompt_set=Path(__file__).with_name("lenient.json"))
STRICT = JudgeDefinition(prompt_set=Path(__file__).with_name("strict.json"))
