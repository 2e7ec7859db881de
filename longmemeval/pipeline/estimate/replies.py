"""Measure the length and time of a model's replies in earlier runs."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from longmemeval.core.journal import read_journal
from longmemeval.errors import HarnessError
from longmemeval.pipeline.estimate.assumed import CALLS_ASSUMED, LABEL_ROOM, LABEL_TOKENS, REPLY_SHARE, call_seconds
from longmemeval.pipeline.estimate.calls import CallEstimate
from longmemeval.records import Answer, Judgement, sum_latencies
from longmemeval.results.lines import ANSWERS, judgements_file
from longmemeval.results.manifest import RunManifest, run_ids, stored_manifest
from longmemeval.results.settings import AnswerSettings


class ReplyStats(Struct, frozen=True):
    """The expected length and time of replies."""

    tokens: float
    seconds: float
    """Seconds from sending a request to its reply."""
    basis: str
    """The source of both figures."""


def expected_replies(results_dir: Path, model: str, method: str, longest: int) -> ReplyStats:
    """Return the figures of the latest run of the model with the same reading method; assumed ones if there is none.

    Args:
        method: the reading method.
        longest: tokens of the longest reply.
    """

    def fits(manifest: RunManifest) -> bool:
        settings = manifest.settings
        if not isinstance(settings, AnswerSettings) or not manifest.totals.get("answered"):
            return False
        return (settings.model.spec, settings.reading.method) == (model, method)

    for folder in _latest(results_dir, fits):
        answers = [answer for answer in read_journal(folder / ANSWERS, Answer) if answer.status == "ok"]
        if found := _measured(answers, f"run {folder.name}", longest):
            return found
    return _assumed(model, longest)


def expected_labels(results_dir: Path, judge_id: str, work: CallEstimate) -> ReplyStats:
    """Return the figures of the latest run that this judge has graded; assumed ones if there is none.

    Args:
        work: the judge's calls.
    """
    longest = _longest_of(work)
    for folder in _latest(results_dir, lambda _: True):
        path = judgements_file(folder, judge_id)
        if path.exists() and (found := _measured(read_journal(path, Judgement), f"run {folder.name}", longest)):
            return found
    return _assumed(work.model, longest, LABEL_TOKENS if longest <= LABEL_ROOM else None)


def assumed_replies(work: CallEstimate) -> ReplyStats:
    """Return assumed figures, for calls without any earlier run."""
    return _assumed(work.model, _longest_of(work))


def _longest_of(work: CallEstimate) -> int:
    """Return the tokens of the longest reply, averaged over the calls."""
    return (work.completion_tokens or 0) // (work.calls or 1)


def _assumed(model: str, longest: int, tokens: float | None = None) -> ReplyStats:
    length = f"replies of {REPLY_SHARE:.0%} of the longest" if tokens is None else f"{tokens:.0f} tokens"
    tokens = min(longest, REPLY_SHARE * longest if tokens is None else tokens)
    basis = f"assumed: no earlier run by {model}; {length}, {CALLS_ASSUMED}"
    return ReplyStats(tokens, call_seconds(tokens), basis)


def _latest(results_dir: Path, fits: Callable[[RunManifest], bool]) -> list[Path]:
    """Return the folders of the runs that fit, the newest first."""
    found: list[RunManifest] = []
    for run_id in run_ids(results_dir):
        with suppress(HarnessError):
            manifest = stored_manifest(results_dir / run_id)
            if fits(manifest):
                found.append(manifest)
    return [
        results_dir / manifest.run_id
        for manifest in sorted(found, key=lambda manifest: manifest.started_at, reverse=True)
    ]


def _measured(lines: Sequence[Answer] | Sequence[Judgement], basis: str, longest: int) -> ReplyStats | None:
    """Return the figures of the replies that were paid for; None if there are none."""
    paid = [line for line in lines if line.usage.calls > line.usage.cached_calls]
    calls = sum(line.usage.calls for line in paid)
    if not calls:
        return None
    tokens = sum(line.usage.completion_tokens for line in paid) / calls
    total_ms = sum_latencies(line.latency_ms for line in paid)
    # The time of calls by batch is not known.
    seconds = call_seconds(tokens) if total_ms is None else total_ms / calls / 1000
    return ReplyStats(min(tokens, longest), seconds, basis)
