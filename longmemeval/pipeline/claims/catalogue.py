"""All claims: those of this package and of others, read from their files and checked."""

import re
from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct
from pydantic import BaseModel, ValidationError

from longmemeval.benchmarks.catalogue import BENCHMARK_SPECS
from longmemeval.core.text.figures import listed
from longmemeval.core.text_files import UnreadableError, load_yaml, read_text
from longmemeval.errors import DataError, HarnessError, nearest
from longmemeval.pipeline.claims.schema import ClaimFile, ClaimSettings, Row, Source
from longmemeval.plugins import CLAIMS, Registry

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
    note: str
    source: Source
    settings: ClaimSettings | None
    """Settings to try it with; None if it cannot be tried, for the reason in `cannot`."""
    assumed: dict[str, str]
    deviations: tuple[str, ...]
    cannot: str

    @property
    def is_about_retrieval(self) -> bool:
        """True for a claim about what is found: no question is answered."""
        return bool(self.settings and self.settings.measure)


def all_claims() -> tuple[Claim, ...]:
    """Return every claim, this package's first, in the order of the files' names; broken plug-ins are left out.

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
        f"There is no claim '{identifier}'",
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
    except (OSError, UnreadableError) as error:
        raise DataError(f"Claims cannot be read: {error}", where=str(path)) from error
    except ValidationError as error:
        raise _invalid(error, ClaimFile, str(path)) from error
    if content.benchmark not in BENCHMARK_SPECS:
        fix = nearest(content.benchmark, BENCHMARK_SPECS.names())
        raise DataError(f"The claims are on no benchmark '{content.benchmark}'", where=str(path), fix=fix)
    ids = Counter(row.id for row in content.rows)
    if twice := [name for name, times in ids.items() if times > 1]:
        raise DataError(f"Two rows have the id '{twice[0]}'", where=str(path), fix="Rename one of them")
    return tuple(_claim(path, content, row) for row in content.rows)


def _claim(path: Path, content: ClaimFile, row: Row) -> Claim:
    where = f"{path}: row {row.id}"
    added = {"settings", "assumed", "deviations"}
    both = content.model_dump(exclude_none=True, exclude=added) | row.model_dump(exclude_none=True, exclude=added)
    if missing := [name for name in ("variant", "metric", "judge") if not both.get(name)]:
        raise DataError(f"The claim has no {missing[0]}", where=where, fix="Give it in the row or for the whole file")
    if row.value is None and not row.by_group:
        raise DataError("The claim has no value and no parts", where=where)
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
        note=row.note,
        source=content.source,
        settings=None if cannot else _settings({**content.settings, **row.settings}, where),
        assumed={**content.assumed, **row.assumed},
        deviations=(*content.deviations, *row.deviations),
        cannot=cannot,
    )


def _settings(fields: Mapping[str, Any], where: str) -> ClaimSettings:
    if not fields:
        fix = "Give `settings`, or `cannot` with the reason"
        raise DataError("The claim says neither how it is tried nor why it cannot be", where=where, fix=fix)
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
