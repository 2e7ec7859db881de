"""Settings of reading: method, templates, limits."""

from importlib import resources
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from longmemeval.core.arguments import checked
from longmemeval.core.files import sha256_text
from longmemeval.errors import HarnessError
from longmemeval.reading.options import HistoryFormat, OverflowPolicy, ReadingMethod
from longmemeval.reading.overflow import MARGIN_TOKENS
from longmemeval.reading.prompts import Compose
from longmemeval.reading.templates import NOTE_FIELDS, READER_FIELDS, Template, load_template

_TEMPLATES: dict[ReadingMethod, str] = {
    "direct": "direct",
    "con": "con",
    "con-separate": "con",
    "short": "short",
    "memories": "memories",
    "evidence": "evidence",
    "files": "files",
}

# Generation lengths of the official readers: LongMemEval's (src/generation/run_generation.py), and LoCoMo's for short
# answers (task_eval/gpt_utils.py).
_MAX_TOKENS = {
    **{"direct": 500, "con": 800, "con-separate": 800, "short": 32},
    **{"memories": 500, "evidence": 800, "files": 500},
}
NOTE_MAX_TOKENS = 500


_STEPS = 12


class Tools(Struct, frozen=True):
    """The tools of a reading method, and the limits of their use."""

    steps: int
    """Maximum number of replies with tool calls; after these, the model must answer."""
    prompt_budget: int | None
    """Maximum tokens of all prompts of a question together; None: no limit."""
    sha256: str
    """Hash of the file that describes the tools."""
    offered: tuple[dict[str, Any], ...]
    answer_now: str
    """Request for the answer, sent when no steps are left."""
    withheld: str
    """Text that replaces a result for which there is no room."""


class ReadingConfiguration(Struct, frozen=True):
    """Settings for turning a recall into a prompt. Recorded whole in the manifest."""

    method: ReadingMethod
    history_format: HistoryFormat
    template: Template
    note_template: Template | None
    max_tokens: int
    on_overflow: OverflowPolicy
    context_window: int | None
    """Tokens the model accepts; None if unknown: then nothing is checked, and the manifest says so."""
    abstain_below: float | None = None
    """Best recall score below which the answer is `ABSTENTION`, without a call; None: always call the model."""
    options_template: Template | None = None
    """Prompt of questions that offer options; None: `template`."""
    temperature: float = 0.0
    compose: Compose | None = None
    """Function that builds the messages of a call instead of layout and templates, for a benchmark's own protocol."""
    tools: Tools | None = None
    """Tools that the model may call; None: there is a single call, without tools."""


@checked()
def reading_configuration(
    method: ReadingMethod = "direct",
    *,
    history_format: HistoryFormat = "nl",
    template: Path | None = None,
    note_template: Path | None = None,
    max_tokens: int | None = None,
    on_overflow: OverflowPolicy = "error",
    context_window: int | None = None,
    abstain_below: float | None = None,
    steps: int | None = None,
    prompt_budget: int | None = None,
) -> ReadingConfiguration:
    """Load the templates and fill in the method's defaults.

    Raises:
        HarnessError: a template file is unreadable or lacks a placeholder, or a limit on tools is set for a method
            without tools.
    """
    if method != "files" and (steps is not None or prompt_budget is not None):
        raise HarnessError(
            f"--steps and --prompt-budget limit the tools of --reading files; '{method}' has no tools",
            fix="Leave them out, or use --reading files",
        )
    return ReadingConfiguration(
        method=method,
        history_format=history_format,
        template=load_template(_TEMPLATES[method], template, READER_FIELDS),
        note_template=load_template("note", note_template, NOTE_FIELDS) if method == "con-separate" else None,
        max_tokens=max_tokens or _MAX_TOKENS[method],
        on_overflow=on_overflow,
        context_window=context_window,
        abstain_below=abstain_below,
        tools=_load_tools(_STEPS if steps is None else steps, prompt_budget) if method == "files" else None,
    )


def _load_tools(steps: int, prompt_budget: int | None) -> Tools:
    text = (resources.files("longmemeval.reading") / "templates" / "files_tools.json").read_text(encoding="utf-8")
    content = msgspec.json.decode(text)
    return Tools(
        steps, prompt_budget, sha256_text(text), tuple(content["tools"]), content["answer_now"], content["withheld"]
    )


def check_fitting(
    reading: ReadingConfiguration, memory: str, made_for: ReadingMethod | None, *, by_batch: bool
) -> None:
    """Refuse a reading method that does not fit the memory or the way in which calls are sent.

    Args:
        memory: name of the memory.
        made_for: the only method that the memory supports; None: any.
        by_batch: True if calls are sent in batches.

    Raises:
        HarnessError: it does not fit.
    """
    if made_for and reading.method != made_for:
        raise HarnessError(
            f"'{memory}' is meant to be read with tools, not shown as a whole",
            where=f"--reading {reading.method}",
            fix=f"Leave out --reading, or use --reading {made_for}; the memory full-history shows everything",
        )
    if reading.tools and by_batch:
        raise HarnessError(
            "Reading with tools takes several calls in a row, and each batch takes hours",
            fix="Leave out --batch, or use another --reading",
        )


def prompt_limit(configuration: ReadingConfiguration, max_tokens: int) -> int | None:
    """Return the maximum tokens of a prompt whose answer may have `max_tokens`; None if the window is unknown."""
    window = configuration.context_window
    if window is None:
        return None
    if window <= max_tokens + MARGIN_TOKENS:
        raise HarnessError(
            f"A context window of {window} tokens has no room for a prompt: "
            f"{max_tokens} are reserved for the answer, and {MARGIN_TOKENS} as a margin",
            fix="Use a larger --context-window or a smaller --max-tokens",
        )
    return window - max_tokens - MARGIN_TOKENS
