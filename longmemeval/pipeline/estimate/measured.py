"""What replies of a model took in earlier runs: their length, and how long they were waited for."""

from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from longmemeval.errors import HarnessError
from longmemeval.pipeline.runs.journal import read_journal
from longmemeval.pipeline.runs.lines import ANSWERS
from longmemeval.pipeline.runs.manifest import RunManifest, run_ids, stored_manifest
from longmemeval.pipeline.runs.settings import AnswerSettings
from longmemeval.records import Answer, in_a_row

_ASSUMED_SHARE = 0.2
_ASSUMED_SECONDS, _ASSUMED_TOKENS_PER_SECOND = 1.0, 50.0


class Replies(Struct, frozen=True):
    """How replies are expected to be."""

    tokens: float
    seconds: float
    """From sending a request to its reply."""
    basis: str
    """Where both come from."""


def expected_replies(results_dir: Path, model: str, method: str, longest: int) -> Replies:
    """As in the latest run of the model with the same reading method; assumed, and said to be, where there is none.

    Args:
        results_dir: where runs are.
        model: who answers.
        method: of reading.
        longest: tokens of a reply.
    """
    earlier: list[RunManifest] = []
    for run_id in run_ids(results_dir):
        with suppress(HarnessError):
            manifest = stored_manifest(results_dir / run_id)
            settings = manifest.settings
            if not isinstance(settings, AnswerSettings) or not manifest.totals.get("answered"):
                continue
            if (settings.model.spec, settings.reading.method) == (model, method):
                earlier.append(manifest)
    for manifest in sorted(earlier, key=lambda one: one.started_at, reverse=True):
        answers = read_journal(results_dir / manifest.run_id / ANSWERS, Answer)
        paid = [one for one in answers if one.status == "ok" and one.usage.calls > one.usage.cached_calls]
        calls = sum(one.usage.calls for one in paid)
        if calls:
            tokens = sum(one.usage.completion_tokens for one in paid) / calls
            took = in_a_row(one.latency_ms for one in paid)
            # How long the calls of a run by batch took is not known.
            usual = _ASSUMED_SECONDS + tokens / _ASSUMED_TOKENS_PER_SECOND
            seconds = usual if took is None else took / calls / 1000
            return Replies(min(tokens, longest), seconds, f"run {manifest.run_id}")
    tokens = _ASSUMED_SHARE * longest
    return Replies(
        tokens,
        _ASSUMED_SECONDS + tokens / _ASSUMED_TOKENS_PER_SECOND,
        f"assumed: no earlier run by {model}; replies of {_ASSUMED_SHARE:.0%} of the longest, {_ASSUMED_SECONDS:.0f} s "
        f"and {_ASSUMED_TOKENS_PER_SECOND:.0f} tokens a second",
    )
