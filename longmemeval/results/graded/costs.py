"""The cost of a run by kind of work: preparing, analysing the questions, answering, judging, and the total."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from longmemeval.core.text.figures import LEAST_DOLLARS, in_dollars
from longmemeval.embedding.registry import is_remote
from longmemeval.judges.people import is_imported
from longmemeval.measures.metrics import Metrics
from longmemeval.records import Answer, Usage, usage_of
from longmemeval.results.lines import current_answers
from longmemeval.results.manifest import RunManifest
from longmemeval.results.preparation.costs import prepare_usage
from longmemeval.results.settings import AnswerSettings
from longmemeval.results.totals import QUERY_EMBEDDINGS, QUERY_MODEL, AnalysisTotals, memory_calls


class Cost(Struct, frozen=True):
    """The cost of one kind of work. Cached calls are counted and cost nothing."""

    usd: float | None
    """US dollars; None unless they are known for every call."""
    known_usd: float = 0.0
    """Cost of the calls whose price is known: a lower bound."""
    calls: int | None = None
    """Number of calls; None where even that is unknown, like the fields below."""
    cached_calls: int | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    unpriced_calls: int | None = None
    """Number of calls without a known price: with any, the true cost is higher than `known_usd`."""

    @property
    def usage(self) -> Usage | None:
        """The calls that are known; None if none are."""
        if self.calls is None:
            return None
        tokens = self.prompt_tokens or 0, self.completion_tokens or 0
        return Usage(self.calls, self.cached_calls or 0, *tokens, self.known_usd, self.unpriced_calls or 0)

    @property
    def is_partly_known(self) -> bool:
        """True if all calls are known, but the price of some of them only."""
        return self.usd is None and bool(self.unpriced_calls) and self.known_usd > 0


class RunCosts(Struct, frozen=True):
    """The costs of a run as one judge graded it."""

    prepare: Cost
    """Cost of the fixture parts that the run reads: paid once, shared by all runs that read them."""
    question_analysis: Cost
    """Cost of a chat model's analysis of the questions, of their embedding, and of the memory's own model calls
    while it was searched."""
    answers: Cost
    """Cost of all calls of all questions, including answers that failed and were repeated."""
    judge: Cost
    """Cost of all calls of this judge on these answers."""
    total: Cost


def cost_of(usage: Usage | None) -> Cost:
    """Return the cost of model calls; for None, an unknown cost."""
    if usage is None:
        return Cost(None)
    calls, cached, prompt, completion, known, unpriced = structs.astuple(usage)
    return Cost(usage.dollars, known, calls, cached, prompt, completion, unpriced)


def run_costs(
    manifest: RunManifest, records: Sequence[Answer], metrics: Metrics | None, prepared_dir: Path
) -> RunCosts:
    """Return the costs of a run.

    Args:
        records: all lines of its answers.
        metrics: its scores by one judge; None: without judging.
        prepared_dir: folder of the preparations.
    """
    own = manifest.kind == "run"
    prepare = prepare_usage(manifest, prepared_dir)
    analysis = _question_usage(manifest, len(current_answers(records))) if own else None
    answers = usage_of(records) if own else None
    judge = Usage() if metrics is None else None if is_imported(metrics.judge) else metrics.usage
    return costs_of(prepare, analysis, answers, judge)


def costs_of(
    prepare: Usage | None, question_analysis: Usage | None, answers: Usage | None, judge: Usage | None
) -> RunCosts:
    """Return the costs of each kind of work and their sum; None means unknown."""
    prepared, analysed, answered, judged = map(cost_of, (prepare, question_analysis, answers, judge))
    return RunCosts(prepared, analysed, answered, judged, sum_costs([prepared, analysed, answered, judged]))


def sum_costs(parts: Sequence[Cost]) -> Cost:
    """Return the sum of the known costs; its dollars, and its calls without a price, are None unless all are known."""
    known = cost_of(sum((usage for cost in parts if (usage := cost.usage)), Usage()))
    whole = all(cost.unpriced_calls is not None for cost in parts)
    return known if whole else structs.replace(known, usd=None, unpriced_calls=None)


def cost_text(cost: Cost, share: float = 1.0) -> str:
    """Return a cost in US dollars, or `share` of it: `≥` if some calls have no known price, a dash if unknown."""
    if not cost.is_partly_known:
        return in_dollars(None if cost.usd is None else cost.usd * share)
    known = cost.known_usd * share
    return f"≥ {in_dollars(known)}" if known >= LEAST_DOLLARS else "> $0"


def _question_usage(manifest: RunManifest, answered: int) -> Usage | None:
    """Return the usage of analysing and embedding the questions; None if a session ended without recording it."""
    settings, totals, usage = manifest.settings, manifest.totals, Usage()
    if isinstance(settings, AnswerSettings) and settings.query_model:
        analyses = msgspec.convert(totals.get(QUERY_MODEL, {}), AnalysisTotals)
        if analyses.questions < answered:
            return None
        usage += analyses.usage
    if is_remote(settings.embedder_spec):
        if QUERY_EMBEDDINGS not in totals:
            return None
        usage += msgspec.convert(totals[QUERY_EMBEDDINGS], Usage)
    uncounted = any("service" in stats and "model_calls" not in stats for stats in settings.parts.values())
    return None if uncounted else usage + memory_calls(totals)
