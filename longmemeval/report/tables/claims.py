"""Show published figures as claims: the list, one claim line by line, and the document of `--json`."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

import msgspec

from longmemeval.core.tables.table import Column, Table, escape_markdown, markdown, tabulate
from longmemeval.core.text.figures import (
    UNKNOWN,
    bounds,
    count,
    count_of,
    in_dollars,
    in_percent,
    percent,
    span,
)
from longmemeval.pipeline.claims.catalogue import Claim, ClaimSettings, answering_cost
from longmemeval.pipeline.claims.field import FieldFigure, FieldProduct, field_summary, lower_ceilings
from longmemeval.pipeline.claims.state import State
from longmemeval.pipeline.claims.verdict import Attempt, ClaimFinding, ClaimVerdict, figures

_ClaimsRow = tuple[Claim, State]
_UNSHOWN = ("get", "prompt_tokens")


def claims_table(rows: Sequence[_ClaimsRow]) -> Table:
    """Return one row for each claim."""
    columns: list[Column[_ClaimsRow]] = [
        Column("id", lambda row: row[0].id, "text"),
        Column("system", lambda row: row[0].system, "prose", 1),
        Column("reader", lambda row: row[0].reader or None, "prose", 3),
        Column("claimed", lambda row: None if row[0].value is None else in_percent(row[0].value)),
        Column("n", lambda row: row[0].n),
        Column("metric", lambda row: row[0].metric, "prose", 4),
        Column("judge", lambda row: row[0].told_judge, "prose", 6),
        Column("source", lambda row: row[0].source.title, "prose", 5),
        Column("read", lambda row: f"{row[0].source.hand}-hand", "text", 2),
        Column("to try it", lambda row: row[1].label, "text"),
    ]
    return tabulate("", columns, rows)


FIELD_NOTES = (
    f"{UNKNOWN}: the source does not say. Intervals: 95%, from the number of questions (Wilson).",
    "Figures compare only with the same reader, judge and questions. We measured none of them.",
)


def field_tables(products: Sequence[FieldProduct], *, ids: bool = False) -> Iterator[Table]:
    """Yield a table for each dataset: the figures of each product, its maker's and those of others.

    Args:
        ids: show the ids of the claims too.
    """
    for dataset in dict.fromkeys(product.dataset for product in products):
        here = [product for product in products if product.dataset == dataset]
        rows = [(product, figure) for product in here for figure in product.figures]
        begins = [place for place, (product, _) in enumerate(rows) if place and product is not rows[place - 1][0]]
        columns: list[Column[tuple[FieldProduct, FieldFigure]]] = [
            Column("system", lambda row: row[1].claim.system, "prose"),
            Column("measured by", lambda row: _measurer(row[1].claim), "prose"),
            Column("figure, %", lambda row: _with_interval(row[1]), "text"),
            Column("n", lambda row: row[1].claim.n, drop=2),
            Column("context\ntokens", lambda row: row[1].claim.context_tokens, drop=1),
            Column("reader", lambda row: row[1].claim.reader or None, "prose", 3),
            Column("judge", lambda row: row[1].claim.told_judge, "prose", 4),
            Column("date", lambda row: row[1].claim.source.date or None, "text", 5),
            Column("warnings", lambda row: "; ".join(row[1].warnings), "prose"),
        ]
        if ids:
            columns.append(Column("claim", lambda row: row[1].claim.id, "text"))
        yield tabulate(f"{dataset}, {here[0].metric}", columns, rows, breaks=begins)


def field_markdown(products: Sequence[FieldProduct]) -> str:
    """Return the summary, the tables and the notes in Markdown."""
    parts = [escape_markdown(field_summary(products))]
    for table in field_tables(products, ids=True):
        parts += [f"## {escape_markdown(table.title)}", markdown(table.with_title(""))]
    return "\n\n".join([*parts, *map(escape_markdown, FIELD_NOTES)]) + "\n"


def field_document(product: FieldProduct) -> dict[str, Any]:
    """Return the figures of a product as `--json` prints them; what a source does not say is null."""
    names = ("id", "by", "system", "value", "metric", "n", "context_tokens", "by_group", "note")
    figures = [
        {name: getattr(figure.claim, name) for name in names}
        | {
            "reader": figure.claim.reader or None,
            "judge": figure.claim.told_judge,
            "interval": figure.interval,
            "warnings": figure.warnings,
            "source": figure.claim.source.model_dump(),
        }
        for figure in product.figures
    ]
    return {"dataset": product.dataset, "product": product.product, "gap": product.gap, "figures": figures}


def _measurer(claim: Claim) -> str:
    return "maker" if claim.by == "maker" else claim.source.title


def _with_interval(figure: FieldFigure) -> str:
    return in_percent(figure.claim.value) + (f" {bounds(figure.interval)}" if figure.interval else "")


def claim_lines(claim: Claim, state: State) -> Iterator[str | Table]:
    """Yield a claim line by line, the figure first."""
    yield claimed(claim)
    yield f"Source: {', '.join(filter(None, (claim.source.cited, claim.source.date, claim.source.url)))}."
    yield f"Data: {claim.variant}. Judge: {claim.told_judge or UNKNOWN}. Reader: {claim.reader or UNKNOWN}."
    if claim.context_tokens:
        yield f"The answering model was shown {count(claim.context_tokens)} tokens for a question."
    if claim.cautions:
        yield f"Warnings: {'; '.join(claim.cautions)}."
    if claim.note:
        yield f"The source's figure: {claim.note}."
    yield from ceiling_lines(claim)
    if claim.by_group:
        yield "Of which: " + ", ".join(f"{name} {in_percent(value)}" for name, value in claim.by_group.items()) + "."
    if claim.settings is not None:
        yield ""
        yield _pairs("As settings of this harness", "setting", "value", settings_shown(claim.settings))
    if claim.assumed:
        yield _pairs("Where the source says nothing", "what", "assumed", claim.assumed)
    yield from (f"Deviates: {line}." for line in claim.deviations)
    if (cost := answering_cost(claim)) is not None:
        dollars, tokens = span(cost.dollars, cost.work.dollars, in_dollars), cost.work.prompt_tokens or 0
        per_prompt = count(tokens / (cost.work.calls or 1))
        yield f"Cost of the answers: {dollars}, by prompts of {per_prompt} tokens; `claims try --dry-run` counts them."
    yield f"To try it: {state.cannot}" if state.cannot else f"To try it: {state.label}."
    yield from (f"  {need.fix}." for need in state.needs)


def ceiling_lines(claim: Claim) -> Iterator[str]:
    """Yield a sentence for each audit of the labels by which a perfect memory cannot reach the claimed figure."""
    for audit in lower_ceilings(claim):
        yield (
            f"Above the ceiling: by audit {audit.name}, a perfect memory graded by these labels can get "
            f"{percent(audit.ceiling)}. {audit.about}"
        )


def attempt_lines(done: Attempt) -> Iterator[str | Table]:
    """Yield the outcome of trying a claim: the verdict, then the verdicts on its groups, then every deviation."""
    text = done.verdict.text
    yield f"{text[0].upper()}{text[1:]}."
    yield figures(done.verdict)
    if done.groups:
        number, findings = len(done.groups), Counter(verdict.finding for verdict in done.groups.values())
        counts = ", ".join(f"{findings[name]:,} {name}" for name in get_args(ClaimFinding) if findings[name])
        corrected = f" (corrected for {number} comparisons)" if number > 1 else ""
        yield f"Of {count_of(number, 'group')} of questions: {counts}{corrected}."
        yield _groups(done.groups)
    if done.not_measured:
        yield f"Not measured, as no question here is of it: {', '.join(done.not_measured)}."
    yield from (f"Deviates: {line}." for line in done.deviations)
    yield from (f"Assumed: {line}." for line in done.assumed)
    yield f"Run: {done.run}."


def _groups(groups: Mapping[str, ClaimVerdict]) -> Table:
    columns: list[Column[tuple[str, ClaimVerdict]]] = [
        Column("group", lambda row: row[0], "text"),
        Column("claimed", lambda row: in_percent(row[1].claimed)),
        Column("measured", lambda row: f"{in_percent(row[1].measured.value)} {bounds(row[1].measured.interval)}"),
        Column("n", lambda row: row[1].measured.n),
        Column("verdict", lambda row: row[1].text, "prose"),
    ]
    return tabulate("", columns, groups.items())


def claimed(claim: Claim) -> str:
    """Return the claimed figure in a sentence."""
    figure = f"{claim.metric} of parts" if claim.by_group else "size of the context"
    figure = figure if claim.value is None else f"{percent(claim.value)} {claim.metric}"
    on = f"on {count_of(claim.n, 'question')}" if claim.n else "on a number of questions that is not given"
    return f"{claim.id}: {claim.system}{f', read by {claim.reader}' if claim.reader else ''}: {figure} {on}."


def settings_shown(settings: ClaimSettings) -> dict[str, str]:
    """Return the settings that a claim states, under the names of this harness's options."""
    shown: dict[str, str] = {}
    for name, value in settings.model_dump(exclude_defaults=True).items():
        if name in _UNSHOWN:
            continue
        if isinstance(value, dict):
            shown |= {key.replace("_", " "): _value(part) for key, part in value.items()}
        else:
            shown[name] = _value(value)
    return shown


def claims_document(claim: Claim, state: State) -> dict[str, Any]:
    """Return a claim as `--json` prints it."""
    plain: dict[str, Any] = msgspec.structs.asdict(claim)
    settings = claim.settings.model_dump(exclude_defaults=True) if claim.settings else None
    return plain | {
        "source": claim.source.model_dump(),
        "settings": settings,
        "state": state.label,
        "needs": [msgspec.structs.asdict(need) for need in state.needs],
        "cannot": state.cannot,
    }


def _value(value: object) -> str:
    return ", ".join(map(str, value)) or "none" if isinstance(value, list) else str(value)


def _pairs(title: str, first: str, second: str, pairs: Mapping[str, str]) -> Table:
    columns: list[Column[tuple[str, str]]] = [
        Column(first, lambda row: row[0], "prose"),
        Column(second, lambda row: row[1], "prose"),
    ]
    return tabulate(title, columns, pairs.items())
