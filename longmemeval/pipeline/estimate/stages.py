"""The stages of a command before it is paid for: calls, tokens, dollars and seconds, from the expected to the most.

A stage is the calls of one kind. Its prompts are made and counted, for a sample if there are many; how long replies are
and take is as in earlier runs, or assumed.
"""

from collections.abc import Callable, Sequence, Sized
from contextlib import suppress
from math import sqrt
from pathlib import Path
from statistics import variance

from msgspec import Struct, structs

from longmemeval.core.files import sha256_text
from longmemeval.core.journal import read_journal
from longmemeval.core.text.figures import count, count_of, in_dollars, span
from longmemeval.errors import FatalModelError, HarnessError
from longmemeval.llm.costs import batch_price, price
from longmemeval.llm.options import is_offline
from longmemeval.llm.rates import RateLimits
from longmemeval.llm.registry import check_batches
from longmemeval.llm.tokens import Call
from longmemeval.records import Answer, Judgement, Question, sum_latencies
from longmemeval.results.lines import ANSWERS, judgements_file
from longmemeval.results.manifest import RunManifest, run_ids, stored_manifest
from longmemeval.results.settings import AnswerSettings

# Assumptions of estimates if earlier work has recorded nothing: these figures are here and nowhere else.

SAMPLED = 20
"""Number of questions whose prompts are made; the others are assumed to be like them."""
REPLY_SHARE = 0.2
"""Length of an expected reply as a share of the longest."""
LABEL_TOKENS, LABEL_ROOM = 3, 20
"""Tokens of a judge's label, usually yes or no, and the reply limit up to which they are assumed."""
CALL_S, TOKENS_PER_SECOND = 1.0, 50.0
"""Seconds of any call, and tokens of its reply per second."""
BATCH_S = 86_400.0
"""Seconds within which providers answer a batch."""
MESSAGE_S = 0.0001
"""Seconds of processor time to make one part of one message: 0.02 to 0.2 ms in the built-in memories."""
TEXT_S = 0.02
"""Seconds to embed a text with a model on this machine."""
START_S = 2.0
"""Seconds until worker processes have started."""
LEAST, MOST = 1 / 3, 3.0
"""The range of an assumed time, as shares of it."""
TOKEN_BYTES, ANSWER_BYTES = 4.5, 1500
"""Bytes of a stored prompt's token, and of an answer's line."""


def call_seconds(tokens: float) -> float:
    """Return the assumed seconds of a call with a reply of `tokens` tokens."""
    return CALL_S + tokens / TOKENS_PER_SECOND


CALLS_ASSUMED = f"{CALL_S:.0f} s and {TOKENS_PER_SECOND:.0f} tokens a second"
"""The assumption of `call_seconds` in words."""


class Calls(Struct, frozen=True):
    """The estimated calls of one model."""

    model: str
    calls: int | None
    """Number of calls; None, like tokens and dollars: not known yet."""
    prompt_tokens: int | None
    completion_tokens: int | None
    """Tokens if every reply had the maximum length."""
    dollars: float | None
    """Maximum cost, with replies of that length and prompts at the upper end; None: the price is not known either."""
    basis: str
    """The source of the figures."""
    least_prompt_tokens: int = 0
    """The ends of the range of `prompt_tokens`: a 95% CI if they were estimated from some of the questions.

    A range that the datasets (`bounded`) has its upper end as `prompt_tokens`.
    """
    most_prompt_tokens: int = 0
    counted: int = 0
    """Questions whose prompts were made and counted; the others are assumed to be like them."""
    too_long: int = 0
    """Those of `counted` that would fail, since a prompt exceeds the model's context window."""
    bounded: bool = False
    """True if the prompts depend on fixtures that do not exist: the range is from no message to the whole history."""


class Stage(Struct, frozen=True):
    """The calls of one kind; None means unknown."""

    name: str
    work: Calls
    """The upper end of the range: replies of maximum length."""
    reply_tokens: int | None = None
    """Tokens of expected replies: the lower end of the range, like `dollars`."""
    dollars: float | None = None
    seconds: float | None = None
    """Duration at the given concurrency and limits, with expected replies; by batch, the maximum."""
    replies: str = ""
    """The source of the expected length and time of replies."""
    by_batch: bool = False


class Pace(Struct, frozen=True):
    """The rate and concurrency of calls."""

    rates: RateLimits
    """The limits of providers."""
    concurrency: int
    """Calls in flight at one time."""
    batch: bool = False
    """True if calls go by batch, if the model has batches."""


class Replies(Struct, frozen=True):
    """The expected length and time of replies."""

    tokens: float
    seconds: float
    """Seconds from sending a request to its reply."""
    basis: str
    """The source of both figures."""


class Total(Struct, frozen=True):
    """The sum of stages, over what is known; `unknown` names the rest."""

    calls: int
    prompt_tokens: int
    completion_tokens: int
    """Tokens if every reply had the maximum length, like `dollars`."""
    dollars: float
    reply_tokens: int
    """Tokens of expected replies, like `expected_dollars` and `seconds`."""
    expected_dollars: float
    seconds: float
    """Seconds, one stage after the other."""
    unknown: tuple[str, ...]
    least_prompt_tokens: int
    most_prompt_tokens: int

    def phrase(self) -> str:
        """Return the known sums in one phrase."""
        return (
            f"{count_of(self.calls, 'call')}, {span(*self._prompts, count)} prompt tokens, {self.reply_tokens:,} to "
            f"{self.completion_tokens:,} reply tokens and {span(self.expected_dollars, self.dollars, in_dollars)}"
        )

    @property
    def _prompts(self) -> tuple[int, int]:
        return self.least_prompt_tokens, self.most_prompt_tokens


def stage(name: str, work: Calls, replies: Replies, pace: Pace, *, rounds: int = 1) -> Stage:
    """Return the estimate of a stage.

    Args:
        work: its calls, at the price of direct ones.
        replies: their expected length and time.
        rounds: batches of the stage that wait for one another.
    """
    if work.calls is None or work.prompt_tokens is None or work.completion_tokens is None:
        return Stage(name, work, replies=replies.basis)
    tokens = min(work.completion_tokens, round(work.calls * replies.tokens))
    dollars = work.dollars
    if dollars and work.calls:
        expected = _price(work, work.least_prompt_tokens, tokens)
        dollars = None if expected is None else min(dollars, expected)
    by_batch = pace.batch and bool(work.calls) and _has_batches(work.model)
    if by_batch:
        discount = _batch_discount(work)
        dollars = None if dollars is None or discount is None else dollars * discount
        most_dollars = None if work.dollars is None or discount is None else work.dollars * discount
        work = structs.replace(work, dollars=most_dollars)
    seconds = rounds * BATCH_S if by_batch else _seconds(work, tokens, replies, pace)
    return Stage(name, work, tokens, dollars, seconds, replies.basis, by_batch)


def total_of(stages: Sequence[Stage]) -> Total:
    """Return the sum of stages."""
    work = [entry.work for entry in stages]
    unpriced = dict.fromkeys(calls.model for calls in work if calls.dollars is None and calls.calls is not None)
    later = sum(calls.calls is None for calls in work)
    prompts = [f"the prompts of {count_of(later, 'run')}, known after prepare"] if later else []
    return Total(
        calls=sum(calls.calls or 0 for calls in work),
        prompt_tokens=sum(calls.prompt_tokens or 0 for calls in work),
        completion_tokens=sum(calls.completion_tokens or 0 for calls in work),
        dollars=sum(calls.dollars or 0.0 for calls in work),
        reply_tokens=sum(entry.reply_tokens or 0 for entry in stages),
        expected_dollars=sum(entry.dollars or 0.0 for entry in stages),
        seconds=sum(entry.seconds or 0.0 for entry in stages),
        least_prompt_tokens=sum(calls.least_prompt_tokens for calls in work),
        most_prompt_tokens=sum(calls.most_prompt_tokens for calls in work),
        unknown=(*(f"the price of {model}" for model in unpriced), *prompts),
    )


def _seconds(work: Calls, tokens: int, replies: Replies, pace: Pace) -> float:
    if not work.calls or is_offline(work.model):
        return 0.0
    return max(
        work.calls * replies.seconds / min(pace.concurrency, work.calls),
        # The first call waits for nothing.
        pace.rates.of(work.model).seconds(work.calls - 1, (work.prompt_tokens or 0) + tokens),
    )


def _has_batches(model: str) -> bool:
    try:
        check_batches(model)
    except FatalModelError:
        return False
    return True


def _price(work: Calls, prompt_tokens: int, completion_tokens: int) -> float | None:
    calls = work.calls or 1
    per_call = price(work.model, round(prompt_tokens / calls), round(completion_tokens / calls))
    return None if per_call is None else per_call * calls


def _batch_discount(work: Calls) -> float | None:
    """Return the price of a call by batch as a share of its direct price; None if the price is not known."""
    prompt, completion = ((tokens or 0) // (work.calls or 1) for tokens in (work.prompt_tokens, work.completion_tokens))
    direct = price(work.model, prompt, completion)
    usage = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    batch = batch_price(work.model, usage)
    if direct is None or batch is None:
        return None
    return batch.dollars / direct if direct else 1.0


def sampled_of(questions: Sequence[Question]) -> list[Question]:
    """Return a sample drawn by a hash of the ids, so always the same."""
    return sorted(questions, key=lambda question: sha256_text(question.question_id))[:SAMPLED]


def share_of(part: Sized, whole: Sized) -> str:
    """Return `20 of 500`, or `all 12`."""
    return f"{len(part):,} of {len(whole):,}" if len(part) < len(whole) else f"all {len(whole):,}"


def estimate_calls(
    model: str, questions: Sequence[Sequence[Call]], total: int, basis: str, *, too_long: int = 0
) -> Calls:
    """Estimate the calls of `total` questions.

    Args:
        questions: the calls for each of them, or for each of a random sample.
        total: number of questions.
        basis: see `Calls`.
        too_long: see `Calls`.
    """
    share = total / len(questions) if questions else 0.0
    prompts = [float(sum(call.prompt_tokens for call in calls)) for calls in questions]
    tokens, margin = sum(prompts) * share, _margin(prompts, total)
    dollars = _dollars(model, questions)
    return Calls(
        model=model,
        calls=round(sum(map(len, questions)) * share),
        prompt_tokens=round(tokens),
        completion_tokens=round(sum(call.max_tokens for calls in questions for call in calls) * share),
        dollars=None if dollars is None else sum(dollars) * share + _margin(dollars, total),
        basis=basis,
        least_prompt_tokens=max(0, round(tokens - margin)),
        most_prompt_tokens=round(tokens + margin),
        counted=len(questions),
        too_long=too_long,
    )


def _margin(values: Sequence[float], total: int) -> float:
    """Return half of the 95% CI of a sum over `total`, drawn without replacement (Cochran 1977, section 2.8)."""
    drawn = len(values)
    if drawn < 2 or drawn >= total:
        return 0.0
    from scipy.special import stdtrit

    return float(stdtrit(drawn - 1, 0.975)) * total * sqrt(variance(values) / drawn * (1 - drawn / total))


def _dollars(model: str, questions: Sequence[Sequence[Call]]) -> list[float] | None:
    """Return the dollars of each question; None if a price is not known."""
    if is_offline(model):
        return [0.0] * len(questions)
    # Call by call: above some prompt length a token may cost more.
    prices = [[price(model, call.prompt_tokens, call.max_tokens) for call in calls] for calls in questions]
    known = [[value for value in row if value is not None] for row in prices]
    return list(map(sum, known)) if known == prices else None


def expected_replies(results_dir: Path, model: str, method: str, longest: int) -> Replies:
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


def expected_labels(results_dir: Path, judge_id: str, work: Calls) -> Replies:
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


def assumed_replies(work: Calls) -> Replies:
    """Return assumed figures, for calls without any earlier run."""
    return _assumed(work.model, _longest_of(work))


def _longest_of(work: Calls) -> int:
    """Return the tokens of the longest reply, averaged over the calls."""
    return (work.completion_tokens or 0) // (work.calls or 1)


def _assumed(model: str, longest: int, tokens: float | None = None) -> Replies:
    length = f"replies of {REPLY_SHARE:.0%} of the longest" if tokens is None else f"{tokens:.0f} tokens"
    tokens = min(longest, REPLY_SHARE * longest if tokens is None else tokens)
    basis = f"assumed: no earlier run by {model}; {length}, {CALLS_ASSUMED}"
    return Replies(tokens, call_seconds(tokens), basis)


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


def _measured(lines: Sequence[Answer] | Sequence[Judgement], basis: str, longest: int) -> Replies | None:
    """Return the figures of the replies that were paid for; None if there are none."""
    paid = [line for line in lines if line.usage.calls > line.usage.cached_calls]
    calls = sum(line.usage.calls for line in paid)
    if not calls:
        return None
    tokens = sum(line.usage.completion_tokens for line in paid) / calls
    total_ms = sum_latencies(line.latency_ms for line in paid)
    # The time of calls by batch is not known.
    seconds = call_seconds(tokens) if total_ms is None else total_ms / calls / 1000
    return Replies(min(tokens, longest), seconds, basis)
