"""`verify`: hashes hold, and every number recomputes from the files."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from longmemeval.errors import HarnessError, IntegrityError, nearest
from longmemeval.evaluation.abstention import by_other_rules
from longmemeval.evaluation.judges.protocol import JudgeIdentity, judge_id
from longmemeval.evaluation.judges.standing import address_unknown
from longmemeval.evaluation.metrics import Metrics
from longmemeval.evaluation.recompute import recomputed
from longmemeval.files import list_folders, safe_name, sha256_bytes, sha256_file, sha256_text
from longmemeval.pipeline.answering import (
    ANSWERS,
    PROMPTS,
    as_counted,
    current_answers,
    is_cut,
    is_empty,
    total_usage,
)
from longmemeval.pipeline.graded import Graded, dataset_of, judgements_file, metrics_from_files, stored_judgements
from longmemeval.pipeline.index import INDEX, IndexEntry, index_entry, read_index
from longmemeval.pipeline.journal import iterate_journal, read_journal
from longmemeval.pipeline.manifest import RunManifest, check_run_id, differences, read_manifest, run_ids
from longmemeval.pipeline.rankings import RANKINGS
from longmemeval.pipeline.verify_preparation import check_preparation
from longmemeval.pipeline.verify_retrieval import check_retrieval
from longmemeval.reading.reader import SentPrompt
from longmemeval.records import Answer, Judgement
from longmemeval.settings import Folders, folders
from longmemeval.text_files import UnreadableError, decode_json


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
        IntegrityError: the run's manifest, data or a journal cannot be read at all.
    """
    where = where or folders()
    run = _run_folder(subject, where)
    if run is not None:
        return _collect(subject, _check_run(run, dataset, where))
    preparations = _preparations(subject, where)
    if not preparations:
        _refuse_lost_manifest(where.results_dir / subject)
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


def _refuse_lost_manifest(folder: Path) -> None:
    if any((folder / name).exists() for name in (ANSWERS, RANKINGS)):
        raise IntegrityError(
            f"Run '{folder.name}' has no run.json: nothing says how it was made",
            where=str(folder),
            fix="Restore it from a copy",
        )


def _preparations(subject: str, where: Folders) -> list[Path]:
    """Folders of the preparations that `DATASET` or `DATASET/PREPARATION` names."""
    dataset, _, preparation = subject.partition("/")
    root = where.prepared_dir / safe_name(dataset)
    return [folder for folder in list_folders(root) if not preparation or folder.name == safe_name(preparation)]


def _subjects(where: Folders) -> list[str]:
    preparations = [
        f"{dataset.name}/{folder.name}"
        for dataset in list_folders(where.prepared_dir)
        for folder in list_folders(dataset)
    ]
    return run_ids(where.results_dir) + preparations


def _check_run(folder: Path, dataset: str | None, where: Folders) -> Iterator[str | None]:
    manifest = read_manifest(folder)
    yield None if manifest.run_id == folder.name else f"run.json: is of run '{manifest.run_id}'"
    yield from _check_files(folder, manifest)
    if manifest.kind == "retrieval":
        yield from check_retrieval(folder, manifest, dataset_of(manifest, dataset, where))
        return
    records = read_journal(folder / ANSWERS, Answer)
    answers = current_answers(records)
    yield from _check_answers(folder, manifest, records, answers)
    yield _check_totals(manifest, records, answers)
    for file in sorted((folder / "judgements").glob("*.jsonl")):
        yield from _check_judgements(folder, file.stem, answers)
    yield from _check_scored(folder, manifest, where)
    metric_files = sorted((folder / "metrics").glob("*.json"))
    if metric_files:
        graded = Graded(manifest, dataset_of(manifest, dataset, where))
        index = {(entry.run, entry.judge): entry for entry in read_index(where.results_dir)}
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
    ended = manifest.ended_at and manifest.status != "running"
    for name in (ANSWERS, PROMPTS, RANKINGS):
        if ended and name not in manifest.files and (folder / name).exists():
            yield f"run.json: has no sha256 of {name}"


def _check_totals(manifest: RunManifest, records: Sequence[Answer], answers: Mapping[str, Answer]) -> str | None:
    """Whether the manifest counts what the answers hold; a run under way counts at its end."""
    if manifest.kind != "run" or manifest.status == "running":
        return None
    if "empty" not in manifest.totals:
        # A version that took empty replies for answers counted them as such.
        answers = {answer.question_id: answer for answer in records}
    usage = total_usage(records)
    found = {
        "answered": sum(answer.status == "ok" for answer in answers.values()),
        "failed": sum(answer.status == "error" for answer in answers.values()),
        "empty": sum(map(is_empty, answers.values())),
        "cut": sum(map(is_cut, answers.values())),
        "usage": msgspec.to_builtins(usage),
    }
    stored = {name: value for name, value in manifest.totals.items() if name in found}
    changed = differences(stored, {name: found[name] for name in stored})
    return f"run.json: {ANSWERS} gives other totals ({'; '.join(changed[:3])})" if changed else None


def _check_answers(
    folder: Path, manifest: RunManifest, records: Sequence[Answer], answers: Mapping[str, Answer]
) -> Iterator[str | None]:
    selected = set(manifest.question_ids)
    strangers = [question_id for question_id in answers if question_id not in selected]
    yield f"{ANSWERS}: answers questions that were not selected: {', '.join(strangers[:5])}" if strangers else None
    settled: set[str] = set()
    for answer in map(as_counted, records):
        repeated = answer.question_id in settled
        yield f"{ANSWERS}: question '{answer.question_id}' is answered twice" if repeated else None
        if answer.status == "ok":
            settled.add(answer.question_id)
    if not (folder / PROMPTS).exists():
        sent = manifest.settings.get("save_prompts") and any(answer.prompt_sha256 for answer in answers.values())
        yield f"{PROMPTS}: is missing" if sent and PROMPTS not in manifest.files else None
        return
    saved = set()
    for prompt in iterate_journal(folder / PROMPTS, SentPrompt):
        saved.add((prompt.question_id, prompt.sha256))
        intact = sha256_bytes(msgspec.json.encode(prompt.messages)) == prompt.sha256
        yield None if intact else f"{PROMPTS}: a prompt of question '{prompt.question_id}' does not have its hash"
    for answer in answers.values():
        known = not answer.prompt_sha256 or (answer.question_id, answer.prompt_sha256) in saved
        yield None if known else f"{PROMPTS}: the prompt of question '{answer.question_id}' is missing"


def _check_judgements(folder: Path, judge_id: str, answers: Mapping[str, Answer]) -> Iterator[str | None]:
    settled: set[str] = set()
    for judgement in stored_judgements(folder, judge_id):
        name = f"judgements/{judge_id}.jsonl: question '{judgement.question_id}'"
        answer = answers.get(judgement.question_id)
        if judgement.judge_id != judge_id:
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


def _check_scored(folder: Path, manifest: RunManifest, where: Folders) -> Iterator[str]:
    """Scores of these very answers that the index has and the folder has not."""
    for entry in read_index(where.results_dir):
        mine = (entry.run, entry.ended_at) == (folder.name, manifest.ended_at)
        if mine and not (folder / "metrics" / f"{entry.judge}.json").exists():
            yield f"metrics/{entry.judge}.json: is missing, {INDEX} has its {entry.metric}"


def _check_metrics(
    folder: Path, file: Path, graded: Graded, answers: Mapping[str, Answer], index: Mapping[tuple[str, str], IndexEntry]
) -> Iterator[str | None]:
    name = f"metrics/{file.name}"
    try:
        stored = decode_json(file.read_bytes(), Metrics)
    except UnreadableError as error:
        yield f"{name}: is damaged: {error}"
        return
    if stored.judge.id != file.stem:
        yield f"{name}: holds the figures of judge '{stored.judge.id}'"
        return
    if address_unknown(stored.judge):
        # An earlier version called it official without recording where it was served.
        stored = msgspec.structs.replace(stored, judge=msgspec.structs.replace(stored.judge, official=False))
    named = _is_named_by_its_hash(stored.judge)
    yield None if named else f"{name}: what it says of the judge does not have the hash in the judge's id"
    judgements = judgements_file(folder, stored.judge.id)
    place = f"judgements/{judgements.name}"
    if not judgements.exists() and stored.overall.not_evaluated < stored.overall.n:
        yield f"{name}: {place} is missing"
        return
    again = metrics_from_files(folder, graded, stored.judge, answers)
    if stored.judgements_sha256 != again.judgements_sha256 and _has_grown(judgements, stored.judgements_sha256):
        yield f"{name}: is older than the last lines of {place}; `longmemeval evaluate` writes it again"
    else:
        if stored.judgements_sha256 != again.judgements_sha256:
            yield f"{place}: was changed after it was scored (its sha256 is not the one in {name})"
        if by_other_rules(stored.abstaining, again.abstaining):
            again = msgspec.structs.replace(again, abstaining=stored.abstaining)
        changed = differences(msgspec.to_builtins(stored), msgspec.to_builtins(again))
        if changed and all(map(_is_of_an_older_version, changed)):
            again_by = f"`longmemeval evaluate {folder.name} --judge {stored.judge.model}` writes it again"
            yield f"{name}: holds intervals as an older version made them ({changed[0]}); {again_by}"
        else:
            yield f"{name}: {place} gives other figures ({'; '.join(changed[:3])})" if changed else None
        indexed = index.get((folder.name, stored.judge.id))
        if indexed and address_unknown(stored.judge):
            indexed = msgspec.structs.replace(indexed, official=False)
        yield _check_index(indexed, index_entry(graded.manifest, again))
    for judgement in stored_judgements(folder, stored.judge.id):
        yield _check_label(stored.judge, judgement, graded, answers, place)


def _is_of_an_older_version(change: str) -> bool:
    """Whether a change is of what older versions computed otherwise: intervals over haystacks, thresholds on scores."""
    field, _, _ = change.partition(":")
    return field.startswith("calibration") or field.endswith("interval") or field == "haystacks"


def _has_grown(journal: Path, digest: str) -> bool:
    """Whether a journal begins with what had the sha256 `digest`: grading that ended early adds lines and no scores."""
    so_far = hashlib.sha256()
    with journal.open("rb") as lines:
        for line in lines:
            so_far.update(line)
            if so_far.hexdigest() == digest:
                return True
    return False


def _is_named_by_its_hash(judge: JudgeIdentity) -> bool:
    readable, _, _ = judge.id.rpartition("-")
    return judge.id == judge_id(readable, judge.templates_sha256, judge.model, judge.parameters, judge.endpoint)


def _check_index(indexed: IndexEntry | None, again: IndexEntry) -> str | None:
    """Whether the index has what the run's files give; when the answers were done may be later now."""
    if indexed is None:
        return None
    changed = differences(
        msgspec.to_builtins(indexed), msgspec.to_builtins(msgspec.structs.replace(again, ended_at=indexed.ended_at))
    )
    other = f"{INDEX}: the files of run '{again.run}' and judge {again.judge} give another line"
    return f"{other} ({'; '.join(changed[:3])})" if changed else None


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
