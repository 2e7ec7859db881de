"""`verify`: hashes hold, and every number recomputes from the files."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from longmemeval.errors import HarnessError, nearest
from longmemeval.evaluation.judges.protocol import JudgeIdentity
from longmemeval.evaluation.metrics import Metrics
from longmemeval.evaluation.recompute import recomputed
from longmemeval.files import list_folders, safe_name, sha256_bytes, sha256_file, sha256_text
from longmemeval.pipeline.answering import ANSWERS, PROMPTS, current_answers
from longmemeval.pipeline.evaluate import Graded, dataset_of, judgements_file, metrics_from_files
from longmemeval.pipeline.index import INDEX, read_index
from longmemeval.pipeline.journal import read_journal
from longmemeval.pipeline.manifest import RunManifest, check_run_id, differences, read_manifest
from longmemeval.pipeline.verify_preparation import check_preparation
from longmemeval.pipeline.verify_retrieval import check_retrieval
from longmemeval.reading.reader import SentPrompt
from longmemeval.records import Answer, Judgement
from longmemeval.settings import Folders, folders


class Verification(Struct, frozen=True):
    """What was checked and what does not hold."""

    subject: str
    checked: int
    problems: tuple[str, ...]


def verify(subject: str, *, dataset: str | None = None, where: Folders | None = None) -> Verification:
    """Check a run, or a preparation named `DATASET` or `DATASET/PREPARATION`.

    Args:
        subject: a run id, or a preparation.
        dataset: where a run's gold is, if it has moved.
        where: the folders.

    Raises:
        HarnessError: there is neither a run nor a preparation of that name.
    """
    where = where or folders()
    run = _run_folder(subject, where)
    if run is not None:
        return _collect(subject, _check_run(run, dataset, where))
    preparations = _preparations(subject, where)
    if not preparations:
        raise HarnessError(f"There is no run and no preparation '{subject}'", fix=nearest(subject, _subjects(where)))
    return _collect(subject, (check for folder in preparations for check in check_preparation(folder)))


def _collect(subject: str, checks: Iterator[str | None]) -> Verification:
    outcomes = list(checks)
    return Verification(subject, len(outcomes), tuple(problem for problem in outcomes if problem))


def _run_folder(subject: str, where: Folders) -> Path | None:
    try:
        folder = where.results_dir / check_run_id(subject)
    except HarnessError:
        return None
    return folder if (folder / "run.json").exists() else None


def _preparations(subject: str, where: Folders) -> list[Path]:
    """Folders of the preparations that `DATASET` or `DATASET/PREPARATION` names."""
    dataset, _, preparation = subject.partition("/")
    root = where.prepared_dir / safe_name(dataset)
    return [folder for folder in list_folders(root) if not preparation or folder.name == safe_name(preparation)]


def _subjects(where: Folders) -> list[str]:
    runs = [folder.name for folder in list_folders(where.results_dir)]
    preparations = [
        f"{dataset.name}/{folder.name}"
        for dataset in list_folders(where.prepared_dir)
        for folder in list_folders(dataset)
    ]
    return runs + preparations


def _check_run(folder: Path, dataset: str | None, where: Folders) -> Iterator[str | None]:
    manifest = read_manifest(folder)
    yield None
    yield from _check_files(folder, manifest)
    if manifest.kind == "retrieval":
        yield from check_retrieval(folder, manifest, dataset_of(manifest, dataset, where))
        return
    answers = current_answers(read_journal(folder / ANSWERS, Answer))
    yield from _check_answers(folder, manifest, answers)
    for file in sorted((folder / "judgements").glob("*.jsonl")):
        yield from _check_judgements(file, answers)
    metric_files = sorted((folder / "metrics").glob("*.json"))
    if metric_files:
        graded = Graded(manifest, dataset_of(manifest, dataset, where))
        index = {(entry.run, entry.judge): entry.accuracy for entry in read_index(where.results_dir)}
        for file in metric_files:
            yield from _check_metrics(folder, file, graded, answers, index)


def _check_files(folder: Path, manifest: RunManifest) -> Iterator[str | None]:
    for name, digest in manifest.files.items():
        path = folder / name
        if not path.exists():
            yield f"{name}: is missing"
        elif sha256_file(path) != digest:
            yield f"{name}: was changed after the run ended (its sha256 is not the manifest's)"
        else:
            yield None


def _check_answers(folder: Path, manifest: RunManifest, answers: Mapping[str, Answer]) -> Iterator[str | None]:
    selected = set(manifest.question_ids)
    strangers = [question_id for question_id in answers if question_id not in selected]
    yield f"{ANSWERS}: answers questions that were not selected: {', '.join(strangers[:5])}" if strangers else None
    settled: set[str] = set()
    for answer in read_journal(folder / ANSWERS, Answer):
        repeated = answer.question_id in settled
        yield f"{ANSWERS}: question '{answer.question_id}' is answered twice" if repeated else None
        if answer.status == "ok":
            settled.add(answer.question_id)
    if not (folder / PROMPTS).exists():
        return
    saved = set()
    for prompt in read_journal(folder / PROMPTS, SentPrompt):
        saved.add((prompt.question_id, prompt.sha256))
        intact = sha256_bytes(msgspec.json.encode(prompt.messages)) == prompt.sha256
        yield None if intact else f"{PROMPTS}: a prompt of question '{prompt.question_id}' does not have its hash"
    for answer in answers.values():
        known = not answer.prompt_sha256 or (answer.question_id, answer.prompt_sha256) in saved
        yield None if known else f"{PROMPTS}: the prompt of question '{answer.question_id}' is missing"


def _check_judgements(file: Path, answers: Mapping[str, Answer]) -> Iterator[str | None]:
    settled: set[str] = set()
    for judgement in read_journal(file, Judgement):
        name = f"judgements/{file.name}: question '{judgement.question_id}'"
        answer = answers.get(judgement.question_id)
        if judgement.judge_id != file.stem:
            yield f"{name} was judged by '{judgement.judge_id}'"
        elif answer is None:
            yield f"{name} has a judgement but no answer"
        elif judgement.answer_sha256 != sha256_text(answer.hypothesis):
            yield f"{name} was judged on another answer"
        elif judgement.question_id in settled:
            yield f"{name} has a second judgement after a label"
        else:
            yield None
        if judgement.label is not None:
            settled.add(judgement.question_id)


def _check_metrics(
    folder: Path, file: Path, graded: Graded, answers: Mapping[str, Answer], index: Mapping[tuple[str, str], float]
) -> Iterator[str | None]:
    name = f"metrics/{file.name}"
    try:
        stored = msgspec.json.decode(file.read_bytes(), type=Metrics)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        yield f"{name}: is damaged: {error}"
        return
    if stored.judge.id != file.stem:
        yield f"{name}: holds the figures of judge '{stored.judge.id}'"
        return
    judgements = judgements_file(folder, stored.judge.id)
    place = f"judgements/{judgements.name}"
    if not judgements.exists() and stored.overall.not_evaluated < stored.overall.n:
        yield f"{name}: {place} is missing"
        return
    again = metrics_from_files(folder, graded, stored.judge)
    if stored.judgements_sha256 != again.judgements_sha256:
        yield f"{place}: was changed after it was scored (its sha256 is not the one in {name})"
    changed = differences(msgspec.to_builtins(stored), msgspec.to_builtins(again))
    yield f"{name}: {place} gives other figures ({'; '.join(changed[:3])})" if changed else None
    indexed = index.get((graded.manifest.run_id, stored.judge.id), again.overall.accuracy)
    yield None if indexed == again.overall.accuracy else f"{INDEX}: has another accuracy than {place} gives: {indexed}"
    for judgement in read_journal(judgements, Judgement):
        yield _check_label(stored.judge, judgement, graded, answers, place)


def _check_label(
    judge: JudgeIdentity, judgement: Judgement, graded: Graded, answers: Mapping[str, Answer], place: str
) -> str | None:
    """Whether label and score are those that the stored replies, or the rules of a judge without a model, give."""
    question = graded.questions.get(judgement.question_id)
    answer = answers.get(judgement.question_id)
    if question is None or answer is None or judgement.label is None:
        return None
    gold = graded.gold(judgement.question_id)
    again = recomputed(judge, judgement, question, gold, answer.hypothesis)
    if (again.label, again.score, again.vote_labels) == (judgement.label, judgement.score, judgement.vote_labels):
        return None
    return f"{place}: question '{judgement.question_id}' has a label that does not follow from what the judge said"
