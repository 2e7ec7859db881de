"""`run.json`: everything needed to tell what a run was, written first and updated at the end."""

import functools
import platform
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import metadata
from itertools import count
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from longmemeval import __version__
from longmemeval.core.files import list_folders, safe_name, write_atomic
from longmemeval.core.remote.places import as_given
from longmemeval.core.secrets.redaction import record_without_secrets, redact
from longmemeval.core.text_files import UnreadableError, decode_format, decode_json
from longmemeval.dataset import Dataset
from longmemeval.errors import HarnessError, IntegrityError, nearest
from longmemeval.results.selection import Selection
from longmemeval.results.settings import RunKind, RunSettings, kind_of, settings_of

FORMAT = 1
_PACKAGES = (
    "msgspec",
    "numpy",
    "hnswlib",
    "litellm",
    "openai",
    "fastembed",
    "joblib",
    "rank-bm25",
)
RECORDED_NAMES = frozenset({"run_id", "name", "preset", "spec", "preparation"}) | {
    *("question_ids", "fixtures", "files", "selection", "merged_from", "extended_from", "format", "kind", "status")
}
"""Keys of records under which names, ids and hashes stand, by which a run is found and read."""
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,119}")


RunStatus = Literal["running", "completed", "incomplete", "failed", "interrupted"]
"""`completed`: every question has an answer; `incomplete`: it ended and some have none, resuming asks those again."""


class MergedShard(Struct, frozen=True):
    """One of the runs that a run was merged from."""

    run_id: str
    shard: str
    """Such as `3/8`."""
    questions: int
    started_at: str
    ended_at: str
    manifest_sha256: str
    """Of its `run.json`."""
    files: dict[str, str]
    """sha256 of its journals, those of judgements too."""
    environment: dict[str, Any]
    """As in its manifest."""


class EarlierExtent(Struct, frozen=True):
    """What a run asked before it was extended to more questions."""

    questions: int
    selection: Selection
    until: str
    """When it was extended."""


class RunManifest(Struct, frozen=True):
    """The record of one run. `settings` is what must be unchanged for a run to be continued."""

    format: int
    run_id: str
    status: RunStatus
    dataset: dict[str, str]
    """Name, path, sha256 of the bytes and sha256 of the content."""
    settings: RunSettings
    """Of the kind of run that it is."""
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
    selection: Selection | None = None
    """How `question_ids` were chosen; None: an earlier version did not record it."""
    merged_from: tuple[MergedShard, ...] = ()
    """The shards that `merge` made it from, in their order."""
    extended_from: tuple[EarlierExtent, ...] = ()
    """What it asked before, where `--extend` added questions; the first extent first."""
    templates: dict[str, str] = {}
    """Texts of the prompts that are not shipped, by their hash; those of a protocol are in `settings.protocol`."""
    sweep: str | None = None
    """Name of the sweep that the run is part of; None: of none, or an earlier version did not record it."""

    @property
    def kind(self) -> RunKind:
        """What the run holds."""
        return kind_of(self.settings)


def now() -> str:
    """The wall clock, for records only."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def environment() -> dict[str, Any]:
    """Where and with what this process runs."""
    return {
        "packages": dict(_versions()),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "git": _git_state(),
        "command": [Path(sys.argv[0]).name, *map(redact, sys.argv[1:])],
    }


@functools.cache
def _versions() -> Mapping[str, str]:
    """Packages and their versions; read once, as it takes longer than all else that a manifest tells."""
    versions = {"longmemeval": __version__}
    for package in _PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return versions


def dataset_record(dataset: Dataset) -> dict[str, str]:
    """Which data a run answers, by both identities; the path as it was given finds it again in `evaluate`."""
    return {
        "name": dataset.name,
        "path": as_given(str(dataset.path)),
        "sha256": dataset.sha256,
        "content_sha256": dataset.content_sha256,
    }


def _git_state() -> dict[str, Any] | None:
    """Commit and dirty flag of the source tree this package runs from; None for an installed wheel."""
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
    """`run_id` itself, if it can be a folder name.

    Raises:
        HarnessError: it holds separators, is hidden or too long.
    """
    if not _RUN_ID.fullmatch(run_id):
        raise HarnessError(
            f"'{run_id}' cannot be a run id",
            fix="Use letters, digits and . _ + - (at most 120, beginning with a letter or digit)",
        )
    return run_id


def default_run_id(results_dir: Path, *parts: str) -> str:
    """A name of what is run (data set, memory, model, say) and when; numbered where that is taken."""
    name = "_".join(safe_name(part.replace("/", "-").replace(":", "-")) for part in parts)
    run_id = f"{name.replace('%', '-').replace('~', '-')[:100]}_{time.strftime('%Y%m%d-%H%M%S')}"
    numbered = (f"{run_id}-{number}" for number in count(2))
    while (results_dir / run_id).exists():
        run_id = next(numbered)
    return run_id


def run_ids(results_dir: Path) -> list[str]:
    """All runs there are, by name."""
    return [folder.name for folder in list_folders(results_dir) if (folder / "run.json").exists()]


def run_folder(results_dir: Path, run_id: str) -> Path:
    """The folder of an existing run.

    Raises:
        HarnessError: there is no such run (with the nearest id).
    """
    folder = results_dir / check_run_id(run_id)
    if not (folder / "run.json").exists():
        fix = nearest(run_id, run_ids(results_dir))
        raise HarnessError(f"There is no run '{run_id}'", where=str(results_dir), fix=fix)
    return folder


def read_manifest(folder: Path) -> RunManifest:
    """The manifest of a run.

    Raises:
        HarnessError: it is of a newer format.
        IntegrityError: it is damaged, or that of a run of another name than the folder's.
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
    """The manifest in a folder, of whatever run it is.

    Raises:
        HarnessError: it is of a newer format.
        IntegrityError: it is damaged.
    """
    path = folder / "run.json"
    data = path.read_bytes()
    try:
        document = decode_format(data, _Document, FORMAT, "The run", str(path))
        settings = msgspec.to_builtins(settings_of(document.kind, document.settings))
        return msgspec.convert({**decode_json(data, dict[str, Any]), "settings": settings}, RunManifest)
    except (UnreadableError, msgspec.ValidationError) as error:
        raise IntegrityError(f"The manifest is damaged: {error}", where=str(path)) from error


class _Document(Struct):
    kind: RunKind
    settings: dict[str, Any]


def document_of(manifest: RunManifest) -> dict[str, Any]:
    """A manifest as it is in `run.json`."""
    document: dict[str, Any] = msgspec.to_builtins(manifest)
    first = {"format": manifest.format, "run_id": manifest.run_id, "kind": manifest.kind}
    return first | document | {"settings": manifest.settings.plain}


def write_manifest(folder: Path, manifest: RunManifest) -> None:
    """Write `run.json`, whole or not at all.

    Raises:
        HarnessError: the disk refuses (full, say); `run.json` is as it was.
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


def differences(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    prefix: str = "",
    *,
    said: str = "was {old!r}, now {new!r}",
) -> list[str]:
    """Where two settings differ, one sentence each: `reading.method: was 'con', now 'direct'`."""
    found = []
    for key in sorted({*before, *after}):
        old, new = before.get(key), after.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            found.extend(differences(old, new, f"{prefix}{key}.", said=said))
        elif isinstance(old or new, Mapping) and old != new and not (old and new):
            found.extend(differences(old or {}, new or {}, f"{prefix}{key}.", said=said))
        elif old != new:
            shown = {"old": _NOT_SET if old is None else old, "new": _NOT_SET if new is None else new}
            found.append(f"{prefix}{key}: {said.format(**shown)}")
    return found


class _NotSet:
    """Stands for a setting that is not there."""

    def __repr__(self) -> str:
        return "not set"


_NOT_SET = _NotSet()
