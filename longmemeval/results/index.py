"""`results/index.jsonl`: every score ever made, one line each, so that scores can be followed over time."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from longmemeval.core.files import sha256_bytes
from longmemeval.core.journal import Journal, read_journal
from longmemeval.judges.template_set import grading
from longmemeval.measures.metrics import Metrics
from longmemeval.results.manifest import RunManifest
from longmemeval.results.settings import RunSettings

INDEX = "index.jsonl"


class IndexEntry(Struct, frozen=True):
    """One run as one judge graded it."""

    run: str
    judge: str
    official: bool
    dataset: str
    dataset_content_sha256: str
    memory: str
    model: str
    settings_sha256: str
    """Hash of everything that decides an answer: equal for repeated runs."""
    metric: str
    accuracy: float
    interval: tuple[float, float]
    n: int
    not_evaluated: int
    ended_at: str
    """Time at which the answers were complete."""
    commit: str
    """The harness's git commit, empty for an installed package."""
    part: str = ""
    """Number of questions out of the total, and how they were chosen; empty for the whole dataset."""
    grading: int = 1
    """Number of this grading of the answers by this judge, from 1: the first is the score."""
    endpoint: str | None = None
    """Address at which the judge was served (`JudgeIdentity.endpoint`)."""
    protocol_note: str = ""
    """The consequence of the benchmark's own protocol for the score; empty without one."""


def record_score(
    results_dir: Path, manifest: RunManifest, metrics: Metrics, part: str = "", protocol_note: str = ""
) -> None:
    """Append the score of a run unless the index already has the same.

    Raises:
        IntegrityError: a line is damaged.
        HarnessError: the file cannot be written.
    """
    entry = index_entry(manifest, metrics, part, protocol_note)
    with Journal(results_dir / INDEX, IndexEntry, wait=True) as index:
        newest = {(entry.run, entry.judge): entry for entry in index.records()}
        if newest.get((entry.run, entry.judge)) != entry:
            index.append(entry)


def read_index(results_dir: Path) -> list[IndexEntry]:
    """Return all lines, oldest first; if a run was graded again by a judge, the newest counts.

    Raises:
        IntegrityError: a line is damaged.
    """
    return read_journal(results_dir / INDEX, IndexEntry)


def settings_sha256(manifest: RunManifest) -> str:
    """Return the hash of what repeated runs share: data, questions and all settings but the number of the repeat."""
    return _hash(manifest, manifest.settings.comparable)


def earlier_settings_sha256(manifest: RunManifest, stored: RunSettings) -> str:
    """Return the hash that a version recorded which stored the secrets of memories.

    Args:
        stored: the settings as they are in `run.json`.
    """
    return _hash(manifest, stored.plain)


def _hash(manifest: RunManifest, settings: Mapping[str, Any]) -> str:
    shared = {name: value for name, value in settings.items() if name != "repeat"}
    decisive = [manifest.dataset.get("content_sha256"), manifest.question_ids, shared]
    return sha256_bytes(msgspec.json.encode(decisive, order="sorted"))


def index_entry(manifest: RunManifest, metrics: Metrics, part: str = "", protocol_note: str = "") -> IndexEntry:
    """Return the line of a run as one judge graded it.

    Args:
        metrics: its scores by the judge.
        part: the part of the dataset (`RunQuestions.part`).
        protocol_note: the note on its protocol (`RunQuestions.protocol_note`).
    """
    settings = manifest.settings
    return IndexEntry(
        run=manifest.run_id,
        judge=metrics.judge.id,
        official=metrics.judge.official,
        dataset=manifest.dataset["name"],
        dataset_content_sha256=manifest.dataset["content_sha256"],
        memory=settings.memory_name,
        model=settings.model_name,
        settings_sha256=settings_sha256(manifest),
        metric=metrics.judge.metric,
        accuracy=metrics.overall.accuracy,
        interval=metrics.overall.interval,
        n=metrics.overall.n,
        not_evaluated=metrics.overall.not_evaluated,
        ended_at=manifest.ended_at,
        commit=(manifest.environment.get("git") or {}).get("commit", ""),
        part=part,
        grading=grading(metrics.judge),
        endpoint=metrics.judge.endpoint,
        protocol_note=protocol_note,
    )
