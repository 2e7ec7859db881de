"""The YAML of claims: one file for each source and table, its figures as rows. docs/claims.md explains it."""

from typing import Annotated, Any, Literal

from annotated_types import Ge, Le, MinLen
from pydantic import BaseModel, ConfigDict, StringConstraints

from longmemeval.measures.notation import Granularity
from longmemeval.pipeline.run.options import Protocol

Fraction = Annotated[float, Ge(0), Le(1)]
Text = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]
Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.+-]*$", max_length=80)]
Hand = Literal["first", "third"]
"""`first` if the figure was read where it was published, `third` if in someone else's account of it."""


class _Section(BaseModel):
    """A section whose values are not converted: `yes` is not a number."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Source(_Section):
    """The source of a figure."""

    title: Text
    table: str = ""
    """The table, figure or row."""
    url: str = ""
    """Address of the source; empty if unknown."""
    hand: Hand
    through: str = ""
    """The text that a third-hand figure was read in."""

    @property
    def cited(self) -> str:
        """The source as tables show it: title and table, and a note if the figure is third-hand."""
        named = ", ".join(filter(None, (self.title, self.table)))
        if self.hand == "first":
            return named
        return f"{named} (third-hand: {self.through})" if self.through else f"{named} (third-hand)"


class ClaimSettings(_Section):
    """A claim as settings of this harness: what `run` and `evaluate`, or `retrieval`, take."""

    dataset: Text
    """A name of the catalogue, or of a file or folder in the data folder."""
    get: str = ""
    """Instructions for getting data that is in no catalogue."""
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
    """Mean tokens of a prompt by the source, for a cost before the data is here; None: not given."""


class _Shared(_Section):
    """Fields that the rows of a file mostly share; a row's own value overrides the file's."""

    variant: str | None = None
    """Release, part or size of the data."""
    catalogue: list[Text] | None = None
    """Names in the catalogue of the data meant, or of another release of it."""
    metric: str | None = None
    n: Annotated[int, Ge(1)] | None = None
    """Number of questions; None if not given."""
    judge: str | None = None
    """The person or model that graded."""
    graded_by: str | None = None
    """The judge of this harness that grades in the same way; None if there is none."""
    reader: str | None = None
    """The answering model; None if not given, or if there is none."""
    settings: dict[str, Any] = {}
    """Fields of `ClaimSettings`; those of a row are added to the file's."""
    assumed: dict[Text, Text] = {}
    """Choices that the source leaves open, each with the assumption; those of a row are added to the file's."""
    deviations: list[Text] = []
    """Known differences between these settings and the source's procedure."""
    cannot: str | None = None
    """Reason why it cannot be tried; empty in a row: this one can, although the others cannot."""


class Row(_Shared):
    """One figure."""

    id: Name
    system: Text
    value: Fraction | None
    """The figure; None if only figures for groups were published."""
    by_group: dict[Text, Fraction] = {}
    """Figures by category or context size, under their true names."""
    note: str = ""


class ClaimFile(_Shared):
    """One file."""

    benchmark: Text
    source: Source
    rows: Annotated[list[Row], MinLen(1)]
