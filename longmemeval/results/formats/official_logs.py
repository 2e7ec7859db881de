"""`import` and `export --format official`: hypothesis files and judged logs of the official repository, both ways.

The formats are those of `src/evaluation/evaluate_qa.py`: JSONL of `{"question_id", "hypothesis"}`, and the same lines
with `"autoeval_label": {"model", "label"}`, which `print_qa_metrics.py` reads.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from longmemeval.benchmarks.catalogue import benchmark_of
from longmemeval.benchmarks.spec import Benchmark
from longmemeval.core.files import sha256_text, write_atomic
from longmemeval.core.text.figures import count_of
from longmemeval.dataset import Dataset
from longmemeval.errors import HarnessError
from longmemeval.judges.people import imported_identity, is_imported
from longmemeval.judges.protocol import JudgeIdentity
from longmemeval.judges.template_set import grading, judge_name
from longmemeval.measures.metrics import Metrics
from longmemeval.records import Judgement
from longmemeval.results.formats.hypotheses import Adopted, HypothesisLine, OfficialLabel, adopt_hypotheses
from longmemeval.results.lines import judgements_file
from longmemeval.results.manifest import run_folder
from longmemeval.results.run_files import RunFiles
from longmemeval.results.run_questions import RunQuestions, dataset_of
from longmemeval.results.scores.checked import read_run, recompute_scores, write_metrics
from longmemeval.settings import Folders

_UNNAMED = "unnamed model"
"""The judge of a log whose labels do not name their model."""


class Imported(Struct, frozen=True):
    """The new run, and the mismatches between file and data set."""

    run_id: str
    answered: int
    unknown: tuple[str, ...]
    """Question ids of the file that are not in the data set."""
    missing: tuple[str, ...]
    """Questions of the data set that the file does not answer: they count as not evaluated."""
    repeated: tuple[str, ...]
    """Questions that are in the file twice: the official script counts them twice, the run once."""
    unlabelled: tuple[str, ...]
    """Answered questions without a label, although others have one."""
    metrics: Metrics | None
    """The scores of a judged log; None for hypotheses alone."""
    script_stops: tuple[str, ...] = ()
    """Reasons why the official `print_qa_metrics.py` would not process the whole log; empty if it would."""


def import_official(
    file: Path, dataset: Dataset, *, run_id: str | None = None, folders: Folders | None = None
) -> Imported:
    """Make a run from a hypothesis file or a judged log; a log's labels become the judgements of an imported judge.

    Args:
        file: JSONL or one JSON list.
        dataset: the data set of the questions; its haystacks may be empty.
        run_id: None: made from the file's name and a hash.

    Raises:
        HarnessError: unreadable file, a bad line, labels of several models, or no known question.
    """
    folders = folders or Folders()
    adopted = adopt_hypotheses(file, dataset, folders.results_dir, run_id=run_id)
    labelled = {name: line.autoeval_label for name, line in adopted.lines.items() if line.autoeval_label is not None}
    metrics = _take_over(adopted, labelled, dataset, file, folders) if labelled else None
    return Imported(
        run_id=adopted.run_id,
        answered=len(adopted.lines),
        unknown=adopted.unknown,
        missing=adopted.missing,
        repeated=tuple(adopted.repeated),
        unlabelled=tuple(name for name in adopted.lines if name not in labelled) if labelled else (),
        metrics=metrics,
        script_stops=tuple(_script_stops(adopted, metrics, benchmark_of(dataset))) if metrics else (),
    )


def _script_stops(adopted: Adopted, metrics: Metrics, benchmark: Benchmark) -> Iterator[str]:
    """Yield the official script's assertions and assumptions that the log violates."""
    if not benchmark.log_judge:
        yield f"the questions are {benchmark.title}'s, which has no such script"
    elif metrics.judge.model != benchmark.log_judge:
        yield f"its judge is {metrics.judge.model}, and the script accepts only {benchmark.log_judge}"
    if not adopted.is_jsonl:
        yield "not every line is one record"
    if adopted.unlabelled_lines:
        yield f"{count_of(adopted.unlabelled_lines, 'line has', 'lines have')} no label"
    if adopted.unknown:
        yield f"{count_of(len(adopted.unknown), 'question is', 'questions are')} not in the data set"


def _take_over(
    adopted: Adopted, labelled: Mapping[str, OfficialLabel], dataset: Dataset, file: Path, folders: Folders
) -> Metrics:
    """Write the labels as judgements, and the scores."""
    models = sorted({label.model for label in labelled.values()})
    if len(models) > 1:
        raise HarnessError(
            f"The log was judged by several models: {', '.join(models)}",
            where=str(file),
            fix="Split it into one log per model and import each under a --run-id of its own",
        )
    folder = folders.results_dir / adopted.run_id
    identity = imported_identity(models[0] or _UNNAMED)
    lines = [_judgement(adopted.lines[name], label, identity) for name, label in labelled.items()]
    path = judgements_file(folder, identity.id)
    if not path.exists():
        write_atomic(path, b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    files = RunFiles(folder)
    return write_metrics(folders.results_dir, files, RunQuestions(files.manifest, dataset), identity)


def _judgement(line: HypothesisLine, label: OfficialLabel, identity: JudgeIdentity) -> Judgement:
    return Judgement(
        question_id=line.question_id,
        label=label.label,
        raw="",
        judge_id=identity.id,
        prompt_sha256="",
        answer_sha256=sha256_text(line.hypothesis),
        served_model=label.model,
    )


class OfficialExport(Struct, frozen=True):
    """The files that were written."""

    hypotheses: str
    logs: tuple[str, ...]
    """The log of each judge."""
    answers: int
    part: str
    """Number of questions out of the total, and how they were chosen; empty for the whole data set."""
    unanswered: tuple[str, ...]
    """Questions without an answer: they have no line in the files, and the official script does not notice."""
    later_gradings: tuple[str, ...]
    """Ids of judges of later gradings, which have no log: the first grading is the score."""
    unofficial: tuple[str, ...]
    """Models of logs that `print_qa_metrics.py` refuses: it accepts only the official judge's."""


def export_official(
    run_id: str, output: Path | None = None, *, dataset: str | None = None, folders: Folders | None = None
) -> OfficialExport:
    """Write `<run_id>.jsonl` and, per judge, `<run_id>.jsonl.eval-results-<judge id>`.

    Args:
        run_id: id of a run with answers.
        output: the folder; None: `official` in the run's folder.
        dataset: path or name of the data set with the gold, if it has moved.

    Raises:
        HarnessError: there is no such run, it holds rankings, or its data set is missing.
        IntegrityError: its files have been changed since the run, or do not give the stored scores.
    """
    folders = folders or Folders()
    folder = run_folder(folders.results_dir, run_id)
    files = RunFiles(folder)
    manifest = files.manifest
    if manifest.kind == "retrieval":
        raise HarnessError(f"Run '{run_id}' holds rankings, no answers", fix="Export it with --format trec")
    read_run(files)
    asked = RunQuestions(manifest, dataset_of(manifest, dataset, folders))
    scores = [recompute_scores(files, asked, stored) for stored in files.metrics]
    current = files.answers
    texts = {
        name: current[name].hypothesis
        for name in manifest.question_ids
        if name in current and current[name].status == "ok"
    }
    path = (output or folder / "official") / f"{run_id}.jsonl"
    _write(path, (HypothesisLine(name, text) for name, text in texts.items()))
    labelled = [metrics.judge for metrics in scores if metrics.judge.metric == "accuracy"]
    judges = [judge for judge in labelled if grading(judge) == 1]
    accepted = asked.benchmark.log_judge
    names = [_official_name(judge, accepted) for judge in judges]
    return OfficialExport(
        hypotheses=str(path),
        logs=tuple(_write_log(path, files, judge, name, texts) for judge, name in zip(judges, names, strict=True)),
        answers=len(texts),
        part=asked.part,
        unanswered=tuple(name for name in manifest.question_ids if name not in texts),
        later_gradings=tuple(judge.id for judge in labelled if grading(judge) > 1),
        unofficial=tuple(dict.fromkeys(name for name in names if name != accepted)),
    )


def _official_name(judge: JudgeIdentity, accepted: str) -> str:
    """Return the judge's model as a log names it; only the official judge gets the name its script accepts."""
    if judge.official or is_imported(judge):
        return judge.model.removeprefix("openai/")
    name = judge_name(judge).removeprefix("openai/")
    return name if name != accepted else f"{name}, by its own word another"


def _write_log(hypotheses: Path, files: RunFiles, judge: JudgeIdentity, model: str, texts: Mapping[str, str]) -> str:
    """Write the judged log of one judge; as in the official script's logs, answers without a label have no line."""
    judgements = files.current_judgements(judge.id)
    labels = {
        name: judgement.label for name, judgement in judgements.items() if judgement.label is not None and name in texts
    }
    log = hypotheses.with_name(f"{hypotheses.name}.eval-results-{judge.id}")
    _write(
        log,
        (
            HypothesisLine(name, text, OfficialLabel(labels[name], model))
            for name, text in texts.items()
            if name in labels
        ),
    )
    return str(log)


def _write(path: Path, lines: Iterable[HypothesisLine]) -> None:
    write_atomic(path, b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
