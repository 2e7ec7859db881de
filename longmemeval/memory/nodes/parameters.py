"""The parameters of `typed-nodes`."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from longmemeval.memory.parameters import RetrievalParameters

_OffIfFalse = BeforeValidator(lambda value: "off" if value is False else value)


class NodeParameters(RetrievalParameters):
    """Parameters of `typed-nodes`: those of a search of the messages, and those of the entries."""

    last_messages: int = Field(0, ge=0)
    message_range: int = Field(0, ge=0)
    nodes: str | None = None
    """A folder with one YAML file per node; without it, the four shipped nodes."""
    entries: int = Field(15, ge=0)
    """Maximum number of entries to recall, best first; 0: messages only."""
    entry_share: float = Field(0.3, ge=0, le=1)
    """Share of the budget for entries, which add what the messages do not say. 1: entries only."""
    entry_time: Annotated[Literal["off", "boost", "filter"], _OffIfFalse] = "filter"
    """Use of a time the question names: entries of those days move up, or all others are left out."""
    entry_people: float = Field(0.2, ge=0)
    """Bonus for entries about a person the question names."""
    show_evidence: bool = False
    """Show each entry with the words that prove it."""
