"""The authors' own prompts, read from their files if the user has them: no licence allows us to ship them.

`datasets download locomo-plus` puts `locomo_plus_prompt.py` (the judge's prompts) and `locomo_plus_utils.py` (those for
triggers) into the data folder. They are parsed, never executed, and a text counts only if it has the official hash.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from longmemeval.core.files import sha256_text
from longmemeval.errors import HarnessError, IntegrityError

PROMPT_FILE, TASK_FILE = "locomo_plus_prompt.py", "locomo_plus_utils.py"
OPENING, COGNITIVE_JUDGE, COGNITIVE_TASK = "CONV_START_PROMPT", "Cognitive", "INSTRUCTION_COGNITIVE"
SHA256 = {
    OPENING: "bfb101603e38a36cfecfb7e989ae51d537907ad7ac0b89020e2b7c01046d3cb7",
    COGNITIVE_JUDGE: "83875348ab831a4f2932457bc951d37654db9f77ecaf50e7a8aacf5ff566a08b",
    COGNITIVE_TASK: "b9f2dd0d22ec2bf45fad034c90d94f61cb9f4776999220e50dc811ebc8f7d9d3",
}
"""Hashes of texts in `evaluation_framework/task_eval/prompt.py` and `utils.py` at 059f4e3, by their names there."""


def official_texts(file: Path, *names: str) -> dict[str, str]:
    """Return texts of a Python file, by the names of variables or of keys of a dictionary.

    Raises:
        HarnessError: the file cannot be read as Python.
        IntegrityError: a text is missing, or is not the official one.
    """
    try:
        texts = dict(_texts(ast.parse(file.read_bytes())))
    except (OSError, SyntaxError, ValueError, RecursionError) as error:
        raise HarnessError(f"The file of prompts cannot be read: {error}", where=str(file)) from error
    for name in names:
        if sha256_text(texts.get(name, "")) != SHA256[name]:
            what = f"The file of prompts does not have the official text of {name}"
            fix = "Run `longmemeval datasets download locomo-plus`; without the file judges use our own wording"
            raise IntegrityError(what, where=str(file), fix=fix)
    return {name: texts[name] for name in names}


def _texts(module: ast.Module) -> Iterator[tuple[str, str]]:
    for statement in module.body:
        if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
            continue
        value = statement.value
        pairs = zip(value.keys, value.values, strict=True) if isinstance(value, ast.Dict) else [(None, value)]
        for key, text in pairs:
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                named = key.value if isinstance(key, ast.Constant) else statement.targets[0].id
                yield str(named), text.value
