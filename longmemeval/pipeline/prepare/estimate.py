"""Estimate a preparation: texts to embed, calls of chat models, their price, disk space and time."""

from collections.abc import Sequence

from msgspec import Struct, structs

from longmemeval.core.text.figures import count_of
from longmemeval.embedding.registry import priced_as
from longmemeval.llm.costs import price
from longmemeval.llm.tokens import CharacterCounter
from longmemeval.pipeline.estimate.stages import CALLS_ASSUMED, Calls, Pace, Replies, Stage, call_seconds, stage
from longmemeval.pipeline.prepare.disk import DiskEstimate, free_bytes, no_room
from longmemeval.pipeline.prepare.plan import Pending, PreparePlan
from longmemeval.pipeline.prepare.timing import (
    Duration,
    Messages,
    Work,
    clocks,
    embedding_calls,
    embedding_rate,
    external_calls,
    preparing_takes,
    workers_of,
)
from longmemeval.records import Usage
from longmemeval.storage.fixture import Fixture
from longmemeval.storage.parts import Expected, PartInput


class PrepareReport(Struct, frozen=True):
    """The report of `prepare`, or with `dry_run` its estimate."""

    preparation: str
    folder: str
    haystacks: int
    parts: tuple[str, ...]
    embedder: str = ""
    """The embedder's spec; empty if nothing is embedded."""
    index: str = ""
    """The kind of search index, `hnsw` or `exact`; empty if none was chosen and the memories need none."""
    prepared: int = 0
    """Fixtures made or completed."""
    already: int = 0
    messages: int = 0
    embeddings_computed: int = 0
    embeddings_cached: int = 0
    embeddings_damaged: int = 0
    """Vectors of the cache whose checksum was wrong; computed again."""
    usage: Usage = Usage()
    recovered: Usage = Usage()
    """The usage that an earlier command had paid for but was stopped before recording; recorded now."""
    notes: tuple[str, ...] = ()
    dropped: dict[str, dict[str, int]] = {}
    """The number of dropped items in models' replies, by part and reason."""
    failed: tuple[str, ...] = ()
    """Haystacks with a part that could not be made, and why. Their questions count as unanswered."""
    failed_haystacks: int = 0
    """The number of failed haystacks; they are included in `prepared`."""
    seconds: float = 0.0
    dry_run: bool = False
    estimate: dict[str, float] = {}
    """With `dry_run`: the estimated figures by name; see `estimate`."""
    stages: tuple[Stage, ...] = ()
    """With `dry_run`: embedding and the calls of chat models, part by part."""
    expected: Duration | None = None
    """With `dry_run`: the expected time."""


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
        stored = Fixture(fixture.folder, fixture.meta, patience=plan.patience) if fixture.meta else None
        source = PartInput(haystack, stored)
        messages[tuple(planned.part.name for planned in fixture.missing)] += len(source.messages)
        embedded = [planned.part for planned in fixture.missing if planned.part.embeds]
        size += source.characters
        if embedded and embedder and not embedder.is_light:
            size += 4 * plan.dimension * len(source.messages)
        known = [part for part in embedded if all(map(source.holds, part.needs))]
        # Texts are identified by a hash of 64 bits: those of a large dataset would not fit into memory.
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
    cached = 0 if embedder and embedder.is_light else new
    need = disk.need(cached, sum(estimate.calls for estimate in expected.values()))
    return Work(figures, expected, need, messages, size, new, tokens, reading, clocks() - began)


def estimate_prepare(
    report: PrepareReport, plan: PreparePlan, pending: Sequence[Pending], measured: PrepareReport | None = None
) -> PrepareReport:
    """Return the report of a dry run, estimated stage by stage.

    Args:
        report: the report so far.
        pending: the fixtures to make or complete.
        measured: the report on the first histories, if some were prepared to measure them.
    """
    work = survey(plan, pending)
    workers = workers_of(plan.options, [planned.part for planned in plan.parts], len(pending), work.size)
    pace = Pace(plan.options.model_options.rates, workers)
    embedding, own = _embedding(plan, work), [_calls(expected, pace) for expected in work.expected.values()]
    others, their_figures, notes = external_calls(plan, pending, work.messages)
    refusal = no_room(work.need, plan.root)
    histories = count_of(measured.prepared, "history", "histories") if measured else ""
    return structs.replace(
        report,
        dry_run=True,
        usage=measured.usage if measured else Usage(),
        failed=measured.failed if measured else (),
        estimate=_figures(plan, work, embedding, own) | their_figures,
        stages=(*embedding, *own, *others),
        expected=preparing_takes(plan, pending, work, embedding, own, workers),
        notes=(
            *report.notes,
            *([f"--measure prepared {histories}, which stay prepared"] if measured else []),
            *notes,
            *((f"prepare would refuse. {refusal.what}",) if refusal else ()),
        ),
    )


def _figures(plan: PreparePlan, work: Work, embedding: Sequence[Stage], own: Sequence[Stage]) -> dict[str, float]:
    """Return figures by name, in the order they are shown. Tokens are characters / 4; prices are included if known."""
    figures = dict(work.figures)
    if embedding:
        figures |= _known({"embedding, USD": embedding[0].dollars})
    for calls in own:
        tokens = {"reply tokens (about)": calls.reply_tokens, "reply tokens at most": calls.work.completion_tokens}
        dollars = {"USD (about)": calls.dollars, "USD at most": calls.work.dollars}
        figures |= _known({f"{calls.name}, {what}": value for what, value in (tokens | dollars).items()})
    figures |= {"disk for fixtures, MB": work.need.fixtures / 1e6, "disk for the caches, MB": work.need.cache / 1e6}
    return figures | {"free on that disk, MB": free_bytes(plan.root) / 1e6}


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


def _calls(expected: Expected, pace: Pace) -> Stage:
    """Return the stage of the calls that a part expects to make."""
    prompt, most = expected.prompt_tokens, _most(expected)
    mean_tokens = expected.completion_tokens / (expected.calls or 1)
    work = Calls(
        model=expected.model,
        calls=expected.calls,
        prompt_tokens=prompt,
        completion_tokens=most,
        dollars=price(expected.model, prompt, most),
        basis="four characters to a token",
        least_prompt_tokens=prompt,
        most_prompt_tokens=prompt,
    )
    replies = Replies(mean_tokens, call_seconds(mean_tokens), f"assumed: {mean_tokens:,.0f} tokens, {CALLS_ASSUMED}")
    return stage(expected.title, work, replies, pace)


def _embedding(plan: PreparePlan, work: Work) -> list[Stage]:
    """Return the stage of embedding texts on a server; none if no server is called and nothing is paid."""
    if plan.embedder is None or not (plan.embedder.is_metered or priced_as(plan.embedder.spec)):
        return []
    spec, tokens = plan.embedder.spec, work.embedding_tokens
    number = embedding_calls(work, plan.options.model_options.embed_batch)
    name, rate = priced_as(spec), embedding_rate(plan)
    dollars = price(name, tokens) if name else None
    calls = Calls(spec, number, tokens, 0, dollars, "texts not in the cache", tokens, tokens)
    # Calls are made one after the other.
    seconds = max(number * rate.seconds, plan.options.model_options.rates.of(spec).seconds(number, tokens))
    return [Stage("embedding", calls, 0, dollars, seconds, rate.basis)]


def _known(figures: dict[str, float | None]) -> dict[str, float]:
    return {name: value for name, value in figures.items() if value is not None}
