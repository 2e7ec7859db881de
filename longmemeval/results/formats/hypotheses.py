"""Make a run that can be graded from another system's answers in the official format."""

from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from longmemeval.benchmarks.catalogue import benchmark_of
from longmemeval.benchmarks.spec import Benchmark
from longmemeval.core.files import sha256_bytes, sha256_text, write_atomic
from longmemeval.core.journal import now
from longmemeval.core.text.figures import count_of
from longmemeval.core.text_files import UnreadableError, decode_json, reading
from longmemeval.dataset import Dataset
from longmemeval.errors import HarnessError
from longmemeval.judges.people import imported_identity, is_imported
from longmemeval.judges.protocol import JudgeIdentity
from longmemeval.judges.template_set import grading, judge_name
from longmemeval.measures.metrics import Metrics
from longmemeval.records import Answer, Judgement
from longmemeval.results.lines import ANSWERS, judgements_file
from longmemeval.results.manifest import (
    FORMAT,
    RunManifest,
    check_run_id,
    dataset_record,
    environment,
    read_manifest,
    run_folder,
    write_manifest,
)
from longmemeval.results.run_files import RunFiles
from longmemeval.results.run_questions import RunQuestions, dataset_of
from longmemeval.results.scores.checked import read_run, recompute_scores, write_metrics
from longmemeval.results.selection import Selection, select
from longmemeval.results.settings import HypothesesSettings, ImportedSettings
from longmemeval.settings import Folders


class OfficialLabel(Struct, frozen=True):
    """The fields that the official script adds to a line it has judged."""

    label: bool
    model: str = ""


class HypothesisLine(Struct, frozen=True, omit_defaults=True):
    """One line of a hypothesis file or, with a label, of a judged log."""

    question_id: str
    hypothesis: str
    autoeval_label: OfficialLabel | None = None


class Adopted(Struct, frozen=True):
    """The run made from a file, and the mismatches between file and dataset."""

    run_id: str
    lines: dict[str, HypothesisLine]
    """Lines of the selected questions only, by question id."""
    unknown: tuple[str, ...]
    """Question ids in the file that are not in the dataset."""
    missing: tuple[str, ...]
    """Selected questions without a hypothesis: they count as not evaluated."""
    repeated: dict[str, int]
    """Questions that the file answers several times in the same words, with the number of times: here they count once,
    in the official script every time."""
    unlabelled_lines: int = 0
    """Number of lines of the file without a label."""
    is_jsonl: bool = True
    """True if every line is one record, as the official script requires, without blank lines or byte-order mark."""


def adopt_hypotheses(
    file: Path, dataset: Dataset, results_dir: Path, *, selection: Selection = Selection(), run_id: str | None = None
) -> Adopted:
    """Make a run from a hypothesis file: JSONL (or one JSON list) of `{"question_id", "hypothesis"}`.

    Args:
        file: the hypothesis file; other fields of a line are ignored.
        dataset: the dataset of the questions; every selected one counts, answered or not.
        results_dir: folder of the new run; adopting the same file again changes nothing.
        selection: the questions that were to be answered.
        run_id: None: made from the file's name and a hash of its content, the data and the selection.

    Raises:
        HarnessError: unreadable file, a bad line, two different answers to one question, or no known question.
    """
    with reading("The hypothesis file", file):
        data = file.read_bytes()
    lines, digest = _parse(data, file), sha256_bytes(data)
    settings = ImportedSettings(hypotheses=HypothesesSettings(file.name, digest), unknown_questions=())
    adopted = adopt_lines(lines, file, digest, settings, dataset, results_dir, selection=selection, run_id=run_id)
    whole = all(line.startswith(b"{") for line in data.removesuffix(b"\n").split(b"\n"))
    return msgspec.structs.replace(adopted, is_jsonl=whole)


def adopt_lines(
    lines: Sequence[HypothesisLine],
    file: Path,
    digest: str,
    settings: ImportedSettings,
    dataset: Dataset,
    results_dir: Path,
    *,
    selection: Selection = Selection(),
    run_id: str | None = None,
) -> Adopted:
    """Make a run from answers; arguments and errors as for `adopt_hypotheses`.

    Args:
        lines: the answers; those to questions that the dataset does not have are left out.
        digest: hash of everything that determines the answers.
        settings: the known settings of the run; unknown questions are added to those it lists.
    """
    if not lines:
        raise HarnessError("The file holds no hypothesis", where=str(file))
    chosen = select(list(dataset.questions()), selection, dataset.question_type)
    question_ids = tuple(question.question_id for question in chosen)
    graded = sha256_bytes(msgspec.json.encode([digest, dataset.content_sha256, question_ids]))
    run_id = check_run_id(run_id or f"{_stem(file)}-{graded[:8]}")
    hypotheses = _by_question(lines, file)
    occurrences = Counter(line.question_id for line in lines)
    known = {question.question_id for question in dataset.questions()}
    unknown = (*settings.unknown_questions, *(name for name in hypotheses if name not in known))
    if not known.intersection(hypotheses):
        raise HarnessError(
            f"No question id of this file is in the dataset '{dataset.name}' (first: '{unknown[0]}')",
            where=str(file),
            fix="Name the dataset of the file with --dataset",
        )
    adopted = Adopted(
        run_id=run_id,
        lines={name: hypotheses[name] for name in question_ids if name in hypotheses},
        unknown=unknown,
        missing=tuple(name for name in question_ids if name not in hypotheses),
        repeated={name: times for name, times in occurrences.items() if times > 1},
        unlabelled_lines=sum(line.autoeval_label is None for line in lines),
    )
    settings = msgspec.structs.replace(settings, unknown_questions=adopted.unknown, repeated_questions=adopted.repeated)
    manifest = _manifest(adopted, settings, dataset, question_ids, selection)
    folder = results_dir / run_id
    if (folder / "run.json").exists():
        _check_same(read_manifest(folder), manifest)
        return adopted
    answers = [Answer(question_id=name, hypothesis=hypotheses[name].hypothesis, status="ok") for name in adopted.lines]
    journal = b"".join(msgspec.json.encode(answer) + b"\n" for answer in answers)
    write_atomic(folder / ANSWERS, journal)
    write_manifest(folder, msgspec.structs.replace(manifest, files={ANSWERS: sha256_bytes(journal)}))
    return adopted


def _manifest(
    adopted: Adopted,
    settings: ImportedSettings,
    dataset: Dataset,
    question_ids: tuple[str, ...],
    selection: Selection,
) -> RunManifest:
    return RunManifest(
        format=FORMAT,
        run_id=adopted.run_id,
        status="completed",
        dataset=dataset_record(dataset),
        settings=settings,
        question_ids=question_ids,
        fixtures={},
        environment=environment(),
        started_at=now(),
        ended_at=now(),
        selection=selection,
        totals={
            "answered": len(adopted.lines),
            "missing": len(adopted.missing),
            "unknown": len(adopted.unknown),
        },
    )


def _check_same(before: RunManifest, new: RunManifest) -> None:
    same = before.settings == new.settings and before.question_ids == new.question_ids
    if not same or before.dataset["content_sha256"] != new.dataset["content_sha256"]:
        raise HarnessError(
            f"Run '{before.run_id}' was made from another file, dataset or selection",
            fix="Choose another --run-id",
        )


def _parse(data: bytes, file: Path) -> list[HypothesisLine]:
    data = data.removeprefix(BOM_UTF8)
    if data.lstrip().startswith(b"["):
        try:
            return decode_json(data, list[HypothesisLine])
        except UnreadableError as error:
            raise HarnessError(f"The file is not a list of hypotheses: {error}", where=str(file)) from error
    lines = []
    for number, line in enumerate(data.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            lines.append(decode_json(line, HypothesisLine))
        except UnreadableError as error:
            raise HarnessError(
                f"The line is not a hypothesis: {error}",
                where=f"{file}, line {number}",
                fix='Each line must be {"question_id": "…", "hypothesis": "…"}',
            ) from error
    return lines


def _by_question(lines: Iterable[HypothesisLine], file: Path) -> dict[str, HypothesisLine]:
    hypotheses: dict[str, HypothesisLine] = {}
    for line in lines:
        if hypotheses.setdefault(line.question_id, line) != line:
            raise HarnessError(
                f"Question '{line.question_id}' has two different hypotheses or labels",
                where=str(file),
                fix="Keep the first attempt only: it is the one that counts",
            )
    return hypotheses


def _stem(file: Path) -> str:
    letters = "".join(
        letter if letter.isascii() and (letter.isalnum() or letter in "._+-") else "-" for letter in file.stem
    )
    return letters.lstrip("._+-")[:80] or "hypotheses"


# `import` and `export --format official`: hypothesis files and judged logs of the official repository, both ways.
#
# The formats are those of `src/evaluation/evaluate_qa.py`: JSONL of `{"question_id", "hypothesis"}`, and the same
# lines with `"autoeval_label": {"model", "label"}`, which `print_qa_metrics.py` reads.

_UNNAMED = "unnamed model"
"""The judge of a log whose labels do not name their model."""


class Imported(Struct, frozen=True):
    """The new run, and the mismatches between file and dataset."""

    run_id: str
    answered: int
    unknown: tuple[str, ...]
    """Question ids of the file that are not in the dataset."""
    missing: tuple[str, ...]
    """Questions of the dataset that the file does not answer: they count as not evaluated."""
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
        dataset: the dataset of the questions; its haystacks may be empty.
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
        yield f"{count_of(len(adopted.unknown), 'question is', 'questions are')} not in the dataset"


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
    """Number of questions out of the total, and how they were chosen; empty for the whole dataset."""
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
        dataset: path or name of the dataset with the gold, if it has moved.

    Raises:
        HarnessError: there is no such run, it holds rankings, or its dataset is missing.
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
