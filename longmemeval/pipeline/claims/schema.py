"""The YAML of claims: one file for each source and table, its figures as rows. docs/claims.md explains it."""

from typing import Annotated, Any, Literal

from annotated_types import Ge, Le, MinLen
from pydantic import BaseModel, ConfigDict, StringConstraints

from longmemeval.measures.rankings import Granularity
from longmemeval.pipeline.run.options import Protocol

Fraction = Annotated[float, Ge(0), Le(1)]
Text = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]
Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.+-]*$", max_length=80)]
Hand = Literal["first", "third"]
"""Whether the figure was read where it was published, or in somebody else's account of it."""


class _Section(BaseModel):
    """A section whose values are not converted: `yes` is not a number."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Source(_Section):
    """Where a figure was published."""

    title: Text
    table: str = ""
    """The table, figure or row."""
    url: str = ""
    """Empty: not known."""
    hand: Hand
    through: str = ""
    """What a third-hand figure was read in."""

    @property
    def cited(self) -> str:
        """Title and table, and for a third-hand figure that it is one: the source as tables show it."""
        named = ", ".join(filter(None, (self.title, self.table)))
        if self.hand == "first":
            return named
        return f"{named} (third-hand: {self.through})" if self.through else f"{named} (third-hand)"


class ClaimSettings(_Section):
    """A claim as settings of this harness: what `run` and `evaluate`, or `retrieval`, take."""

    dataset: Text
    """A name of the catalogue, or of a file or folder in the data folder."""
    get: str = ""
    """How to get data that is in no catalogue."""
    types: list[Text] = []
    """Only the questions of these types; empty: all."""
    haystacks: list[Text] = []
    """Only the questions about these haystacks; empty: all."""
    memory: Text
    parameters: dict[str, Any] = {}
    """Parameters of the memory that differ from its defaults."""
    prepare: dict[str, Any] = {}
    """Options of `prepare` that decide the parts, such as `embedder`."""
    model: str = ""
    """The answering model; empty: nothing is answered."""
    reading: dict[str, Any] = {}
    """Options of reading: method, history_format, max_tokens and more."""
    protocol: Protocol = "standard"
    judge: str = ""
    """Spec of the judge; empty: the benchmark's own."""
    measure: str = ""
    """A measure of `retrieval` such as `recall@5`, for claims about what is found; empty: answers are graded."""
    granularity: Granularity | None = None
    """Level of the rankings; None: what the protocol ranks."""
    prompt_tokens: Annotated[int, Ge(1)] | None = None
    """Mean tokens of a prompt as the source says, for a cost before the data is here; None: it does not say."""


class _Shared(_Section):
    """What the rows of a file mostly have in common: a row's own value takes the place of the file's."""

    variant: str | None = None
    """Which release, part or size of the data."""
    catalogue: list[Text] | None = None
    """Names in the catalogue of the data meant, or of another release of it."""
    metric: str | None = None
    n: Annotated[int, Ge(1)] | None = None
    """Questions; None where it is not given."""
    judge: str | None = None
    """Who or what graded."""
    graded_by: str | None = None
    """The judge of ours that grades in the same way; None where there is none."""
    reader: str | None = None
    """The answering model; None where it is not given or there is none."""
    settings: dict[str, Any] = {}
    """Fields of `ClaimSettings`; those of a row are added to the file's."""
    assumed: dict[Text, Text] = {}
    """What the source leaves open, each with what is assumed; those of a row are added to the file's."""
    deviations: list[Text] = []
    """Where these settings are known to differ from what the source did."""
    cannot: str | None = None
    """Why it cannot be tried; empty in a row: it can, though the others cannot."""


class Row(_Shared):
    """One figure."""

    id: Name
    system: Text
    value: Fraction | None
    """None where only parts were published."""
    by_group: dict[Text, Fraction] = {}
    """By category or context size, under their true names."""
    note: str = ""


class ClaimFile(_Shared):
    """One file."""

    benchmark: Text
    source: Source
    rows: Annotated[list[Row], MinLen(1)]
