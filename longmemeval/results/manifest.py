"""`run.json`: the full record of a run, written first and updated at the end."""

import functools
import platform
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import metadata
from itertools import count
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from longmemeval import __version__
from longmemeval.core.files import list_folders, safe_name, write_atomic
from longmemeval.core.remote.places import as_given
from longmemeval.core.secrets.parameters import public_command, public_words, words_without_options
from longmemeval.core.secrets.redaction import record_without_secrets, redact
from longmemeval.core.text_files import UnreadableError, decode_format, decode_json
from longmemeval.dataset import Dataset
from longmemeval.errors import HarnessError, IntegrityError, nearest
from longmemeval.records import Question
from longmemeval.results.selection import Selection, base_of
from longmemeval.results.settings import RunKind, RunSettings, kind_of, settings_of

FORMAT = 2
"""Format of `run.json`; format 1, of version 0.2, is read too."""
_PACKAGES = (
    "msgspec",
    "numpy",
    "hnswlib",
    "litellm",
    "openai",
    "fastembed",
    "loky",
    "rank-bm25",
)
RECORDED_NAMES = frozenset({"run_id", "name", "preset", "spec", "preparation"}) | {
    *("question_ids", "fixtures", "files", "selection", "merged_from", "extended_from", "format", "kind", "status")
}
"""Keys of records that hold names, ids and hashes, by which a run is found and read."""
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,119}")


RunStatus = Literal["running", "completed", "incomplete", "failed", "interrupted"]
"""`completed`: every question has an answer; `incomplete`: it ended without some answers, which a resume asks for."""


class MergedShard(Struct, frozen=True):
    """One of the runs that a run was merged from."""

    run_id: str
    shard: str
    """Shard such as `3/8`."""
    questions: int
    started_at: str
    ended_at: str
    manifest_sha256: str
    """Hash of its `run.json`."""
    files: dict[str, str]
    """sha256 of its journals, including judgements."""
    environment: dict[str, Any]
    """Environment in its manifest."""


class EarlierExtent(Struct, frozen=True):
    """The questions of a run before it was extended."""

    questions: int
    selection: Selection
    until: str
    """Time of the extension."""


class RunManifest(Struct, frozen=True):
    """The record of one run. A run can be resumed only with the same `settings`."""

    format: int
    run_id: str
    status: RunStatus
    dataset: dict[str, str]
    """Name, path, sha256 of the bytes and sha256 of the content."""
    settings: RunSettings
    """Settings by the kind of run."""
    question_ids: tuple[str, ...]
    fixtures: dict[str, dict[str, str]]
    """Haystack id -> part -> sha256 of the part that was read."""
    environment: dict[str, Any]
    """Package versions, Python, platform, git commit and dirty flag, command line."""
    started_at: str
    ended_at: str = ""
    totals: dict[str, Any] = {}
    """Answered, failed, empty and cut replies, shortened contexts, usage, seconds."""
    files: dict[str, str] = {}
    """sha256 of the journals as they were at the end."""
    selection: Selection = Selection()
    """The selection of `question_ids`."""
    merged_from: tuple[MergedShard, ...] = ()
    """The shards that `merge` made it from, in order."""
    extended_from: tuple[EarlierExtent, ...] = ()
    """Its earlier questions, if `--extend` added some; the first extent first."""
    templates: dict[str, str] = {}
    """Texts of prompts that are not shipped, by their hash; those of a protocol are in `settings.protocol`."""
    prepare: str = ""
    """The command that made its fixtures; empty: an earlier version did not record it."""
    sweep: str | None = None
    """Name of the sweep that the run belongs to; None: none, or an earlier version did not record it."""
    error: str = ""
    """The error that ended it; empty: none did, or an earlier version did not record it."""

    @property
    def kind(self) -> RunKind:
        """The kind of run: answers, hypotheses or rankings."""
        return kind_of(self.settings)


def command_to_continue(manifest: RunManifest) -> str:
    """Return the command, or the call, that answers what a run has not answered."""
    run_id, command = manifest.run_id, list(map(str, manifest.environment.get("command", ())))
    words = command[1:]
    if not command or not command[0].startswith(("longmemeval", "__main__.py")):  # A script or notebook of the user.
        return f"run(…, name='{run_id}')"
    if words[:1] == ["run"]:
        named = base_of(run_id) if manifest.selection.shard else run_id
        words = [*words_without_options(words, "--run-id", "--resume", "--extend", "--repeat"), "--resume", named]
    return shlex.join(["longmemeval", *words])


def planned_manifest(
    dataset: Dataset, settings: RunSettings, questions: Sequence[Question], selection: Selection, run_id: str = ""
) -> RunManifest:
    """Return the manifest of a run that has read nothing yet."""
    return RunManifest(
        format=FORMAT,
        run_id=run_id,
        status="running",
        dataset=dataset_record(dataset),
        settings=settings,
        question_ids=tuple(question.question_id for question in questions),
        fixtures={},
        environment={},
        started_at="",
        selection=selection,
    )


def environment() -> dict[str, Any]:
    """Return the record of versions, platform, git state and command line of this process."""
    return {
        "packages": dict(_versions()),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "git": _git_state(),
        "command": [Path(sys.argv[0]).name, *map(redact, public_words(sys.argv[1:]))],
    }


@functools.cache
def _versions() -> Mapping[str, str]:
    """Return packages and their versions; cached, since reading them takes longer than the rest of a manifest."""
    versions = {"longmemeval": __version__}
    for package in _PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return versions


def dataset_record(dataset: Dataset) -> dict[str, str]:
    """Return the record of a dataset: both its hashes, and the path as given, where `evaluate` will find it."""
    return {
        "name": dataset.name,
        "path": as_given(str(dataset.path)),
        "sha256": dataset.sha256,
        "content_sha256": dataset.content_sha256,
    }


def _git_state() -> dict[str, Any] | None:
    """Return commit and dirty flag of the source tree this package runs from; None for an installed wheel."""
    source = Path(__file__).resolve().parents[2]
    if not (source / ".git").exists():
        return None
    try:
        commit = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=source, capture_output=True, text=True, check=True, timeout=10
        ).stdout.strip()
        changes = subprocess.run(
            ["git", "status", "--porcelain", "--untracked-files=no"],
            cwd=source,
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    return {"commit": commit, "dirty": bool(changes.strip())}


def check_run_id(run_id: str) -> str:
    """Return `run_id` if it can be a folder name.

    Raises:
        HarnessError: it contains separators, is hidden or too long.
    """
    if not _RUN_ID.fullmatch(run_id):
        raise HarnessError(
            f"'{run_id}' cannot be a run id",
            fix="Use letters, digits and . _ + - (at most 120, beginning with a letter or digit)",
        )
    return run_id


def default_run_id(results_dir: Path, *parts: str) -> str:
    """Return a run id made of `parts` (such as dataset, memory, model) and the time; numbered if it is taken."""
    name = "_".join(safe_name(part.replace("/", "-").replace(":", "-")) for part in parts)
    run_id = f"{name.replace('%', '-').replace('~', '-')[:100]}_{time.strftime('%Y%m%d-%H%M%S')}"
    numbered = (f"{run_id}-{number}" for number in count(2))
    while (results_dir / run_id).exists():
        run_id = next(numbered)
    return run_id


def run_ids(results_dir: Path) -> list[str]:
    """Return the ids of all runs, in alphabetical order."""
    return [folder.name for folder in list_folders(results_dir) if (folder / "run.json").exists()]


def runs_by_change(results_dir: Path) -> dict[str, float]:
    """Return the ids of all runs, the last changed first, with the seconds since the epoch of that change."""
    changed = {}
    for run_id in run_ids(results_dir):
        with suppress(FileNotFoundError):  # It was removed meanwhile.
            changed[run_id] = (results_dir / run_id / "run.json").stat().st_mtime
    return dict(sorted(changed.items(), key=lambda pair: pair[1], reverse=True))


def run_folder(results_dir: Path, run_id: str) -> Path:
    """Return the folder of an existing run.

    Raises:
        HarnessError: the run is unknown; names the nearest id.
    """
    folder = results_dir / check_run_id(run_id)
    if not (folder / "run.json").exists():
        fix = nearest(run_id, run_ids(results_dir))
        raise HarnessError(f"Unknown run '{run_id}'", where=str(results_dir), fix=fix)
    return folder


def read_manifest(folder: Path) -> RunManifest:
    """Return the manifest of a run.

    Raises:
        HarnessError: it is of a newer format, or of version 0.1.
        IntegrityError: it is damaged, or its run id is not the folder's name.
    """
    manifest = stored_manifest(folder)
    if manifest.run_id != folder.name:
        raise IntegrityError(
            f"The folder '{folder.name}' holds run '{manifest.run_id}': it was renamed, or run.json is another run's",
            where=str(folder),
            fix=f"Rename the folder back to '{manifest.run_id}', the name by which its scores and the index know it",
        )
    return manifest


def stored_manifest(folder: Path) -> RunManifest:
    """Return the manifest in a folder, whatever its run id.

    Raises:
        HarnessError: it is of a newer format, or of version 0.1.
        IntegrityError: it is damaged.
    """
    return manifest_in(folder / "run.json")


def manifest_in(path: Path) -> RunManifest:
    """Return the manifest in a file, in any folder.

    Raises:
        OSError: it cannot be read.
        HarnessError: it is of a newer format, or of version 0.1.
        IntegrityError: it is damaged.
    """
    data = manifest_bytes(path)
    try:
        document = decode_format(data, _Document, FORMAT, "The run", str(path))
        _refuse_older(document.environment, path)
        settings = msgspec.to_builtins(settings_of(document.kind, document.settings))
        manifest = msgspec.convert({**decode_json(data, dict[str, Any]), "settings": settings}, RunManifest)
    except (UnreadableError, msgspec.ValidationError) as error:
        raise IntegrityError(f"The manifest is damaged: {error}", where=str(path)) from error
    command = public_words(list(map(str, manifest.environment.get("command", ()))))
    made = manifest.environment | ({"command": command} if command else {})
    return msgspec.structs.replace(manifest, environment=made, prepare=public_command(manifest.prepare))


def manifest_bytes(path: Path) -> bytes:
    """Return the content of a `run.json`, read again only if the file has changed since.

    Raises:
        OSError: it cannot be read.
    """
    stat = path.stat()
    return _content(path, (stat.st_ino, stat.st_mtime_ns, stat.st_size))


@functools.lru_cache(maxsize=64)
def _content(path: Path, state: tuple[int, int, int]) -> bytes:
    return path.read_bytes()


class _Document(Struct):
    kind: RunKind
    settings: dict[str, Any]
    environment: dict[str, Any] = {}


def settings_as_stored(folder: Path) -> RunSettings:
    """Return the settings in the `run.json` of a folder, which is known to be readable, with secrets it may hold."""
    document = decode_json(manifest_bytes(folder / "run.json"), _Document)
    return settings_of(document.kind, document.settings, as_stored=True)


def _refuse_older(made_by: Mapping[str, Any], path: Path) -> None:
    """Raise if version 0.1 started the run: its journals followed other rules, and its judges had no address."""
    version = str(made_by.get("packages", {}).get("longmemeval", ""))
    if version.startswith("0.1."):
        command = shlex.join(public_words(list(map(str, made_by.get("command", ()))))) or "longmemeval run"
        raise HarnessError(
            f"Version {version} started this run, which this version can no longer read",
            where=str(path),
            fix=f"Repeat it under another --run-id with `{command}`; the files of this run stay as they are",
        )


def document_of(manifest: RunManifest) -> dict[str, Any]:
    """Return a manifest as it is in `run.json`."""
    document: dict[str, Any] = msgspec.to_builtins(manifest)
    first = {"format": manifest.format, "run_id": manifest.run_id, "kind": manifest.kind}
    return first | document | {"settings": manifest.settings.plain}


def write_manifest(folder: Path, manifest: RunManifest) -> None:
    """Write `run.json` atomically.

    Raises:
        HarnessError: it cannot be written, for instance because the disk is full; `run.json` is unchanged.
    """
    path = folder / "run.json"
    try:
        document = record_without_secrets(document_of(manifest), RECORDED_NAMES)
        write_atomic(path, msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")
    except OSError as error:
        raise HarnessError(
            f"The manifest cannot be written: {error.strerror}",
            where=str(path),
            fix="Fix this and rerun the command; finished work is kept",
        ) from error
