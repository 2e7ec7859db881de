"""Going on with a run that was begun before: only as it was begun, and only if its journal is as it was left."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from longmemeval.errors import HarnessError, IntegrityError
from longmemeval.pipeline.runs.journal import Journal
from longmemeval.pipeline.runs.manifest import RunManifest, differences, stored_manifest

R = TypeVar("R")
_Parts = Mapping[str, Mapping[str, str]]
"""Haystack id -> part -> sha256."""


def begun_or_new(folder: Path, journal: Journal[R], new: RunManifest) -> RunManifest:
    """The manifest on disk if the run was begun before, else `new`.

    Args:
        folder: the run's folder.
        journal: its answers or rankings, held by the caller.
        new: the manifest that the present command would begin with.

    Raises:
        HarnessError: something that decides them has changed since.
        IntegrityError: they are not the ones the run left, or nothing says how they were made.
    """
    if (folder / "run.json").exists():
        before = stored_manifest(folder)
        if before.run_id != new.run_id:
            raise HarnessError(
                f"The folder of run '{new.run_id}' holds run '{before.run_id}'",
                where=str(folder),
                fix=f"Give --run-id {before.run_id}, or another one for a new run",
            )
        _check_same(before, new)
        _check_untouched(before, journal)
        return before
    if journal.records():
        raise IntegrityError(
            f"There is {journal.path.name} but no run.json: nothing says how it was made",
            where=str(folder),
            fix="Restore run.json from a copy, or choose another --run-id",
        )
    return new


def _check_same(before: RunManifest, new: RunManifest) -> None:
    # Other settings read other fixtures; what was set is the cause to name.
    changed = differences(_asked(before), _asked(new)) or _other_parts(before.fixtures, new.fixtures)
    if changed:
        shown = "; ".join(_shorten(change) for change in changed[:5])
        more = f" and {len(changed) - 5} more" if len(changed) > 5 else ""
        raise HarnessError(
            f"Run '{before.run_id}' was started with other settings: {shown}{more}",
            fix="Repeat the command that started it, or choose another --run-id for a new run",
        )


def _other_parts(before: _Parts, new: _Parts) -> list[str]:
    """Where other parts are read; one that only one of the two tells of (words it counted for itself) is no other."""

    def compared(parts: _Parts, others: _Parts) -> dict[str, dict[str, str]]:
        return {
            name: {part: digest for part, digest in own.items() if part in others.get(name, {})}
            for name, own in parts.items()
        }

    return differences(compared(before, new), compared(new, before), "fixtures.")


def _check_untouched(before: RunManifest, journal: Journal[R]) -> None:
    """A process that was killed left no hash; whatever ended otherwise did."""
    path = journal.path
    digest = before.files.get(path.name)
    if digest is not None and journal.sha256() != digest:
        raise IntegrityError(
            f"{path.name} was changed after the run ended (its sha256 is not the manifest's)",
            where=str(path),
            fix="Restore the file from a copy: a question is answered once",
        )


def _asked(manifest: RunManifest) -> dict[str, Any]:
    """What the command asked for, as plain JSON values."""
    view = {
        "data set content": manifest.dataset.get("content_sha256"),
        "settings": manifest.settings.plain,
        "questions": manifest.question_ids,
    }
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(view))
    return plain


def _shorten(text: str) -> str:
    return text if len(text) <= 160 else text[:157] + "..."
