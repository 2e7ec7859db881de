"""Options of the built-in parts, declared once: the command line, sweep files and Python read them from here.

An option of a memory system from another package is a parameter of that memory (`--set`), not an option of this class.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo

from longmemeval.errors import HarnessError, nearest

EmbeddedText = Literal["content", "speaker", "dated", "neighbours"]
IndexEngine = Literal["hnsw", "exact"]


class PartOptions(BaseModel):
    """Options for making the parts of fixtures. Values are not converted: `yes` is not a number."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True)

    embedder: str = Field(default="hashing", json_schema_extra={"metavar": "SPEC", "panel": "Model"})
    """hashing (offline), fastembed:NAME, openai:MODEL."""
    embedded_text: EmbeddedText = Field(
        default="content", json_schema_extra={"flag": "--embed-text", "metavar": "TEXT"}
    )
    """What to embed of a message: content, speaker (name first), dated (date first) or neighbours (with the messages
    around it)."""
    query_prefix: str = Field(default="", json_schema_extra={"metavar": "TEXT"})
    """Prefix the embedding model expects before a question. The fixtures keep it for runs."""
    document_prefix: str = Field(default="", json_schema_extra={"metavar": "TEXT"})
    """Prefix the embedding model expects before a stored text."""
    index: IndexEngine = Field(default="hnsw", json_schema_extra={"metavar": "KIND"})
    """Vector search: hnsw (a graph) or exact."""
    working_memory_model: str = Field(default="rules", json_schema_extra={"metavar": "MODEL", "panel": "Model"})
    """Model for working memory; rules is offline."""
    working_memory_template: Path | None = Field(default=None, strict=False, json_schema_extra={"metavar": "FILE"})
    """Markdown file with the sections of the working memory."""
    memory_model: str | None = Field(default=None, json_schema_extra={"metavar": "MODEL", "panel": "Model"})
    """Chat model for memories from outside."""
    expansion_model: str | None = Field(default=None, json_schema_extra={"metavar": "MODEL", "panel": "Model"})
    """Chat model for key expansions."""
    node_model: str = Field(default="rules", json_schema_extra={"metavar": "MODEL", "panel": "Model"})
    """Chat model for typed nodes."""
    fact_model: str = Field(default="rules", json_schema_extra={"metavar": "MODEL", "panel": "Model"})
    """Chat model for facts."""
    fact_prompt: Path | None = Field(default=None, strict=False, json_schema_extra={"metavar": "FILE"})
    """Text file with what the fact model is to write down."""


def extra(field: FieldInfo) -> dict[str, str]:
    """Return the command-line settings of a field besides its description: flag, metavar and panel, if set."""
    settings = field.json_schema_extra
    return {key: str(value) for key, value in settings.items()} if isinstance(settings, dict) else {}


def flag_of(name: str, field: FieldInfo) -> str:
    """Return the command-line option that sets a field."""
    return extra(field).get("flag", f"--{name.replace('_', '-')}")


def as_flags(values: dict[str, str]) -> list[str]:
    """Return the command-line arguments for these values, defaults omitted."""
    fields = PartOptions.model_fields
    return [
        word
        for name, value in values.items()
        if value != fields[name].default
        for word in (flag_of(name, fields[name]), value)
    ]


def refusal(error: ValidationError, fields: Mapping[str, FieldInfo], what: str) -> HarnessError:
    """Return the error for the first value that a field does not accept.

    Args:
        error: result of the validation.
        fields: known fields by name.
        what: owner of the fields, for the message.
    """
    problem = error.errors()[0]
    key, given = str(problem["loc"][0]) if problem["loc"] else "", problem["input"]
    if problem["type"] == "extra_forbidden":
        return HarnessError(f"{what} cannot be '{key}'", fix=nearest(key, fields))
    expected = re.findall(r"'([^']*)'", str(problem.get("ctx", {}).get("expected", "")))
    fix = nearest(str(given), expected) if expected else problem["msg"]
    return HarnessError(f"{what} cannot have {key} = {given!r}", fix=fix)
