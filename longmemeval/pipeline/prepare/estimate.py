"""Estimate a preparation: texts to embed, calls of chat models, their price, disk space and time."""

from collections.abc import Sequence

from msgspec import Struct, structs

from longmemeval.embedding.registry import priced_as
from longmemeval.llm.costs.prices import price
from longmemeval.llm.tokens import CharacterCounter
from longmemeval.pipeline.estimate.assumed import CALLS_ASSUMED, call_seconds
from longmemeval.pipeline.estimate.calls import CallEstimate
from longmemeval.pipeline.estimate.replies import ReplyStats
from longmemeval.pipeline.estimate.stages import Pace, StageEstimate, stage
from longmemeval.pipeline.prepare.disk import DiskEstimate, DiskNeed, free_bytes
from longmemeval.pipeline.prepare.plan import Pending, PreparePlan
from longmemeval.pipeline.prepare.recorded import Messages, external_calls
from longmemeval.pipeline.prepare.timing import (
    Duration,
    Work,
    clocks,
    embedding_calls,
    embedding_rate,
    preparing_takes,
    workers_of,
)
from longmemeval.storage.fixture import Fixture
from longmemeval.storage.parts import Expected, PartInput


class PrepareEstimate(Struct, frozen=True):
    """The estimate of a preparation."""

    figures: dict[str, float]
    """Figures by name, in the order they are shown. Tokens are characters / 4; prices are included if known."""
    stages: tuple[StageEstimate, ...]
    """Embedding, and the calls of chat models, part by part."""
    need: DiskNeed
    expected: Duration
    notes: tuple[str, ...]
    """The sources of the figures of memories that call models themselves."""


def survey(plan: PreparePlan, pending: Sequence[Pending]) -> Work:
    """Count the work, one haystack in memory at a time.

    The texts of parts that depend on parts not made yet are unknown: their haystacks are counted.

    Args:
        pending: the fixtures to make or complete.
    """
    began = clocks()
    counter = CharacterCounter()
    embedder, options = plan.embedder, plan.tools.options
    disk = DiskEstimate(len(pending), plan.tools, plan.dimension)
    seen = set[int]()
    messages = Messages()
    new = tokens = unknown = size = 0
    expected, part_figures = dict[tuple[str, str], Expected](), dict[str, float]()
    reading = began - began
    for fixture in pending:
        opened = clocks()
        haystack = plan.haystack(fixture.haystack_id)
        reading += clocks() - opened
        source = PartInput(haystack, Fixture(fixture.folder, fixture.meta) if fixture.meta else None)
        messages[tuple(planned.part.name for planned in fixture.missing)] += len(source.messages)
        embedded = [planned.part for planned in fixture.missing if planned.part.embeds]
        size += source.characters
        if embedded and embedder and not embedder.is_light:
            size += 4 * plan.dimension * len(source.messages)
        known = [part for part in embedded if all(map(source.holds, part.needs))]
        # Texts are identified by a hash of 64 bits: those of a large data set would not fit into memory.
        texts = {hash(text): text for part in known for text in part.texts(source.seen_by(part), options)}
        first = [text for key, text in texts.items() if key not in seen]
        seen.update(texts)
        missing = embedder.missing(first) if embedder else []
        new += len(missing)
        tokens += sum(map(counter.count, missing))
        unknown += len(known) < len(embedded)
        for part in (planned.part for planned in fixture.missing):
            found = part.expected(source.seen_by(part), options)
            if found:
                key = found.title, found.model
                expected[key] = _together(expected[key], found) if key in expected else found
                part_figures |= {name: part_figures.get(name, 0) + value for name, value in found.figures.items()}
        disk.add(source, fixture, len(plan.question_ids[fixture.haystack_id]))
    figures: dict[str, float] = {"messages": messages.total()}
    if embedder:
        figures |= {"distinct texts": len(seen), "texts not in the cache": new, "tokens to embed": tokens}
    if unknown:
        figures["haystacks with texts to embed that are not made yet"] = unknown
    figures |= part_figures
    need = disk.need(new, sum(estimate.calls for estimate in expected.values()))
    return Work(figures, expected, need, messages, size, new, tokens, reading, clocks() - began)


def estimate_prepare(plan: PreparePlan, pending: Sequence[Pending]) -> PrepareEstimate:
    """Estimate a preparation stage by stage.

    Args:
        pending: the fixtures to make or complete.
    """
    work = survey(plan, pending)
    workers = workers_of(plan.options, [planned.part for planned in plan.parts], len(pending), work.size)
    pace = Pace(plan.options.rates, workers)
    embedding, figures = _embedding(plan, work), dict(work.figures)
    if embedding:
        figures |= _known({"embedding, USD": embedding[0].dollars})
    own = [_calls(expected, pace) for expected in work.expected.values()]
    for calls in own:
        tokens = {"reply tokens (about)": calls.reply_tokens, "reply tokens at most": calls.work.completion_tokens}
        dollars = {"USD (about)": calls.dollars, "USD at most": calls.work.dollars}
        figures |= _known({f"{calls.name}, {what}": value for what, value in (tokens | dollars).items()})
    need = work.need
    figures |= {"disk for fixtures, MB": need.fixtures / 1e6, "disk for the caches, MB": need.cache / 1e6}
    figures["free on that disk, MB"] = free_bytes(plan.root) / 1e6
    others, their_figures, notes = external_calls(plan, pending, work.messages)
    return PrepareEstimate(
        figures=figures | their_figures,
        stages=(*embedding, *own, *others),
        need=need,
        expected=preparing_takes(plan, pending, work, embedding, own, workers),
        notes=notes,
    )


def _together(first: Expected, other: Expected) -> Expected:
    """Return the sum of the expected calls of two haystacks."""
    return structs.replace(
        first,
        calls=first.calls + other.calls,
        prompt_tokens=first.prompt_tokens + other.prompt_tokens,
        completion_tokens=first.completion_tokens + other.completion_tokens,
        figures={
            name: first.figures.get(name, 0) + other.figures.get(name, 0) for name in first.figures | other.figures
        },
        most_completion_tokens=_most(first) + _most(other),
    )


def _most(expected: Expected) -> int:
    return max(expected.completion_tokens, expected.most_completion_tokens)


def _calls(expected: Expected, pace: Pace) -> StageEstimate:
    """Return the stage of the calls that a part expects to make."""
    prompt, most = expected.prompt_tokens, _most(expected)
    mean_tokens = expected.completion_tokens / (expected.calls or 1)
    work = CallEstimate(
        model=expected.model,
        calls=expected.calls,
        prompt_tokens=prompt,
        completion_tokens=most,
        dollars=price(expected.model, prompt, most),
        basis="four characters to a token",
        least_prompt_tokens=prompt,
        most_prompt_tokens=prompt,
    )
    replies = ReplyStats(mean_tokens, call_seconds(mean_tokens), f"assumed: {mean_tokens:,.0f} tokens, {CALLS_ASSUMED}")
    return stage(expected.title, work, replies, pace)


def _embedding(plan: PreparePlan, work: Work) -> list[StageEstimate]:
    """Return the stage of embedding texts on a server; none if no server is called and nothing is paid."""
    if plan.embedder is None or not (plan.embedder.is_metered or priced_as(plan.embedder.spec)):
        return []
    spec, tokens, number = plan.embedder.spec, work.embedding_tokens, embedding_calls(work)
    name, rate = priced_as(spec), embedding_rate(plan)
    dollars = price(name, tokens) if name else None
    calls = CallEstimate(spec, number, tokens, 0, dollars, "texts not in the cache", tokens, tokens)
    # Calls are made one after the other.
    seconds = max(number * rate.seconds, plan.options.rates.of(spec).seconds(number, tokens))
    return [StageEstimate("embedding", calls, 0, dollars, seconds, rate.basis)]


def _known(figures: dict[str, float | None]) -> dict[str, float]:
    return {name: value for name, value in figures.items() if value is not None}
