"""Settings of reading: method, templates, limits."""

from importlib import resources
from pathlib import Path
from typing import Any, get_args

import msgspec
from msgspec import Struct, structs

from longmemeval.core.arguments import checked
from longmemeval.core.files import sha256_text
from longmemeval.core.options import TOP, options_of, recorded
from longmemeval.errors import HarnessError
from longmemeval.llm.reasoning import MARGIN_TOKENS
from longmemeval.reading.options import ReadingMethod, ReadingOptions
from longmemeval.reading.prompts import Compose
from longmemeval.reading.templates import NOTE_FIELDS, READER_FIELDS, Template, load_template

_TEMPLATES: dict[ReadingMethod, str] = {
    "direct": "direct",
    "con": "con",
    "con-separate": "con",
    "short": "short",
    "memories": "memories",
    "evidence": "evidence",
    "facts-first": "facts-first",
    "files": "files",
}

# Generation lengths of the official readers: LongMemEval's (src/generation/run_generation.py), and LoCoMo's for short
# answers (task_eval/gpt_utils.py).
_MAX_TOKENS = {
    **{"direct": 500, "con": 800, "con-separate": 800, "short": 32},
    **{"memories": 500, "evidence": 800, "files": 500},
    "facts-first": 256,
}
_NOTES: dict[ReadingMethod, tuple[str, tuple[str, ...], int]] = {
    "con-separate": ("note", NOTE_FIELDS, 500),
    "facts-first": ("facts", READER_FIELDS, 512),
}
"""The first call of methods that make two: its template, the placeholders of that, and the longest reply.

The limits of facts-first are those of the published run (EmergenceAI's Simple Fast, 2025).
"""
_STEPS = 12


class Tools(Struct, frozen=True):
    """The tools of a reading method."""

    sha256: str
    """Hash of the file that describes the tools."""
    offered: tuple[dict[str, Any], ...]
    answer_now: str
    """Request for the answer, sent when no steps are left."""
    withheld: str
    """Text that replaces a result for which there is no room."""


class ReadingConfiguration(Struct, frozen=True):
    """A reading method ready for use: its options with the method's defaults filled in, and its texts."""

    options: ReadingOptions
    template: Template
    note_template: Template | None
    options_template: Template | None = None
    """Prompt of questions that offer options; None: `template`."""
    temperature: float = 0.0
    compose: Compose | None = None
    """Function that builds the messages of a call instead of layout and templates, for a benchmark's own protocol."""
    tools: Tools | None = None
    """Tools that the model may call; None: there is a single call, without tools."""

    @property
    def method(self) -> ReadingMethod:
        """The reading method."""
        return self.options.method or "direct"

    @property
    def max_tokens(self) -> int:
        """Maximum tokens of an answer."""
        return longest_answer(self.options)

    @property
    def note_max_tokens(self) -> int:
        """Maximum tokens of the reply to a first call."""
        return _NOTES[self.method][2]

    def in_window(self, tokens: int | None) -> "ReadingConfiguration":
        """Return the configuration with the context window of its model, unless an option has set one."""
        window = self.options.context_window or tokens
        return structs.replace(self, options=structs.replace(self.options, context_window=window))

    def recorded(self, place: str = TOP) -> dict[str, Any]:
        """Return the settings that decide a prompt and have this place in `run.json`; texts by their hashes."""
        values = recorded(self.options, "reading").get(place, {})
        if place == "reading":
            texts = {name: getattr(self, name) for name in ("template", "options_template", "note_template", "tools")}
            values |= {name: text.sha256 for name, text in texts.items() if text}
        if self.compose:
            values = {name: value for name, value in values.items() if name not in ("template", "history_format")}
        return values


@checked()
def reading_configuration(method: ReadingMethod = "direct", **options: Any) -> ReadingConfiguration:
    """Load the templates of a reading method and fill in its defaults.

    Args:
        method: the reading method.
        options: other fields of `ReadingOptions`; a path may be given as text.

    Raises:
        HarnessError: a template file is unreadable or lacks a placeholder, an option is unknown or has the wrong type,
            or a limit on tools is set for a method without tools.
    """
    files = {option.field for option in options_of(ReadingOptions) if Path in get_args(option.type)}
    given: dict[str, Any] = {
        name: Path(value) if name in files and isinstance(value, str) else value for name, value in options.items()
    }
    return configured(ReadingOptions(method=method, **given))


@checked()
def configured(options: ReadingOptions) -> ReadingConfiguration:
    """Return the reading that options describe; errors are those of `reading_configuration`."""
    method = options.method or "direct"
    if method != "files" and (options.steps is not None or options.prompt_budget is not None):
        raise HarnessError(
            f"--steps and --prompt-budget limit the tools of --reading files; '{method}' has no tools",
            fix="Leave them out, or use --reading files",
        )
    has_tools, (shipped, fields, _) = method == "files", _NOTES.get(method, ("", (), 0))
    return ReadingConfiguration(
        options=structs.replace(
            options,
            method=method,
            max_tokens=longest_answer(options),
            steps=(_STEPS if options.steps is None else options.steps) if has_tools else None,
        ),
        template=load_template(_TEMPLATES[method], options.template, READER_FIELDS),
        note_template=load_template(shipped, options.note_template, fields) if shipped else None,
        tools=_load_tools() if has_tools else None,
    )


def longest_answer(options: ReadingOptions) -> int:
    """Return the maximum tokens of an answer, by option or by method."""
    return options.max_tokens or _MAX_TOKENS[options.method or "direct"]


def _load_tools() -> Tools:
    text = (resources.files("longmemeval.reading") / "templates" / "files_tools.json").read_text(encoding="utf-8")
    content = msgspec.json.decode(text)
    return Tools(sha256_text(text), tuple(content["tools"]), content["answer_now"], content["withheld"])


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
    window = configuration.options.context_window
    if window is None:
        return None
    if window <= max_tokens + MARGIN_TOKENS:
        raise HarnessError(
            f"A context window of {window} tokens has no room for a prompt: "
            f"{max_tokens} are reserved for the answer, and {MARGIN_TOKENS} as a margin",
            fix="Use a larger --context-window or a smaller --max-tokens",
        )
    return window - max_tokens - MARGIN_TOKENS
