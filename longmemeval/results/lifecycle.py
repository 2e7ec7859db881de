"""The lifecycle of a run, from start through resume to end: the same for answers and for rankings.

It resumes only with the settings it was started with, and only if its journal is unchanged.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import structs

from longmemeval.core.files import remove_leftovers, sha256_file
from longmemeval.core.journal import Journal, StoredJournal, now
from longmemeval.core.text.figures import listed
from longmemeval.core.text.words import differences
from longmemeval.errors import BatchCancelledError, EndpointDownError, HarnessError, IntegrityError, SpendingLimitError
from longmemeval.llm.model_calls import CALLS
from longmemeval.memory.definition import HTTP
from longmemeval.records import Answer
from longmemeval.results.lines import ANSWERS, PROMPTS, RANKINGS
from longmemeval.results.manifest import EarlierExtent, RunManifest, RunStatus, stored_manifest, write_manifest
from longmemeval.results.selection import Selection

R = TypeVar("R")
_Parts = Mapping[str, Mapping[str, str]]
"""Haystack id -> part -> sha256."""
_CODE = "settings.memory.source."
"""What begins a difference in the code of a memory."""
_TO_BE_CONTINUED = (SpendingLimitError, EndpointDownError, BatchCancelledError)


WITHOUT_ANSWERS = "without-answers"
"""The folder in a run's folder that keeps its attempts with other settings; none of them has an answer."""


@contextmanager
def open_run(stored: StoredJournal[R], new: RunManifest, *, extend: bool = False) -> Iterator["RunWriter[R]"]:
    """Begin a run, or resume one that was started with the same settings. The journal lock is the run lock.

    A run without any answer may begin again with other settings; the files of the earlier attempt are set aside.

    Args:
        stored: its answers or rankings, in its folder.
        new: the manifest with which the present command would begin.
        extend: True if the command may ask more questions than the run did, as long as it asks those too.

    Raises:
        HarnessError: the run was started with other settings, or another process writes to it.
        IntegrityError: its journal was changed since the run wrote it.
    """
    folder = stored.path.parent
    if not extend and (folder / "run.json").exists():
        with Journal(stored.path, stored.kind, read=stored) as journal:
            if _begins_again(folder, journal, new):
                _set_aside(folder)
                stored = StoredJournal(stored.path, stored.kind)
    with Journal(stored.path, stored.kind, read=stored) as journal:
        remove_leftovers(folder / "run.json")
        yield RunWriter(folder, journal, resume_or_create(folder, journal, new, extend=extend))


def can_begin_again(folder: Path, records: Iterable[object]) -> bool:
    """Return whether a run has neither an answer nor anything that is made of one, so that its settings may change.

    Args:
        folder: folder of the run.
        records: the lines of its journal.
    """
    answered = any(not isinstance(record, Answer) or record.status == "ok" for record in records)
    return not answered and not any((folder / name).exists() for name in ("metrics", "judgements", "batches"))


def _begins_again(folder: Path, journal: Journal[R], new: RunManifest) -> bool:
    """Return whether a run may begin again, and `new` has other settings."""
    if new.kind != "run" or not can_begin_again(folder, journal.records()):
        return False
    before = stored_manifest(folder)
    return before.run_id == new.run_id and before.kind == "run" and bool(_changes(before, new))


def _set_aside(folder: Path) -> None:
    """Move the files of an attempt without answers; what it spent still counts towards the limit of the run."""
    place = next(place for number in count(1) if not (place := folder / WITHOUT_ANSWERS / str(number)).exists())
    place.mkdir(parents=True)
    # The manifest last: a process that is killed in between has moved nothing that a manifest speaks of.
    for name in (ANSWERS, PROMPTS, CALLS, "run.json"):
        if (folder / name).exists():
            (folder / name).rename(place / name)


class RunWriter(Generic[R]):
    """A run that this process may write to.

    Args:
        folder: folder of the run.
        journal: its answers or rankings.
        manifest: its manifest from the start.
    """

    def __init__(self, folder: Path, journal: Journal[R], manifest: RunManifest) -> None:
        self.folder = folder
        self.journal = journal
        self.manifest = manifest
        self.written: dict[str, StoredJournal[Any]] = {}
        """Other journals that were written in this session, by name."""
        self._started = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Seconds since this session began."""
        return time.perf_counter() - self._started

    @contextmanager
    def session(self, missing: Callable[[], int], totals: Callable[[], dict[str, Any]]) -> Iterator[None]:
        """Wrap the work of this session: the manifest is written before and after, also if it fails.

        A run with nothing missing is not written to, unless it was killed before it could record its end.

        Args:
            missing: returns the number of questions still to be done.
            totals: returns the totals of the whole run so far.
        """
        if not missing():
            if self.manifest.status != "completed":
                self._close("completed", totals)
            yield
            return
        self._started = time.perf_counter()
        write_manifest(self.folder, structs.replace(self.manifest, status="running", ended_at="", files={}, error=""))
        try:
            yield
        except BaseException as error:
            # If the disk is full, the manifest cannot be written either; the error to report is the first one.
            with suppress(HarnessError):
                self._close(_status_after(error), totals, str(error) if isinstance(error, HarnessError) else "")
                if isinstance(error, _TO_BE_CONTINUED):
                    total = len(self.manifest.question_ids)
                    progress = f"{total - missing()} of {total} {self.journal.path.stem} are kept"
                    error.where = f"run '{self.manifest.run_id}': {progress}"
            raise
        self._close("incomplete" if missing() else "completed", totals)

    def _close(self, status: RunStatus, totals: Callable[[], dict[str, Any]], error: str = "") -> None:
        files = {name: self._hash(name) for name in (ANSWERS, PROMPTS, RANKINGS) if (self.folder / name).exists()}
        closed = structs.replace(
            self.manifest, status=status, ended_at=now(), totals=totals(), files=files, error=error
        )
        write_manifest(self.folder, closed)

    def _hash(self, name: str) -> str:
        if name == self.journal.path.name:
            return self.journal.sha256()
        return self.written[name].sha256 if name in self.written else sha256_file(self.folder / name)


def _status_after(error: BaseException) -> RunStatus:
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    return "incomplete" if isinstance(error, _TO_BE_CONTINUED) else "failed"


def resume_or_create(folder: Path, journal: Journal[R], new: RunManifest, *, extend: bool = False) -> RunManifest:
    """Return the manifest on disk if the run was started before, else `new`.

    Args:
        folder: folder of the run.
        journal: its answers or rankings, locked by the caller.
        new: the manifest with which the present command would begin.
        extend: True if the command may ask more questions.

    Raises:
        HarnessError: a setting that decides the answers or rankings has changed since.
        IntegrityError: the journal was changed since the run wrote it, or no manifest says how it was made.
    """
    if (folder / "run.json").exists():
        before = stored_manifest(folder)
        if before.run_id != new.run_id:
            raise HarnessError(
                f"The folder of run '{new.run_id}' holds run '{before.run_id}'",
                where=str(folder),
                fix=f"Give --run-id {before.run_id}, or another one for a new run",
            )
        after = extended(before, new) if extend else before
        _check_same(after, new, folder)
        _check_untouched(before, journal)
        return structs.replace(after, sweep=after.sweep or new.sweep)
    if journal.records():
        raise IntegrityError(
            f"Run '{new.run_id}' has {journal.path.name} but no run.json, so its settings are unknown",
            where=str(folder),
            fix="Restore run.json from a copy, or choose another --run-id",
        )
    return new


def extended(before: RunManifest, new: RunManifest) -> RunManifest:
    """Return the run extended to the questions of `new`, which must include its own.

    Raises:
        HarnessError: they do not, or the run was merged.
    """
    before_ids, chosen = set(before.question_ids), set(new.question_ids)
    if before_ids == chosen:
        return before
    if before.merged_from:
        raise HarnessError(
            f"Run '{before.run_id}' was merged from shards and cannot be extended",
            fix="Extend each shard and merge them under another --run-id",
        )
    if lost := [name for name in before.question_ids if name not in chosen]:
        raise HarnessError(
            f"Run '{before.run_id}' cannot be extended to these questions: {len(lost)} of its {len(before_ids)} are "
            f"not among them, such as {', '.join(lost[:3])}",
            fix="A run can only be extended with more questions of the same sample; "
            f"it was started with {_shown(before.selection)}",
        )
    return structs.replace(
        before,
        question_ids=new.question_ids,
        selection=new.selection,
        fixtures=before.fixtures | {name: new.fixtures[name] for name in new.fixtures.keys() - before.fixtures.keys()},
        extended_from=(*before.extended_from, EarlierExtent(len(before_ids), before.selection, now())),
    )


def _shown(selection: Selection) -> str:
    """Return a selection as command-line options."""
    options = {"--limit": selection.limit, "--sample": selection.sample, "--shard": selection.shard or None}
    words = [f"{name} {value}" for name, value in options.items() if value is not None]
    words += [f"--seed {selection.seed}"] if selection.sample is not None else []
    return " ".join(words + [f"--question-id {name}" for name in selection.question_ids[:3]]) or "all questions"


def _free_id(folder: Path) -> str:
    """Return an id that no run has: that of a run's folder with the next number."""
    return next(name for number in count(2) if not folder.with_name(name := f"{folder.name}-{number}").exists())


def _check_same(before: RunManifest, new: RunManifest, folder: Path) -> None:
    if changed := _changes(before, new):
        if any(change.startswith(_CODE) for change in changed) and before.settings.memory:
            raise HarnessError(
                f"The code of '{before.settings.memory.preset}' has changed since run '{before.run_id}' was started",
                fix=f"Begin a new run with --run-id {_free_id(folder)} (in Python: name='{_free_id(folder)}')",
            )
        shown = listed([_shorten(change) for change in changed], 5, "; ")
        raise HarnessError(
            f"Run '{before.run_id}' was started with other settings: {shown}",
            fix=f"{_resume_advice(before, new)}, or choose another --run-id for a new run",
        )


def _changes(before: RunManifest, new: RunManifest) -> list[str]:
    """Return what decides answers and has changed. Other settings read other fixtures; the setting is the cause."""
    return differences(_decisive(before), _decisive(new)) or _other_parts(before.fixtures, new.fixtures)


def _resume_advice(before: RunManifest, new: RunManifest) -> str:
    """Return the remedy if a command other than the one that started a run tries to resume it."""
    more = set(before.question_ids) < set(new.question_ids)
    if more and before.settings.plain == new.settings.plain and before.kind == "run":
        return f"Give --extend {before.run_id} to continue with more questions"
    return "Repeat the command that started it"


def _other_parts(before: _Parts, new: _Parts) -> list[str]:
    """Return the fixture parts that differ; ignore parts in only one of the two (such as its own word counts)."""

    def common(parts: _Parts, others: _Parts) -> dict[str, dict[str, str]]:
        return {
            name: {part: digest for part, digest in own.items() if part in others.get(name, {})}
            for name, own in parts.items()
        }

    return differences(common(before, new), common(new, before), "fixtures.")


def _check_untouched(before: RunManifest, journal: Journal[R]) -> None:
    """Raise an error if the journal has another hash than recorded. A killed process recorded none."""
    path = journal.path
    digest = before.files.get(path.name)
    if digest is not None and journal.sha256() != digest:
        raise IntegrityError(
            f"{path.name} was changed after the run ended (its sha256 is not the manifest's)",
            where=str(path),
            fix="Restore the file from a copy: a question is answered once",
        )


def _decisive(manifest: RunManifest) -> dict[str, Any]:
    """Return the values that must not change between sessions, as plain JSON; any secret equals any other."""
    settings = manifest.settings.comparable
    memory = settings.get("memory") or {}
    if str(memory.get("preset")).startswith(HTTP):  # The service may have had no time to say its name.
        settings["memory"] = {key: value for key, value in memory.items() if key != "name"}
    view = {
        "dataset content": manifest.dataset.get("content_sha256"),
        "settings": settings,
        "questions": manifest.question_ids,
    }
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(view))
    return plain


def _shorten(text: str) -> str:
    return text if len(text) <= 160 else text[:159] + "…"
