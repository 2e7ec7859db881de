"""Read the records of earlier preparations: the time of their parts, and the calls of external memories."""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from longmemeval.core.files import safe_name
from longmemeval.core.journal import read_journal
from longmemeval.core.text.figures import count_of
from longmemeval.errors import HarnessError
from longmemeval.pipeline.estimate.stages import Calls, Stage
from longmemeval.pipeline.prepare.plan import Pending, PreparePlan
from longmemeval.pipeline.prepare.recipes import PlannedPart
from longmemeval.records import Usage
from longmemeval.results.preparation import PREPARE_JOURNAL, PrepareRecord
from longmemeval.storage.fixture import read_meta

Messages = Counter[tuple[str, ...]]
"""The number of messages, by the parts that haystacks lack."""

_ONE_LOW, _ONE_HIGH = 0.5, 2.0
"""The range assumed around the figures of a single history, which cannot show how histories vary."""
_FIGURES = {
    "calls": "calls",
    "prompt tokens": "prompt_tokens",
    "reply tokens": "completion_tokens",
    "USD": "cost_usd",
}


def records_alike(
    plan: PreparePlan,
    parts: Sequence[PlannedPart],
    records_of: Callable[[Path], Sequence[PrepareRecord]],
    *,
    alone: bool = True,
) -> tuple[list[PrepareRecord], str] | None:
    """Return the records of the latest preparation that made these parts by the same recipes, and its name.

    Args:
        plan: the plan, whose own preparation comes first.
        records_of: reads the records of a journal; see `fixture_records`.
        alone: True if only records without other parts count.
    """
    names = {planned.part.name for planned in parts}
    journals = sorted(
        plan.root.parent.parent.glob(f"*/*/{PREPARE_JOURNAL}"), key=lambda journal: -journal.stat().st_mtime
    )
    for journal in sorted(journals, key=lambda journal: journal.parent != plan.root):
        with suppress(HarnessError):
            records = [
                record
                for record in records_of(journal)
                if record.messages and (names == set(record.parts) if alone else names <= set(record.parts))
            ]
            if records and _is_made_alike(journal.parent, records[-1], parts):
                return records, f"{journal.parent.parent.name}/{journal.parent.name}"
    return None


def fixture_records(journal: Path) -> list[PrepareRecord]:
    """Return the records of fixtures that were fully made, without failures or cached calls."""
    records = read_journal(journal, PrepareRecord)
    return [
        record for record in records if record.work == "fixture" and not record.failed and not record.usage.cached_calls
    ]


def _is_made_alike(root: Path, record: PrepareRecord, parts: Sequence[PlannedPart]) -> bool:
    meta = read_meta(root / safe_name(record.haystack_id))
    if meta is None:
        return False
    for planned in parts:
        info = planned.part.info(meta)
        if info is None or planned.part.comparable_recipe(info.recipe) != planned.part.comparable_recipe(
            planned.recipe
        ):
            return False
    return True


def external_calls(
    plan: PreparePlan, pending: Sequence[Pending], messages: Messages
) -> tuple[list[Stage], dict[str, float], tuple[str, ...]]:
    """Scale the calls that external memories made for earlier histories, by message, to those that are pending.

    Args:
        pending: the fixtures to make or complete.
        messages: message counts by the parts that haystacks lack.

    Returns:
        A stage for each memory with records; its figures by name: expected, least and most; and the sources, which say
        for a memory without records how to get one.
    """
    stages, figures, notes = list[Stage](), dict[str, float](), list[str]()
    records_of = cache(fixture_records)
    missing = {planned.part.name: planned for fixture in pending for planned in fixture.missing}
    for name, planned in missing.items():
        models = planned.part.models(plan.tools.options)
        if not planned.part.exposes_models or not models:
            continue
        if found := records_alike(plan, [planned], records_of, alone=False):
            records, source = found
            scaled = _scaled(name, records, sum(number for names, number in messages.items() if name in names))
            histories = count_of(len({record.haystack_id for record in records}), "history", "histories")
            varies = ", half to twice what it took" if len(records) == 1 else ", from the least to the most per message"
            stages.append(_stage(name, models[0], scaled, f"{histories} ({source})"))
            figures |= {
                f"{name}, {title} ({bound})": amount
                for title, amounts in scaled.items()
                for bound, amount in zip(("about", "at least", "at most"), amounts, strict=True)
            }
            notes.append(f"{name}: calls as counted for {histories}{varies} ({source})")
        else:
            notes.append(f"{name}: its model calls are unknown. Add --measure 1: one history is prepared, and counted")
    return stages, figures, tuple(notes)


def _scaled(name: str, records: Sequence[PrepareRecord], total: int) -> dict[str, tuple[float, float, float]]:
    """Return figures for `total` messages: about, at least and at most; US dollars only if all calls have a price."""
    spent = [(record.usage_by_part.get(name, Usage()), record.messages) for record in records]
    unpriced = any(usage.unpriced_calls for usage, _ in spent)
    found = {}
    for title, field in _FIGURES.items():
        rates = [getattr(usage, field) / count for usage, count in spent]
        about = sum(getattr(usage, field) for usage, _ in spent) / sum(count for _, count in spent)
        low, high = (min(rates), max(rates)) if len(rates) > 1 else (_ONE_LOW * about, _ONE_HIGH * about)
        amounts = about * total, low * total, high * total
        if title != "USD":
            found[title] = round(amounts[0]), round(amounts[1]), round(amounts[2])
        elif not unpriced:
            found[title] = amounts
    return found


def _stage(name: str, model: str, scaled: dict[str, tuple[float, float, float]], basis: str) -> Stage:
    calls, (about, least, most), (about_tokens, _, longest) = (
        tuple(map(round, scaled[title])) for title in ("calls", "prompt tokens", "reply tokens")
    )
    dollars, _, most_dollars = scaled.get("USD", (None, None, None))
    work = Calls(model, calls[0], about, longest, most_dollars, basis, least, most)
    return Stage(name, work, about_tokens, dollars, replies=f"as counted for {basis}")
