"""Estimate the time of a preparation: from earlier records of the same parts, else by a stated assumption."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from longmemeval.core.executors.local import MADE_BYTES, runs_serially
from longmemeval.core.files import safe_name
from longmemeval.core.journal import read_journal
from longmemeval.core.part_options import PartOptions
from longmemeval.core.text.figures import count_of
from longmemeval.embedding.remote import MAX_BATCH_CHARACTERS
from longmemeval.errors import HarnessError
from longmemeval.pipeline.estimate.stages import (
    CALL_S,
    CALLS_ASSUMED,
    LEAST,
    MESSAGE_S,
    MOST,
    START_S,
    TEXT_S,
    Calls,
    Replies,
    Stage,
)
from longmemeval.pipeline.options import PrepareOptions
from longmemeval.pipeline.prepare.disk import DiskNeed
from longmemeval.pipeline.prepare.plan import Pending, PreparePlan
from longmemeval.pipeline.prepare.recipes import PlannedPart
from longmemeval.records import Usage
from longmemeval.results.preparation import PREPARE_JOURNAL, PrepareRecord
from longmemeval.storage.fixture import read_meta
from longmemeval.storage.parts import Expected, Part

# Read the records of earlier preparations: the time of their parts, and the calls of external memories.

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


_RANGE = f"{LEAST:.1f} to {MOST:.0f} times as much"

Clocks = NDArray[np.float64]
"""Seconds of wall-clock time and of this process's CPU time, which other load on the machine does not change."""


def clocks() -> Clocks:
    """Read wall-clock and processor time."""
    return np.array([time.perf_counter(), time.process_time()])


class Work(Struct, frozen=True):
    """The work of a preparation, counted from the haystacks alone."""

    figures: dict[str, float]
    """Figures to show, by name."""
    expected: dict[tuple[str, str], Expected]
    """The calls of chat models, by purpose and model."""
    need: DiskNeed
    messages: Messages
    """Message counts, by the parts that are made together."""
    size: int
    """Bytes of the texts, and of the vectors if workers receive them ready-made."""
    texts: int
    """Texts to embed, as far as known."""
    embedding_tokens: int
    reading: Clocks
    """The time of reading all haystacks once."""
    counting: Clocks
    """The time of counting all this, including reading: `prepare` counts first, too."""


class Duration(Struct, frozen=True):
    """The time of a preparation and its basis."""

    seconds: float | None
    """Wall-clock seconds; None: some part depends on an external memory that has not prepared any history yet."""
    processor_s: float
    """CPU seconds in all processes together, embeddings by a local model included."""
    basis: str
    least_seconds: float | None = None
    """The lower end of the range, which is `seconds` if everything is recorded, and wider if something is assumed."""
    most_seconds: float | None = None


class _Making:
    """The time of making parts, by one worker.

    Args:
        work: the work to do.
    """

    def __init__(self, plan: PreparePlan, work: Work) -> None:
        self.recorded, self.assumed = np.zeros(2), np.zeros(2)
        self.asks = False
        """True if chat models are called for parts whose time is not recorded."""
        self.unknown: list[str] = []
        """External memories that have not prepared any history yet."""
        self.bases: dict[str, None] = {}
        records_of = cache(fixture_records)
        for names, messages in work.messages.items():
            for group in plan.stages():
                parts = [planned for planned in group if planned.part.name in names]
                if found := records_alike(plan, parts, records_of):
                    self._add_recorded(*found, messages)
                else:
                    self._assume(parts, plan, messages)

    def _add_recorded(self, records: Sequence[PrepareRecord], source: str, messages: int) -> None:
        counted = sum(record.messages for record in records)
        measured = np.array([(record.seconds, record.processor_s) for record in records]).sum(axis=0)
        self.recorded += measured * messages / counted
        self.bases[f"as {source} took, {counted:,} messages"] = None

    def _assume(self, parts: Sequence[PlannedPart], plan: PreparePlan, messages: int) -> None:
        asking = [planned.part.name for planned in parts if not computes_alone([planned.part], plan.tools.options)]
        self.asks = self.asks or bool(asking)
        self.unknown += [planned.part.name for planned in parts if planned.part.directory]
        if len(parts) > len(asking):
            self.assumed += MESSAGE_S * messages * (len(parts) - len(asking))
            self.bases[f"assumed {MESSAGE_S * 1000:g} ms for a part of a message, {_RANGE}"] = None


def preparing_takes(
    plan: PreparePlan,
    pending: Sequence[Pending],
    work: Work,
    embedding: Sequence[Stage],
    asking: Sequence[Stage],
    workers: int,
) -> Duration:
    """Estimate the time from reading the data to the last fixture, at the given workers and limits.

    Args:
        pending: the fixtures to make or complete.
        embedding: the calls of an embedding server.
        asking: the calls of chat models.
        workers: number of workers.
    """
    if not pending:
        return Duration(0.0, 0.0, "nothing to do", 0.0, 0.0)
    making = _Making(plan, work)
    embedded, embedded_here = sum(stage.seconds or 0.0 for stage in embedding), 0.0
    bases = list(making.bases)
    if embedding and work.texts:
        bases.append(embedding[0].replies)
    elif plan.embedder and not plan.embedder.is_light and work.texts:
        rate = embedding_rate(plan)
        embedded_here = work.texts * rate.seconds
        bases.append(rate.basis)
    waiting = sum(stage.seconds or 0.0 for stage in asking) if making.asks else 0.0
    if waiting:
        bases.append(f"assumed {CALLS_ASSUMED} for a call of a chat model")
    if making.unknown:
        bases.append(f"nothing is known of {', '.join(dict.fromkeys(making.unknown))}")

    def seconds(share: float) -> float | None:
        """Return the time if the assumed durations are scaled by `share`."""
        if making.unknown:
            return None
        by_workers = (making.recorded + share * making.assumed)[0] / workers + (START_S if workers > 1 else 0.0)
        beside = embedded + share * embedded_here + work.reading[0]
        together = max(by_workers, beside) if workers > 1 else by_workers + beside
        return float(max(work.counting[0] + together + waiting, _at_limits(plan, [*embedding, *asking])))

    computed = (making.recorded + making.assumed + work.counting + work.reading)[1] + embedded_here
    basis = f"{count_of(workers, 'worker')}; {'; '.join(bases)}"
    return Duration(seconds(1.0), float(computed), basis, seconds(LEAST), seconds(MOST))


def executor_of(options: PrepareOptions, parts: Sequence[Part[Any]], haystacks: int) -> tuple[str | None, int | None]:
    """Return executor and number of workers: threads if making a part mostly waits for a shared service.

    Args:
        options: the user's choice comes first.
        parts: the parts to make.
        haystacks: number of haystacks.
    """
    if options.jobs is None and options.executor is None and haystacks > 1:
        together = max((most for part in parts if (most := part.at_once(options))), default=1)
        if together > 1:
            return "threads", min(haystacks, together)
    return options.executor, options.jobs


def computes_alone(parts: Sequence[Part[Any]], options: PartOptions) -> bool:
    """Return whether making the parts takes CPU time in proportion to their texts, without a model or program."""
    return not any(part.models(options) or part.exposes_models or part.directory for part in parts)


def workers_of(options: PrepareOptions, parts: Sequence[Part[Any]], haystacks: int, size: int) -> int:
    """Return how many workers make this many haystacks.

    Args:
        options: the user's choice comes first.
        parts: the parts to make.
        haystacks: number of haystacks.
        size: bytes of their texts and vectors.
    """
    name, jobs = executor_of(options, parts, haystacks)
    if runs_serially(name, jobs, haystacks, [size], MADE_BYTES if computes_alone(parts, options) else 0):
        return 1
    from loky import cpu_count

    return max(1, min(jobs or int(cpu_count()), haystacks))


def embedding_calls(work: Work, most_texts: int) -> int:
    """Return the calls for these texts by the limits on texts and characters per call, at four characters per token."""
    return ceil(max(work.texts / most_texts, 4 * work.embedding_tokens / MAX_BATCH_CHARACTERS))


def embedding_rate(plan: PreparePlan) -> Replies:
    """Return the time per call of the embedder's server, or per text of its model, as in this preparation so far."""
    spec, metered = (plan.embedder.spec, plan.embedder.is_metered) if plan.embedder else ("", False)
    journal = read_journal(plan.root / PREPARE_JOURNAL, PrepareRecord)
    records = [record for record in journal if record.work == "embeddings"]
    calls = sum(record.usage.calls - record.usage.cached_calls if metered else record.embedded for record in records)
    total_seconds, what = sum(record.seconds for record in records), f"a {'call' if metered else 'text'} of {spec}"
    if calls:
        return Replies(0, total_seconds / calls, f"{total_seconds / calls:.2g} s, as before, for {what}")
    rate = CALL_S if metered else TEXT_S
    return Replies(0, rate, f"assumed {rate:g} s for {what}" + ("" if metered else ", a third to three times as much"))


def _at_limits(plan: PreparePlan, stages: Sequence[Stage]) -> float:
    """Return the seconds that the limits of providers require."""
    calls, tokens = Counter[str](), Counter[str]()
    for stage in stages:
        calls[stage.work.model] += stage.work.calls or 0
        tokens[stage.work.model] += (stage.work.prompt_tokens or 0) + (stage.reply_tokens or 0)
    rates = plan.options.model_options.rates
    return max((rates.of(model).seconds(calls[model], tokens[model]) for model in calls), default=0.0)
