"""Options of the built-in parts, declared once: the command line, sweep files and Python read them from here.

An option of a memory system from another package is a parameter of that memory (`--set`), not an option of this class.
"""

import re
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from longmemeval.core.options import MODEL, Flag, words_for
from longmemeval.errors import HarnessError, nearest

EmbeddedText = Literal["content", "speaker", "dated", "neighbours"]
IndexEngine = Literal["hnsw", "exact"]


class PartOptions(BaseModel):
    """Options for making the parts of fixtures. Values are not converted: `yes` is not a number."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)

    embedder: Annotated[str, Flag(MODEL, "SPEC")] = "hashing"
    """Embedder: hashing (offline), fastembed:NAME, openai:MODEL."""
    embedded_text: Annotated[EmbeddedText, Flag(metavar="TEXT", name="--embed-text")] = "content"
    """Embedded text: content, speaker, dated or neighbours.

    speaker: the name first; dated: the date first; neighbours: with the messages around it.
    """
    query_prefix: Annotated[str, Flag(metavar="TEXT")] = ""
    """Prefix the embedding model expects before a question.

    The fixtures keep it for runs.
    """
    document_prefix: Annotated[str, Flag(metavar="TEXT")] = ""
    """Prefix the embedding model expects before a stored text."""
    index: Annotated[IndexEngine | None, Flag(metavar="KIND")] = None
    """Vector index: hnsw or exact [default: as prepared, else hnsw if installed]."""
    working_memory_model: Annotated[str, Flag(MODEL, "MODEL")] = "rules"
    """Model for working memory."""
    working_memory_template: Annotated[Path | None, Flag(metavar="FILE")] = Field(default=None, strict=False)
    """Markdown file with the sections of the working memory."""
    memory_model: Annotated[str | None, Flag(MODEL, "MODEL")] = None
    """Chat model that external memories call."""
    expansion_model: Annotated[str | None, Flag(MODEL, "MODEL")] = None
    """Chat model for key expansions."""
    node_model: Annotated[str, Flag(MODEL, "MODEL")] = "rules"
    """Chat model for typed nodes."""
    observer_model: Annotated[str, Flag(metavar="MODEL")] = "rules"
    """Chat model for observations."""
    fact_model: Annotated[str, Flag(MODEL, "MODEL")] = "rules"
    """Chat model for facts."""
    fact_prompt: Annotated[Path | None, Flag(metavar="FILE")] = Field(default=None, strict=False)
    """Text file that tells the fact model what to extract."""


CHAT_MODELS = tuple(name for name in PartOptions.model_fields if name.endswith("_model"))
"""Names of the options that name a chat model."""


def as_flags(values: dict[str, str]) -> list[str]:
    """Return the command-line arguments for these values, defaults omitted."""
    return words_for(PartOptions, values)


def refusal(error: ValidationError, fields: Collection[str], what: str) -> HarnessError:
    """Return the error for the first value that a field does not accept.

    Args:
        error: result of the validation.
        fields: names of the known fields.
        what: owner of the fields, for the message.
    """
    problem = error.errors()[0]
    key, value = str(problem["loc"][0]) if problem["loc"] else "", problem["input"]
    if problem["type"] == "extra_forbidden":
        return HarnessError(f"Unknown {what} '{key}'", fix=nearest(key, fields))
    expected = re.findall(r"'([^']*)'", str(problem.get("ctx", {}).get("expected", "")))
    fix = nearest(str(value), expected) if expected else problem["msg"]
    return HarnessError(f"Invalid {what}: {key} = {value!r}", fix=fix)
