"""Verify that hashes hold, and every number recomputes from the files."""

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from random import randrange
from typing import Any

import msgspec
from msgspec import Struct, structs

from longmemeval.core.files import safe_name, write_atomic
from longmemeval.dataset import Dataset
from longmemeval.errors import HarnessError, IntegrityError, nearest
from longmemeval.judges.definition import rules_of
from longmemeval.measures.metrics import METRICS_FORMAT, Metrics
from longmemeval.memory.configuration import MemoryConfiguration, as_configuration, definition_of, known_parts, parts_of
from longmemeval.pipeline.verify.fixtures import KnownParts, ReadFixtures, Remaker, cannot_prove
from longmemeval.pipeline.verify.judge_checks import ScoreChecks, bridge_results, check_bridge
from longmemeval.pipeline.verify.preparation import REPORTED, DataOf, PreparationCheck, code_since, read_other_code
from longmemeval.pipeline.verify.retrieval import check_retrieval
from longmemeval.pipeline.verify.signature import (
    FORMAT,
    SIGNATURE,
    Signature,
    check_hashes,
    check_signature,
    covers_no_checks,
    file_hashes,
    fingerprint,
    private_key,
    signed_bytes,
)
from longmemeval.results.index import INDEX, IndexEntry, earlier_settings_sha256, index_entry, read_index
from longmemeval.results.lines import ANSWERS, PROMPTS, RANKINGS
from longmemeval.results.listing import named_runs
from longmemeval.results.manifest import (
    check_run_id,
    read_manifest,
    run_folder,
    run_ids,
    settings_as_stored,
    stored_manifest,
)
from longmemeval.results.preparation import PREPARE_JOURNAL
from longmemeval.results.run_files import RunFiles
from longmemeval.results.run_questions import RunQuestions, check_selection, dataset_of
from longmemeval.results.scores.checked import metrics_of
from longmemeval.results.scores.checks import (
    changes,
    check_answers,
    check_files,
    check_judgements,
    check_labels,
    check_scores,
    earlier_version_note,
    outdated,
)
from longmemeval.results.scores.stored import read_metrics
from longmemeval.results.settings import AnswerSettings, RetrievalSettings
from longmemeval.settings import Folders
from longmemeval.storage.fixture import stored_folders
from longmemeval.storage.parts import Part

_REPLIES = "that answers and labels are replies of the models and judges named"
_UNREAD = "The run is signed; --public-key FILE checks by whom"
_UNCOVERED = "An earlier version signed the run: the check of the judge is not covered by the signature; sign it again"


class Verification(Struct, frozen=True):
    """The checks made and the problems found."""

    subject: str
    checked: int
    problems: tuple[str, ...]
    notes: tuple[str, ...] = ()
    """Notes on what else was checked, or checked only in part."""
    judge_checks: tuple[str, ...] = ()
    """The judge checks that corrected scores are based on, by their path in the results folder."""
    not_checked: tuple[str, ...] = ()
    """What could be checked and was not, each with the reason."""
    cannot_prove: tuple[str, ...] = ()
    """What no file can prove."""


def verify(
    subject: str,
    *,
    dataset: str | None = None,
    memories: Sequence[MemoryConfiguration | str] = (),
    public_key: Path | None = None,
    folders: Folders | None = None,
    remaker: Remaker | None = None,
) -> Verification:
    """Check a run, a preparation named `DATASET` or `DATASET/PREPARATION`, or a bridge between judges.

    Args:
        subject: a run id, a preparation, or the path of a bridge in the results.
        dataset: the location of the data, if they have moved or are not in the catalogue.
        memories: unregistered memories with parts in a preparation; registered ones are known.
        public_key: the reader's copy of the key with which a run has to be signed.
        remaker: makes parts again; one that several subjects share makes each once. None: a new one.

    Raises:
        HarnessError: there is neither a run nor a preparation of that name.
        IntegrityError: the run's manifest, data or a journal cannot be read at all.
    """
    folders, remaker = folders or Folders(), remaker or Remaker(randrange(1_000_000))
    if bridge_results(file := folders.results_dir / subject):
        return structs.replace(_collect(subject, check_bridge(file, folders, dataset)), cannot_prove=(_REPLIES,))
    named = list(map(as_configuration, memories))
    given = dict[str, Part[Any]]()
    for memory in named:
        given |= definition_of(memory).all_parts() | {part.name: part for part in parts_of(memory)}
    run = _run_folder(subject, folders)
    if run is not None:
        return _verified(
            _Run(run, dataset, folders), public_key, KnownParts(given, {one.preset for one in named}), remaker
        )
    preparations = _preparations(subject, folders)
    if not preparations:
        _refuse_lost_manifest(folders.results_dir / subject)
        raise HarnessError(f"Unknown run or preparation '{subject}'", fix=nearest(subject, _subjects(folders)))
    if public_key:
        raise HarnessError(f"'{subject}' is a preparation; only runs are signed", fix="Leave out --public-key")
    known, data = known_parts() | given, DataOf(dataset, folders.data_dir)
    checked = [PreparationCheck(folder, known, data, remaker) for folder in preparations]
    found = _collect(subject, (outcome for check in checked for outcome in check.outcomes()))
    unknown = sorted(set[str]().union(*(check.unknown for check in checked)))
    return structs.replace(
        found,
        notes=tuple(map(_unknown_part_note, unknown)),
        not_checked=tuple(dict.fromkeys(gap for check in checked for gap in check.not_checked)),
        cannot_prove=(REPORTED,),
    )


def place_of(folder: Path, folders: Folders) -> tuple[str, Folders] | None:
    """Return the name of the run or preparation in a folder, wherever it is, and the folders to look in.

    Args:
        folder: any path; None is returned if it is neither. The file of a bridge between judges has a name too.
        folders: the folders in force.
    """
    path = folder.absolute()
    if results := bridge_results(path):
        return path.relative_to(results).as_posix(), beside(results / "run", folders)
    if not path.is_dir():
        return None
    if (path / "run.json").is_file():
        here = path.parent == folders.results_dir.absolute()
        return path.name, folders if here else beside(path, folders)
    if (path / PREPARE_JOURNAL).is_file():
        name = f"{path.parent.name}/{path.name}"
        return name, folders.model_copy(update={"prepared_dir": path.parent.parent})
    return None


def beside(run: Path, folders: Folders) -> Folders:
    """Return the folders of a run that somebody handed over: its fixtures are next to its results, or absent."""
    prepared = run.parent.parent / folders.prepared_dir.name
    return folders.model_copy(update={"results_dir": run.parent, "prepared_dir": prepared})


class _Run:
    """A run that is checked; its data are opened once, and only if needed."""

    def __init__(self, folder: Path, dataset: str | None, folders: Folders) -> None:
        self.folder, self.folders, self._dataset = folder, folders, dataset
        self.files = RunFiles(folder, look_into_prompts=True, manifest=stored_manifest(folder))
        # The figures of rankings are of another form: `check_retrieval` reads them.
        self.holds_rankings = self.files.manifest.kind == "retrieval"
        self.metric_files = [] if self.holds_rankings else sorted((folder / "metrics").glob("*.json"))

    @cached_property
    def metrics(self) -> dict[Path, Metrics | IntegrityError]:
        """The scores of each file, read once, or its error."""
        return {file: _read(file) for file in self.metric_files}

    @cached_property
    def index(self) -> list[IndexEntry]:
        return read_index(self.folders.results_dir)

    @cached_property
    def data(self) -> Dataset:
        return dataset_of(self.files.manifest, self._dataset, self.folders)

    @cached_property
    def asked(self) -> RunQuestions:
        return RunQuestions(self.files.manifest, self.data)

    @cached_property
    def score_checks(self) -> ScoreChecks | None:
        """The checks of its judges; None if it has no scores that could be corrected."""
        if self.holds_rankings:
            return None
        judges = [metrics.judge for metrics in self.metrics.values() if not isinstance(metrics, IntegrityError)]
        return ScoreChecks(judges, self.asked, self.folders) if judges else None


def _verified(run: _Run, public_key: Path | None, given: KnownParts, remaker: Remaker) -> Verification:
    known = run.files.manifest.run_id == run.folder.name
    score_checks = run.score_checks if known else None
    checks = tuple(score_checks.used) if score_checks else ()
    signed = check_signature(run.folder, public_key, checks) if public_key else ()
    manifest = run.files.manifest
    fixtures, gaps = None, list[str]()
    try:
        fixtures = ReadFixtures(manifest, run.data, run.folders.prepared_dir, given, remaker) if known else None
    except HarnessError as error:  # Scores need the data: then the check of these raises it.
        gaps.append(f"the fixtures: {error.what}")
    outcomes = chain(
        signed,
        _check_run(run),
        fixtures.outcomes() if fixtures else (),
        score_checks.outcomes() if score_checks else (),
    )
    found = _collect(run.folder.name, outcomes)
    notes = [*(score_checks.notes() if score_checks else ())]
    if (run.folder / SIGNATURE).exists():
        notes += [] if public_key else [_UNREAD]
        notes += [_UNCOVERED] if checks and covers_no_checks(run.folder) else []
    judges = [metrics.judge.model for metrics in run.metrics.values() if not isinstance(metrics, IntegrityError)]
    return structs.replace(
        found,
        notes=(*notes, *code_since(manifest)),
        judge_checks=checks,
        not_checked=(
            *gaps,
            *(fixtures.not_checked if fixtures else ()),
            *(() if run.holds_rankings else _unscored(run.files, run.index)),
        ),
        cannot_prove=cannot_prove(manifest, (judge for judge in judges if not rules_of(judge))),
    )


def _unknown_part_note(part: str) -> str:
    return f"Only the hash of part '{part}' is checked; give --memory the memory that reads it to check its content"


def _collect(subject: str, checks: Iterable[str | None]) -> Verification:
    outcomes = list(checks)
    return Verification(subject, len(outcomes), tuple(problem for problem in outcomes if problem))


def _run_folder(subject: str, folders: Folders) -> Path | None:
    try:
        folder = folders.results_dir / check_run_id(subject)
    except HarnessError:
        return None
    return folder if (folder / "run.json").exists() else None


def _refuse_lost_manifest(folder: Path) -> None:
    if any((folder / name).exists() for name in (ANSWERS, RANKINGS)):
        raise IntegrityError(
            f"Run '{folder.name}' has no run.json, so its settings are unknown",
            where=str(folder),
            fix="Restore it from a copy",
        )


def _preparations(subject: str, folders: Folders) -> list[Path]:
    """Return the folders of the preparations that `DATASET` or `DATASET/PREPARATION` names."""
    dataset, _, preparation = subject.partition("/")
    root = folders.prepared_dir / safe_name(dataset)
    return [folder for folder in stored_folders(root) if not preparation or folder.name == safe_name(preparation)]


def _subjects(folders: Folders) -> list[str]:
    preparations = [
        f"{dataset.name}/{folder.name}"
        for dataset in stored_folders(folders.prepared_dir)
        for folder in stored_folders(dataset)
    ]
    return run_ids(folders.results_dir) + preparations


def _check_run(run: _Run) -> Iterator[str | None]:
    files, manifest = run.files, run.files.manifest
    if manifest.run_id != run.folder.name:
        yield f"run.json: is of run '{manifest.run_id}'; rename the folder back, or restore the file"
        return
    yield from check_files(files)
    yield from read_other_code(manifest, run.folders)
    if manifest.merged_from:
        merged, in_run = sum(shard.questions for shard in manifest.merged_from), len(manifest.question_ids)
        lost = f"run.json: its shards have {merged} questions, the run has {in_run}"
        yield lost if merged != in_run else None
    if isinstance(manifest.settings, RetrievalSettings):
        check_selection(manifest, run.data, list(run.data.questions()))
        yield from check_retrieval(files, manifest.settings, run.data)
        return
    yield from check_answers(files)
    yield from _check_prompts(files)
    for judge_id in files.judge_ids:
        yield from check_judgements(files, judge_id)
    yield from _check_scored(files, run.index)
    newest = {entry.judge: entry for entry in run.index if entry.run == run.folder.name}
    for file, stored in run.metrics.items():
        yield from _check_metrics(files, file, stored, run.asked, newest)


def _check_prompts(files: RunFiles) -> Iterator[str | None]:
    """Check that every prompt has its hash, and every answer its prompt."""
    if not files.sha256(PROMPTS):
        settings = files.manifest.settings
        saves = isinstance(settings, AnswerSettings) and settings.save_prompts
        sent = saves and any(answer.prompt_sha256 for answer in files.answers.values())
        yield f"{PROMPTS}: is missing" if sent and PROMPTS not in files.manifest.files else None
        return
    for prompt in files.prompts:
        changed = f"{PROMPTS}: a prompt of question '{prompt.question_id}' does not have its hash"
        yield None if prompt.intact else changed
    saved = {(prompt.question_id, prompt.sha256) for prompt in files.prompts}
    for answer in files.answers.values():
        known = not answer.prompt_sha256 or (answer.question_id, answer.prompt_sha256) in saved
        yield None if known else f"{PROMPTS}: the prompt of question '{answer.question_id}' is missing"


def _check_scored(files: RunFiles, index: Sequence[IndexEntry]) -> Iterator[str]:
    """Yield the scores of the present answers that are in the index but not in the folder."""
    for entry in index:
        is_own = (entry.run, entry.ended_at) == (files.folder.name, files.manifest.ended_at)
        if is_own and not (files.folder / "metrics" / f"{entry.judge}.json").exists():
            yield f"metrics/{entry.judge}.json: is missing, {INDEX} has its {entry.metric}"


def _unscored(files: RunFiles, index: Sequence[IndexEntry]) -> Iterator[str]:
    """Yield the judges in the index whose scores of earlier answers are in no file of the run."""
    for judge in sorted({entry.judge for entry in index if entry.run == files.folder.name}):
        if not (files.folder / "metrics" / f"{judge}.json").exists():
            yield f"{INDEX}: a line of judge {judge}, of which the run has no file"


def _read(file: Path) -> Metrics | IntegrityError:
    try:
        return read_metrics(file)
    except IntegrityError as error:
        return error


def _check_metrics(
    files: RunFiles,
    file: Path,
    stored: Metrics | IntegrityError,
    run_questions: RunQuestions,
    index: Mapping[str, IndexEntry],
) -> Iterator[str | None]:
    if isinstance(stored, IntegrityError):
        yield f"metrics/{file.name}: is damaged: {stored}"
        return
    if stored.judge.id != file.stem:
        yield f"metrics/{file.name}: holds the figures of judge '{stored.judge.id}'"
        return
    again = metrics_of(files, run_questions, stored.judge)
    contradictions = list(check_scores(files, stored, again))
    yield from contradictions
    yield from check_labels(files, stored.judge, run_questions)
    if older := outdated(files, stored, again):
        yield f"{older}; `longmemeval evaluate` writes it again"
    elif not any(contradictions):
        yield earlier_version_note(stored, again)
    if not older and stored.format == METRICS_FORMAT:
        note = run_questions.protocol_note(again.judge.official)
        entry = index_entry(run_questions.manifest, again, run_questions.part, note)
        yield _check_index(index.get(stored.judge.id), entry, files)


def _check_index(indexed: IndexEntry | None, again: IndexEntry, files: RunFiles) -> str | None:
    """Compare the index with the run's files; return the problem or None.

    Answering may have ended later since, the sentence about the protocol may be another version's, and earlier versions
    recorded the settings with the secrets of the memory.
    """
    if indexed is None:
        return None
    earlier = settings_as_stored(files.folder)
    if again.settings_sha256 != indexed.settings_sha256 == earlier_settings_sha256(files.manifest, earlier):
        again = structs.replace(again, settings_sha256=indexed.settings_sha256, memory=earlier.memory_name)
    again = structs.replace(again, ended_at=indexed.ended_at, protocol_note=indexed.protocol_note)
    changed = changes(indexed, again)
    other = f"{INDEX}: the files of run '{again.run}' and judge {again.judge} give another line"
    return f"{other} ({'; '.join(changed[:3])})" if changed else None


# Verify several subjects: runs by name, pattern or sweep, preparations, and folders wherever they are.


def verify_all(
    subjects: Sequence[str],
    *,
    sweep: str | None = None,
    dataset: str | None = None,
    memories: Sequence[MemoryConfiguration | str] = (),
    public_key: Path | None = None,
    seed: int | None = None,
    folders: Folders,
    tell: Callable[[str], None] = lambda line: None,
) -> list[Verification]:
    """Check runs and preparations; those given as folders come last.

    Args:
        subjects: run ids, patterns such as `demo-*`, preparations or folders.
        sweep: name of a sweep whose runs are checked too.
        dataset: as for `verify`, like `memories` and `public_key`.
        seed: draws what is made again of large runs; None: drawn anew.
        folders: the folders of subjects that are not folders themselves.
        tell: called with each note on runs of a sweep that are left out.

    Raises:
        HarnessError: nothing has a given name.
        IntegrityError: a subject cannot be read at all.
    """
    places = {name: place for name in subjects if (place := place_of(Path(name), folders))}
    names = [name for name in subjects if name not in places]
    if names or sweep is not None:
        names = named_runs(names, folders.results_dir, sweep=sweep, tell=tell)
    remaker = Remaker(randrange(1_000_000) if seed is None else seed)
    return [
        verify(name, dataset=dataset, memories=memories, public_key=public_key, folders=place, remaker=remaker)
        for name, place in [*((name, folders) for name in names), *places.values()]
    ]


# Sign a run: every file of it, and the judge checks that its corrected scores are based on.


def sign(run: str, key_file: Path, *, folders: Folders | None = None) -> Signature:
    """Sign a run that has ended and passes every check.

    A later change, such as another judge's judgements, is not covered; the run then has to be signed again.

    Args:
        run: its id.
        key_file: an Ed25519 private key, as PEM or OpenSSH.
        folders: the folders; None: from the environment.

    Returns:
        The content of `signature.json`.

    Raises:
        HarnessError: there is no such run, it has not ended, or the key cannot be used.
        IntegrityError: a check of `verify` fails.
    """
    folders = folders or Folders()
    folder = run_folder(folders.results_dir, run)
    key = private_key(key_file)
    if read_manifest(folder).status == "running":
        raise HarnessError(f"Run '{run}' has not ended", fix=f"Finish it first: longmemeval run --resume {run}")
    verification = verify(run, folders=folders)
    if problems := verification.problems:
        raise IntegrityError(
            f"Run '{run}' was not signed: {len(problems)} of its checks failed",
            where=problems[0],
            fix=f"Run `longmemeval verify {run}` to list them",
        )
    files, checks = file_hashes(folder), check_hashes(folders.results_dir, verification.judge_checks)
    signed = base64.b64encode(key.sign(signed_bytes(run, files, checks))).decode()
    signature = Signature(FORMAT, run, files, fingerprint(key.public_key()), signed, checks)
    write_atomic(folder / SIGNATURE, msgspec.json.format(msgspec.json.encode(signature), indent=2) + b"\n")
    return signature
