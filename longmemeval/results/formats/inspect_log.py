"""The records of an Inspect log, format version 2, and its two files: `.eval`, a zip of JSON files, and `.json`.

Names and meanings are those of Inspect's documentation (inspect.aisi.org.uk, "Log Files" and `inspect_ai.log`) and of
inspect_ai 0.3.285, whose reader the tests use. Fields that are left out here have defaults there.
"""

import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from longmemeval.core.files import replacing

VERSION = 2
Value = str | float
"""`C` or `I` from a judge that labels, a fraction from one that scores, `N` if nothing was evaluated, which Inspect
counts as 0."""
LogStatus = Literal["started", "success", "cancelled", "error"]


class LogMessage(Struct, frozen=True, omit_defaults=True):
    """A chat message; `function` is set if the role is `tool`."""

    role: str
    content: str
    id: str
    function: str | None = None
    model: str | None = None
    metadata: dict[str, Any] = {}


class LogError(Struct, frozen=True):
    """An error; the harness keeps no traceback."""

    message: str
    traceback: str = ""
    traceback_ansi: str = ""


class LogUsage(Struct, frozen=True, omit_defaults=True):
    """Tokens, and US dollars if known."""

    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    total_cost: float | None = None


class LogScore(Struct, frozen=True, omit_defaults=True):
    """One judge's grade of one sample."""

    value: Value
    answer: str | None = None
    explanation: str | None = None
    metadata: dict[str, Any] = {}


class SampleSummary(Struct, frozen=True, kw_only=True):
    """One question of one repeat, without the long texts: an entry of `summaries.json`."""

    id: str
    epoch: int
    input: str
    target: str
    scores: dict[str, LogScore]
    metadata: dict[str, Any]
    uuid: str
    model_usage: dict[str, LogUsage]
    total_time: float | None
    """Duration in seconds."""
    message_count: int
    error: str | None
    completed: bool = True


class LogSample(Struct, frozen=True, kw_only=True):
    """One question of one repeat."""

    id: str
    epoch: int
    input: str
    target: str
    messages: list[LogMessage]
    output: dict[str, Any]
    scores: dict[str, LogScore]
    metadata: dict[str, Any]
    uuid: str
    model_usage: dict[str, LogUsage]
    total_time: float | None
    error: LogError | None

    def summary(self) -> SampleSummary:
        """Return the entry of `summaries.json`."""
        shared = {name: value for name, value in asdict(self).items() if name in SampleSummary.__struct_fields__}
        error = self.error.message if self.error else None
        return SampleSummary(**(shared | {"error": error, "message_count": len(self.messages)}))


class LogMetric(Struct, frozen=True):
    """A figure over all samples."""

    name: str
    value: float
    metadata: dict[str, Any]


class LogScores(Struct, frozen=True):
    """The figures of one judge."""

    name: str
    scorer: str
    metrics: dict[str, LogMetric]
    scored_samples: int
    unscored_samples: int
    metadata: dict[str, Any]


class LogResults(Struct, frozen=True):
    """The figures of all judges, the one of the score first."""

    total_samples: int
    completed_samples: int
    scores: list[LogScores]


class LogSpec(Struct, frozen=True, kw_only=True):
    """The task, data, solver and model of the evaluation: `eval` in the log."""

    eval_id: str
    run_id: str
    task_id: str
    created: str
    task: str
    task_args: dict[str, Any]
    solver: str
    solver_args: dict[str, Any]
    dataset: dict[str, Any]
    model: str
    model_base_url: str | None
    model_generate_config: dict[str, Any]
    config: dict[str, Any]
    packages: dict[str, str]
    metadata: dict[str, Any]
    scorers: list[dict[str, Any]]


class LogHeader(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All of a log but its samples; Inspect cannot read an `error` that is null."""

    version: int
    status: LogStatus
    eval: LogSpec
    plan: dict[str, Any]
    results: LogResults
    stats: dict[str, Any]
    error: LogError | None = None


def write_eval(file: Path, header: LogHeader, samples: Iterable[LogSample]) -> None:
    """Write a log as a `.eval` file; the samples are never all in memory, and the same log gives the same bytes."""
    summaries = []
    with replacing(file) as handle, zipfile.ZipFile(handle, "w") as archive:
        start = {"version": header.version, "eval": header.eval, "plan": header.plan}
        _add(archive, "_journal/start.json", start)
        for sample in samples:
            summaries.append(sample.summary())
            _add(archive, f"samples/{sample.id}_epoch_{sample.epoch}.json", sample)
        _add(archive, "summaries.json", summaries)
        _add(archive, "header.json", header)


def _add(archive: zipfile.ZipFile, name: str, content: object) -> None:
    # Without a date, an entry is dated 1980 whenever it is written.
    entry = zipfile.ZipInfo(name)
    entry.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(entry, msgspec.json.encode(content))


def write_json(file: Path, header: LogHeader, samples: Iterable[LogSample]) -> None:
    """Write the same log as one JSON document."""
    with replacing(file) as handle:
        handle.write(msgspec.json.encode(header).removesuffix(b"}") + b',"samples":[')
        for place, sample in enumerate(samples):
            handle.write((b",\n" if place else b"\n") + msgspec.json.encode(sample))
        handle.write(b"]}\n")
