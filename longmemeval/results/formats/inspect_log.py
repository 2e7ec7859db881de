"""The records of an Inspect log, format version 2, and its two files: `.eval`, a zip of JSON files, and `.json`.

Names and meanings are those of Inspect's documentation (inspect.aisi.org.uk, "Log Files" and `inspect_ai.log`) and of
inspect_ai 0.3.285, whose reader the tests use. Fields that are left out here have defaults there.
"""

import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from longmemeval import __version__
from longmemeval.core.files import replacing, sha256_text
from longmemeval.core.journal import iterate_journal
from longmemeval.core.tables.table import frame
from longmemeval.core.text.figures import UNKNOWN, count_of
from longmemeval.core.text.paths import document_without_places, without_places
from longmemeval.judges.template_set import grading
from longmemeval.llm.protocol import ChatMessage
from longmemeval.measures.metrics import credit
from longmemeval.reading.prompts import SentPrompt
from longmemeval.records import Answer, Judgement, Message, Usage, usage_of
from longmemeval.results.formats.question_frame import QuestionResult, metadata_columns, question_results
from longmemeval.results.graded.graded_run import Evaluation, load_graded
from longmemeval.results.index import settings_sha256
from longmemeval.results.lines import PROMPTS
from longmemeval.results.manifest import RunStatus
from longmemeval.settings import Folders
from longmemeval.storage.messages import haystack_messages

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


# `export --format inspect|inspect-json`: runs as Inspect logs, for its viewer and other readers of such logs.

InspectFormat = Literal["inspect", "inspect-json"]

_STATUSES: dict[RunStatus, LogStatus] = {
    "running": "started",
    "completed": "success",
    "incomplete": "error",
    "failed": "error",
    "interrupted": "cancelled",
}
_STOPPED = {"stop": "stop", "length": "max_tokens", "content_filter": "content_filter"}


class InspectExport(Struct, frozen=True):
    """The log that was written."""

    file: str
    runs: tuple[str, ...]
    """Ids of its runs, which are its epochs in this order."""
    questions: int
    judges: tuple[str, ...]
    """Ids of the judges, which are its scorers; the judge of the score first."""


def export_inspect(
    run_ids: Sequence[str],
    output: Path | None = None,
    *,
    format: InspectFormat = "inspect",
    dataset: str | None = None,
    folders: Folders | None = None,
) -> list[InspectExport]:
    """Write one log per run; runs that repeat each other share a log, as its epochs.

    A question is a sample, a judge a scorer. The messages of a sample are what the memory recalled (of the role
    `tool`), the prompt as it was sent and the answer. A question that was not evaluated has the value `N`, which
    Inspect counts as 0, like every score here.

    Args:
        run_ids: ids of graded runs.
        output: the folder; None: `inspect` in the folder of a log's first run.
        format: `inspect`, a `.eval` file; `inspect-json`, one JSON document.
        dataset: path or name of the dataset with the gold, if it has moved.
        folders: the folders; None: from the environment.

    Raises:
        HarnessError: there is no such run, it is not graded or holds rankings, or its dataset is missing.
        IntegrityError: its files have been changed since the run.
    """
    folders = folders or Folders()
    repeats: dict[str, list[Evaluation]] = {}
    for run in load_graded(list(dict.fromkeys(run_ids)), folders, dataset=dataset):
        repeats.setdefault(settings_sha256(run.manifest), []).append(run)
    return [_write(sorted(runs, key=_repeat), output, format) for runs in repeats.values()]


def _repeat(run: Evaluation) -> tuple[int, str]:
    return run.manifest.settings.plain.get("repeat", 1), run.id


def _write(runs: Sequence[Evaluation], output: Path | None, format: InspectFormat) -> InspectExport:
    first = runs[0]
    suffix, write = (".eval", write_eval) if format == "inspect" else (".json", write_json)
    file = (output or first.files.folder / "inspect") / f"{first.id}{suffix}"
    write(file, _header(runs), (sample for number, run in enumerate(runs, 1) for sample in _samples(run, number)))
    return InspectExport(str(file), tuple(run.id for run in runs), len(first.asked.questions), tuple(_scores(runs)))


def _scores(runs: Sequence[Evaluation]) -> dict[str, LogScores]:
    """Return the figures by judge id, those of the score first; over repeats, the mean of the runs it graded."""
    by_judge: dict[str, dict[str, LogMetric]] = {}
    figures: dict[str, LogScores] = {}
    for run in runs:
        for metrics in sorted(run.files.metrics, key=lambda scores: scores.judge.id != run.metrics.judge.id):
            low, high = metrics.overall.interval
            metadata = {"interval": [low, high], "not_evaluated": metrics.overall.not_evaluated, "n": metrics.overall.n}
            shown = LogMetric(metrics.judge.metric, metrics.overall.accuracy, metadata)
            by_run = by_judge.setdefault(metrics.judge.id, {})
            by_run[run.id] = shown
            before = figures.get(metrics.judge.id)
            left_out = metrics.overall.not_evaluated + (before.unscored_samples if before else 0)
            figures[metrics.judge.id] = LogScores(
                name=metrics.judge.id,
                scorer=metrics.judge.id,
                metrics={
                    shown.name: shown
                    if len(by_run) == 1
                    else LogMetric(
                        shown.name, fmean(metric.value for metric in by_run.values()), {"runs": dict(by_run)}
                    )
                },
                scored_samples=len(by_run) * metrics.overall.n - left_out,
                unscored_samples=left_out,
                metadata={"official": metrics.judge.official, "grading": grading(metrics.judge)},
            )
    return figures


def _header(runs: Sequence[Evaluation]) -> LogHeader:
    first, manifest = runs[0], runs[0].manifest
    settings, scores, summary = manifest.settings, _scores(runs), first.summary
    plain = document_without_places(settings.plain)
    missing = sum(len(run.asked.questions) - _answered(run) for run in runs)
    usage = _usage(usage_of(answer for run in runs for answer in run.answers.values()))
    states = [_STATUSES[run.manifest.status] for run in runs]
    status = next((state for state in states if state != "success"), states[0])
    memory, reading = settings.memory, settings.reading
    solver, parameters = (memory.name, plain["memory"]["parameters"]) if memory else (UNKNOWN, {})
    steps = [{"solver": solver, "params": parameters}]
    if reading:
        steps.append({"solver": reading.shown, "params": {"method": reading.method, "template": reading.template}})
    spec = LogSpec(
        eval_id=_mark("eval", *(run.id for run in runs)),
        run_id=_mark("run", *(run.id for run in runs)),
        task_id=_mark("task", manifest.dataset["content_sha256"]),
        created=manifest.started_at,
        task=manifest.dataset["name"],
        task_args={"protocol": settings.protocol} if settings.protocol else {},
        solver=solver,
        solver_args=parameters,
        dataset={
            "name": manifest.dataset["name"],
            "samples": len(first.asked.questions),
            "sample_ids": list(first.asked.questions),
        },
        model=settings.model_name or UNKNOWN,
        model_base_url=settings.model.api_base if settings.model else None,
        model_generate_config=_generation(first),
        config={"epochs": len(runs), "epochs_reducer": ["mean"]},
        packages={"longmemeval": __version__},
        metadata={
            "benchmark": first.asked.benchmark.name,
            "content_sha256": manifest.dataset["content_sha256"],
            "runs": [run.id for run in runs],
            "settings": plain,
            "part": summary.part,
            "protocol_note": summary.protocol_note,
            "warnings": [without_places(warning.text) for warning in summary.warnings],
        },
        scorers=[{"name": name, "metadata": figures.metadata} for name, figures in scores.items()],
    )
    total = len(runs) * len(first.asked.questions)
    ended = [run.manifest.ended_at for run in runs]
    return LogHeader(
        version=VERSION,
        status=status,
        eval=spec,
        plan={"name": "plan", "steps": steps},
        results=LogResults(total, total - missing, list(scores.values())),
        stats={
            "started_at": manifest.started_at,
            "completed_at": max(ended) if all(ended) else "",
            "model_usage": {spec.model: usage} if usage.total_tokens else {},
        },
        error=LogError(f"{count_of(missing, 'question has', 'questions have')} no answer")
        if status == "error"
        else None,
    )


def _answered(run: Evaluation) -> int:
    return sum(answer.status == "ok" for answer in run.answers.values())


def _generation(run: Evaluation) -> dict[str, float]:
    model = run.manifest.settings.model
    options = {"temperature": model.temperature, "max_tokens": model.max_tokens} if model else {}
    return {name: value for name, value in options.items() if value is not None}


def _samples(run: Evaluation, epoch: int) -> Iterator[LogSample]:
    """Yield the samples of a run: those whose prompt is stored in the order of their prompts, then the others."""
    left = {result.question.question_id: result for result in question_results(run)}
    recalled = _Recalled(run)
    notes: Counter[str] = Counter()
    for prompt in iterate_journal(run.files.folder / PROMPTS, SentPrompt):
        notes[prompt.question_id] += prompt.purpose == "note"
        answer = run.answers.get(prompt.question_id)
        is_current = prompt.purpose == "answer" and answer is not None and answer.prompt_sha256 == prompt.sha256
        # A prompt that was sent again after a failed call is stored twice.
        if is_current and (result := left.pop(prompt.question_id, None)):
            yield _sample(run, epoch, result, prompt.messages, recalled, notes[prompt.question_id])
    for name, result in left.items():
        yield _sample(run, epoch, result, (), recalled, notes[name])


def _sample(
    run: Evaluation,
    epoch: int,
    result: QuestionResult,
    prompt: Sequence[ChatMessage],
    recalled: "_Recalled",
    notes: int,
) -> LogSample:
    question, answer = result.question, result.answer
    mark = partial(_mark, run.id, question.question_id)
    messages = recalled.messages(result, mark("recall"))
    messages += [LogMessage(message.role, message.content, mark(str(place))) for place, message in enumerate(prompt)]
    model = run.manifest.settings.model_name or UNKNOWN
    output: dict[str, object] = {}
    if answer and answer.status == "ok":
        reply = LogMessage("assistant", answer.hypothesis, mark("answer"), model=answer.served_model or model)
        messages.append(reply)
        stopped = _STOPPED.get(answer.finish_reason, "unknown")
        output = {"model": reply.model, "choices": [{"message": reply, "stop_reason": stopped}]}
        output["completion"] = answer.hypothesis
    usage = _usage(answer.usage) if answer else LogUsage()
    ids = {"recall_ids": answer.recall_ids, "cut_ids": answer.cut_ids, "notes": answer.notes} if answer else {}
    (row,) = frame(metadata_columns(run), [result])
    return LogSample(
        id=question.question_id,
        epoch=epoch,
        input=question.text,
        target=str(row.pop("gold") or ""),
        messages=messages,
        output=output,
        scores={judge: _score(judgement, answer) for judge, judgement in result.judgements.items()},
        metadata={"run": run.id, **row, **ids, "note_prompts": notes},
        uuid=mark("sample"),
        model_usage={model: usage} if usage.total_tokens else {},
        total_time=answer.total_ms / 1000 if answer and answer.total_ms else None,
        error=LogError(answer.error or "no answer") if answer and answer.status == "error" else None,
    )


def _score(judgement: Judgement | None, answer: Answer | None) -> LogScore:
    reply = answer.hypothesis if answer else None
    if judgement is None or judgement.label is None:
        why = judgement.error if judgement else ""
        return LogScore("N", reply, why or "not evaluated")
    awarded = credit(judgement)
    value: Value = "C" if judgement.label else "I"
    if judgement.score is not None and awarded is not None:
        value = awarded
    return LogScore(value, reply, judgement.raw, {"served_model": judgement.served_model, "votes": judgement.votes})


class _Recalled:
    """The texts that a run recalled, looked up in the dataset; holds one haystack at a time."""

    def __init__(self, run: Evaluation) -> None:
        self._dataset = run.asked.dataset
        self._held = ""
        self._history: Mapping[str, Message] = {}

    def messages(self, result: QuestionResult, mark: str) -> list[LogMessage]:
        """Return one message with everything recalled; none if nothing was recalled, or if that is unknown."""
        if result.answer is None or not result.answer.recall_ids:
            return []
        if self._held != result.question.haystack_id:
            self._held = result.question.haystack_id
            history = haystack_messages(self._dataset.haystack(self._held))
            self._history = {message.message_id: message for message in history}
        texts = [self._text(name) for name in result.answer.recall_ids]
        ids = {"message_ids": result.answer.recall_ids}
        return [LogMessage("tool", "\n\n".join(texts), mark, function="recall", metadata=ids)]

    def _text(self, message_id: str) -> str:
        message = self._history.get(message_id)
        if message is None:
            return f"[{message_id}: not a message of the dataset]"
        return f"[{message.created_at:%Y-%m-%d %H:%M}, {message.speaker or message.role}] {message.content}"


def _usage(usage: Usage) -> LogUsage:
    tokens = usage.prompt_tokens, usage.completion_tokens
    return LogUsage(*tokens, sum(tokens), usage.dollars)


def _mark(*parts: str) -> str:
    """Return an id that depends on the parts alone."""
    return sha256_text("\n".join(parts))[:22]
