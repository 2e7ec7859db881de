"""All claims: those of this package and of others, read from their files and checked."""

import re
from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Ge, Le, MinLen
from msgspec import Struct
from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

from longmemeval.benchmarks.catalogue import BENCHMARK_SPECS
from longmemeval.core.text.figures import listed
from longmemeval.core.text_files import UnreadableError, load_yaml, read_text
from longmemeval.errors import DataError, HarnessError, nearest
from longmemeval.llm.options import is_offline
from longmemeval.llm.rates import RateLimits
from longmemeval.llm.tokens import Call
from longmemeval.measures.notation import Granularity
from longmemeval.pipeline.estimate.stages import REPLY_SHARE, Pace, Replies, Stage, call_seconds, estimate_calls, stage
from longmemeval.pipeline.options import Protocol
from longmemeval.plugins import CLAIMS, Registry
from longmemeval.reading.configuration import longest_answer
from longmemeval.reading.options import ReadingOptions

# The YAML of claims: one file for each source and table, its figures as rows. docs/claims.md explains it.

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
    date: Annotated[str, StringConstraints(pattern=r"^(\d{4}(-\d\d){0,2})?$")] = ""
    """When it was published or last changed, such as `2026-07`; empty if unknown."""

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
    model_options: dict[str, Any] = {}
    """What decides the model's replies (`ModelOptions`), such as `reasoning_effort`."""
    query_model: str = ""
    """The model that analyses questions, and its options after its name; empty: the answering model."""
    reading: dict[str, Any] = {}
    """Options of reading: method, history_format, max_tokens and more."""
    protocol: Protocol = "standard"
    judge: str = ""
    """Spec of the judge; empty: the benchmark's own."""
    judge_options: dict[str, Any] = {}
    """The same for the judge's model."""
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
    product: str | None = None
    """The product that was measured, by one name in all files; None: none, or no product."""
    by: Literal["maker", "others"] | None = None
    """Who measured the product."""
    context_tokens: Annotated[int, Ge(1)] | None = None
    """Mean tokens that the answering model was shown for a question; None if not given."""
    group_n: dict[Text, Annotated[int, Ge(1)]] | None = None
    """Number of the dataset's questions in each group."""
    cautions: list[Text] = []
    """What is known to speak against the figure, a few words each; those of a row are added to the file's."""
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
    source: dict[str, Any] = {}
    """Fields of `Source` that differ from the file's."""


class ClaimFile(_Shared):
    """One file."""

    benchmark: Text
    source: Source
    rows: Annotated[list[Row], MinLen(1)]


_YAML = ".yaml"
CLAIM_FOLDERS = Registry(CLAIMS, "folder of claims", Path)
"""Folders of YAML files; other packages register theirs as a `pathlib.Path`."""


class Claim(Struct, frozen=True):
    """One published figure, with what is needed to try it."""

    id: str
    """The file's name and the row's id: `FILE/ROW`."""
    benchmark: str
    variant: str
    catalogue: tuple[str, ...]
    system: str
    value: float | None
    """A fraction between 0 and 1; None if only figures for groups were published."""
    by_group: dict[str, float]
    metric: str
    n: int | None
    judge: str
    graded_by: str
    """The judge of this harness that grades in the same way; empty if there is none."""
    reader: str
    product: str
    """The product that was measured, by one name in all files; empty: none, or no product."""
    by: Literal["maker", "others", ""]
    """Who measured the product; empty if not given."""
    context_tokens: int | None
    """Mean tokens that the answering model was shown for a question; None if not given."""
    group_n: dict[str, int]
    """Number of the dataset's questions in each group; empty if not given."""
    cautions: tuple[str, ...]
    """What is known to speak against the figure, a few words each."""
    note: str
    source: Source
    settings: ClaimSettings | None
    """Settings to try it with; None if it cannot be tried, for the reason in `cannot`."""
    assumed: dict[str, str]
    deviations: tuple[str, ...]
    cannot: str

    @property
    def told_judge(self) -> str | None:
        """The judge; None if the text says that the source names none."""
        return None if self.judge.startswith(("not told", "not said")) else self.judge

    @property
    def is_about_retrieval(self) -> bool:
        """True for a claim about what is found: no question is answered."""
        return bool(self.settings and self.settings.measure)


def all_claims() -> tuple[Claim, ...]:
    """Return every claim, this package's first, in the order of the files' names; broken plugins are left out.

    Raises:
        DataError: a file of this package is not as `schema.py` says, or two claims have one id.
    """
    found: list[Claim] = []
    for name in CLAIM_FOLDERS.names():
        try:
            found += claims_in(CLAIM_FOLDERS.get(name))
        except HarnessError:
            if name in CLAIM_FOLDERS.built_in:
                raise
    if twice := next((claim_id for claim_id, times in Counter(claim.id for claim in found).items() if times > 1), None):
        raise DataError(f"Two claims have the id '{twice}'", fix="Rename the file of one of them")
    return tuple(found)


def claim_named(identifier: str) -> Claim:
    """Return a claim by its id or a unique part of it; from a file of the user's, as `FILE.yaml/ROW`.

    Raises:
        HarnessError: no claim or several match; names the nearest.
    """
    file, _, row = (identifier, "", "") if identifier.endswith(_YAML) else identifier.rpartition("/")
    own = file.endswith(_YAML)
    claims, name = (claims_of(Path(file)), row) if own else (all_claims(), identifier)
    fitting = [claim for claim in claims if name in (claim.id, claim.id.rpartition("/")[2])]
    fitting = fitting or [claim for claim in claims if name in claim.id]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        shown = listed([claim.id for claim in fitting], 5)
        raise HarnessError(f"{len(fitting)} claims are called '{identifier}'", fix=f"Name one of them: {shown}")
    raise HarnessError(
        f"Unknown claim '{identifier}'",
        fix=f"{nearest(name, [claim.id for claim in claims])}. `longmemeval claims list` names all",
    )


@cache
def claims_in(folder: Path) -> tuple[Claim, ...]:
    """Return the claims of a folder's YAML files.

    Raises:
        DataError: one is not as `schema.py` says, or has an id twice; names file and field.
    """
    return tuple(claim for path in sorted(folder.glob(f"*{_YAML}")) for claim in claims_of(path))


def claims_of(path: Path) -> tuple[Claim, ...]:
    """Return the claims of one file; errors as for `claims_in`."""
    try:
        content = ClaimFile.model_validate(load_yaml(read_text(path)))
    except OSError as error:
        raise DataError(f"Claims cannot be read: {error}", where=str(path)) from error
    except UnreadableError as error:
        raise DataError(f"Claims cannot be read: {error}", where=error.place(path)) from error
    except ValidationError as error:
        raise _invalid(error, ClaimFile, str(path)) from error
    # Figures that cannot be tried may be on a benchmark that is not here.
    tried = not content.cannot or any(row.cannot == "" for row in content.rows)
    if tried and content.benchmark not in BENCHMARK_SPECS:
        fix = nearest(content.benchmark, BENCHMARK_SPECS.names())
        raise DataError(f"Unknown benchmark '{content.benchmark}' of the claims", where=str(path), fix=fix)
    ids = Counter(row.id for row in content.rows)
    if twice := [name for name, times in ids.items() if times > 1]:
        raise DataError(f"Two rows have the id '{twice[0]}'", where=str(path), fix="Rename one of them")
    return tuple(_claim(path, content, row) for row in content.rows)


def _claim(path: Path, content: ClaimFile, row: Row) -> Claim:
    where = f"{path}: row {row.id}"
    added = {"settings", "assumed", "deviations", "cautions"}
    both = content.model_dump(exclude_none=True, exclude=added) | row.model_dump(exclude_none=True, exclude=added)
    if missing := [name for name in ("variant", "metric", "judge") if not both.get(name)]:
        raise DataError(f"The claim has no {missing[0]}", where=where, fix="Give it in the row or for the whole file")
    if row.value is None and not row.by_group and not both.get("context_tokens"):
        raise DataError("The claim has no value and no parts", where=where)
    if both.get("product") and not both.get("by"):
        raise DataError("The claim has a product and no `by`", where=where, fix="Say `by: maker` or `by: others`")
    try:
        source = Source.model_validate(content.source.model_dump() | row.source)
    except ValidationError as error:
        raise _invalid(error, Source, f"{where}: source") from error
    cannot = both.get("cannot", "")
    return Claim(
        id=f"{path.stem}/{row.id}",
        benchmark=content.benchmark,
        variant=both["variant"],
        catalogue=tuple(both.get("catalogue", ())),
        system=row.system,
        value=row.value,
        by_group=row.by_group,
        metric=both["metric"],
        n=both.get("n"),
        judge=both["judge"],
        graded_by=both.get("graded_by", ""),
        reader=both.get("reader", ""),
        product=both.get("product", ""),
        by=both.get("by", "") if both.get("product") else "",
        context_tokens=both.get("context_tokens"),
        group_n=both.get("group_n", {}),
        cautions=(*content.cautions, *row.cautions),
        note=row.note,
        source=source,
        settings=None if cannot else _settings({**content.settings, **row.settings}, where),
        assumed={**content.assumed, **row.assumed},
        deviations=(*content.deviations, *row.deviations),
        cannot=cannot,
    )


def _settings(fields: Mapping[str, Any], where: str) -> ClaimSettings:
    if not fields:
        fix = "Give its `settings`, or the reason as `cannot`"
        raise DataError("The claim has neither `settings` nor `cannot`", where=where, fix=fix)
    try:
        return ClaimSettings.model_validate(fields)
    except ValidationError as error:
        raise _invalid(error, ClaimSettings, f"{where}: settings") from error


def _invalid(error: ValidationError, model: type[BaseModel], where: str) -> DataError:
    """Return the error for the first fault, with its location; for an unknown field, with the nearest one."""
    problem = error.errors()[0]
    place = [str(step) for step in problem["loc"]]
    known = Row.model_fields if place[:1] == ["rows"] else model.model_fields
    fix = nearest(place[-1], known) if problem["type"] == "extra_forbidden" and place else ""
    field = re.sub(r"\.(\d+)", r"[\1]", ".".join(place))
    return DataError(f"Claims are not in their format: {problem['msg']}", where=f"{where}: {field}", fix=fix)


# Estimate the cost of answering a claim's questions before its data is here, by the source's prompt size.

ONE_BY_ONE = Pace(RateLimits(), 1)


def answering_cost(claim: Claim, questions: int | None = None) -> Stage | None:
    """Return the estimate of the answers alone: grading and preparing come on top.

    Args:
        questions: number of questions; None: all of the claim's.

    Returns:
        None: no paid model answers, or the number of questions or tokens is unknown.
    """
    settings, n = claim.settings, questions or claim.n
    tokens = claim.context_tokens or (settings.prompt_tokens if settings else None)
    if settings is None or not settings.model or is_offline(settings.model) or not n or not tokens:
        return None
    longest = longest_answer(ReadingOptions(**settings.reading))
    work = estimate_calls(settings.model, [[Call(tokens, longest)]], n, "the source's tokens")
    expected = longest * REPLY_SHARE
    return stage("answers", work, Replies(expected, call_seconds(expected), "assumed"), ONE_BY_ONE)
